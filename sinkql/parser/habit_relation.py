"""Forms of other systems' SQL in views and sinks: what stands before one, how it begins, what is written."""

from __future__ import annotations

from sinkql.parser.habit_table import INTO_ICEBERG, NAME, NO_CLAUSE, Habit

_VIEWS = (
    Habit(
        "CREATE OR REPLACE .*VIEW( IF)?", "IF NOT EXISTS|NOT EXISTS", "OR REPLACE and IF NOT EXISTS exclude each other",
        "Leave one of them out.",
    ),
    Habit(
        f"CREATE (OR REPLACE )?MATERIALIZED VIEW {NAME}( \\(.*\\))?", "FOR", "only a replacement is FOR another view",
        "Write CREATE REPLACEMENT MATERIALIZED VIEW name FOR view, or leave FOR out.",
    ),
    Habit(
        f"CREATE (OR REPLACE )?(TEMP |TEMPORARY )?VIEW {NAME}( \\(.*\\))?", "WITH(?= \\()",
        "a plain view has no options", "Write CREATE MATERIALIZED VIEW, or leave WITH (…) out.",
    ),
    Habit(
        f"ALTER VIEW {NAME} SET", "CLUSTER", "a plain view runs in no cluster",
        "Write ALTER MATERIALIZED VIEW name SET CLUSTER name if it is one.",
    ),
    Habit(
        r"CREATE .*\S", "IF( NOT)? EXISTS", "{0} stands before the name", "Write CREATE … {0} name.",
    ),
    Habit(
        f"CREATE (OR REPLACE )?(TEMP |TEMPORARY )?VIEW {NAME}( \\(.*\\))?", "IN( CLUSTER)?",
        "a plain view runs in no cluster", "Write CREATE MATERIALIZED VIEW, or leave IN CLUSTER out.",
    ),
    Habit(
        r"CREATE SOURCE .*FROM FILES .*\)", r"\(", "the columns stand behind the source's name",
        "Write CREATE SOURCE name (column type, …) FROM FILES (PATH = '…').",
    ),
    Habit(
        f"CREATE (OR REPLACE )?((TEMP |TEMPORARY )?VIEW|MATERIALIZED VIEW) {NAME} \\(", "SELECT|WITH|VALUES",
        "AS is missing before the query", "Write AS before the bracket: CREATE VIEW name AS (SELECT …).",
    ),
)  # fmt: skip

_SINKS = (
    Habit(
        "CREATE SINK .*INTO KAFKA .*", "MODE( UPSERT| APPEND)?", "a Kafka sink has no MODE",
        "Write ENVELOPE UPSERT with a KEY (…), or ENVELOPE DEBEZIUM.",
    ),
    Habit(
        "CREATE SINK .*INTO KAFKA .*ENVELOPE", "APPEND|NONE", "a Kafka sink has no ENVELOPE {0}",
        "Write ENVELOPE UPSERT with a KEY (…), or ENVELOPE DEBEZIUM.",
    ),
    Habit(
        "CREATE SINK .*INTO KAFKA .*KEY \\(.*\\)", "ENFORCED", "a Kafka sink's key has no ENFORCED",
        "Leave ENFORCED out: a key is enforced unless NOT ENFORCED says otherwise.",
    ),
    Habit(
        "CREATE SINK .*INTO ICEBERG .*(ENVELOPE|MODE)", "DEBEZIUM|MATERIALIZE", "an Iceberg sink has no ENVELOPE {0}",
        "Write KEY (…) MODE UPSERT, or MODE APPEND for all changes with their time.",
    ),
    Habit(
        f"CREATE SINK {NAME}( IN CLUSTER \\S+)? FROM {NAME}", ",", "a sink writes one relation",
        "Write CREATE MATERIALIZED VIEW v AS SELECT … UNION ALL SELECT …; and then CREATE SINK … FROM v.",
    ),
    Habit(
        f"CREATE SINK {NAME}", "AS( SELECT| WITH)?", "a sink writes a relation, not a query",
        f"Write CREATE MATERIALIZED VIEW v AS SELECT …; and then CREATE SINK … FROM v {INTO_ICEBERG}.",
    ),
    Habit(
        f"CREATE SINK {NAME}( IN CLUSTER \\S+)? FROM", "\\(|SELECT", "a sink writes a relation, not a query",
        f"Write CREATE MATERIALIZED VIEW v AS SELECT …; and then CREATE SINK … FROM v {INTO_ICEBERG}.",
    ),
    Habit(
        f"CREATE SINK {NAME}( IN CLUSTER \\S+)? FROM {NAME}", "WITH|TO|USING", "a sink names its target after INTO",
        f"Write {INTO_ICEBERG} KEY (…) MODE UPSERT.",
    ),
    Habit(
        "CREATE SINK .*INTO",
        "S3|GCS|DELTA|PARQUET|FILES|CSV|JSON|POSTGRES|MYSQL|SNOWFLAKE|BIGQUERY|REDIS|ELASTICSEARCH|CLICKHOUSE|HUDI"
        "|TABLE|JDBC|PUBSUB|KINESIS|ICEBERG \\(|ICEBERG TABLE|ICEBERG '",
        "there are no sinks into {0}", f"Write {INTO_ICEBERG}.",
    ),
    Habit(
        "CREATE SINK .*INTO ICEBERG", "\\(|TABLE|'|CONNECTION", "the target is an Iceberg catalog",
        f"Write {INTO_ICEBERG}.",
    ),
    Habit("CREATE SINK .*", "(PRIMARY|UNIQUE|MERGE) KEY", "a sink's key is no {0}", "Write KEY (column, …)."),
    Habit(
        "CREATE SINK .*MODE", "(?!APPEND|UPSERT)(OVERWRITE|COMPLETE|UPDATE|MERGE|REPLACE|INSERT|RETRACT|DELETE|NONE|=)",
        "there is no MODE {0}", "Write MODE UPSERT with a KEY (…), or MODE APPEND.",
    ),
    Habit("CREATE SINK .*MODE", "'", "a mode is not in quotes", "Write MODE UPSERT with a KEY (…), or MODE APPEND."),
    Habit(
        "CREATE SINK .*", "(FORCE_)?APPEND_ONLY|TYPE", "there is no clause {0}",
        "Write MODE APPEND, or KEY (…) MODE UPSERT.",
    ),
    Habit(
        "CREATE SINK .*", "WHERE|SELECT|GROUP BY", "a sink writes a relation as it is",
        "Filter and compute in CREATE MATERIALIZED VIEW v AS SELECT …, and sink FROM v.",
    ),
    Habit(
        "CREATE SINK .*(?<! WITH)", "TRIGGER|EVERY|CHECKPOINT|COMMIT|REFRESH", NO_CLAUSE,
        "Write WITH (COMMIT INTERVAL = '10s') at the sink's end.",
    ),
)  # fmt: skip

RELATION_HABITS = (*_VIEWS, *_SINKS)
"""All forms of views and sinks."""
