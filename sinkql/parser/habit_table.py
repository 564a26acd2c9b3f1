"""Forms of other systems' SQL: what stands before one, how it begins, and what is written here instead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Habit:
    """Hold patterns of the words `before` a form and of its beginning, and what to say; {0} is what `found` matched.

    `back` is how many words before it are what is wrong, and not itself.
    """

    before: str
    found: str
    message: str
    hint: str
    back: int = 0


NAME = r"(IF NOT EXISTS )?\S+( \. \S+)*"
_NO_STATEMENT = "{0} is no statement here"
NO_CLAUSE = "there is no clause {0}"
INTO_ICEBERG = "INTO ICEBERG CATALOG CONNECTION name (NAMESPACE = '…', TABLE = '…')"
_FROM_SYSTEM = "FROM KAFKA CONNECTION name (TOPIC = '…') or FROM FILES (PATH = '…')"

_CHARACTERS = (
    Habit(".*", r"` \S+ `|`", "backticks are no quotes", "Write a name as it is or in double quotes, a string as '…'."),
    Habit(".*", "#|//", '"{0}" begins no comment', "Begin comments with --."),
    Habit(
        ".*", r"{ [{%]", "a template is not filled in",
        "Render the template first, or write the name itself.",
    ),
    Habit(".*", r'{ (["\'}]|\S+ :)', "options are not JSON", "Write them in brackets: (NAME = 'value', …)."),
    Habit(
        ".*", r":~ \S+", "a variable has no value", "Give it one on the command line: sinkql exec -v name=value."
    ),
)  # fmt: skip

_STATEMENTS = (
    Habit("", "MERGE( INTO)?", _NO_STATEMENT, f"Use CREATE SINK … {INTO_ICEBERG} KEY (…) MODE UPSERT."),
    Habit("", "USE( DATABASE| SCHEMA| CATALOG)?", _NO_STATEMENT, "Use SET search_path = name."),
    Habit("", "DESCRIBE|DESC", _NO_STATEMENT, "Use SHOW COLUMNS FROM name, or SHOW CREATE SOURCE name."),
    Habit("", "TRUNCATE( TABLE)?", _NO_STATEMENT, "Use DELETE FROM name."),
    Habit(
        "", "REFRESH( MATERIALIZED VIEW| TABLE)?", _NO_STATEMENT,
        "Leave {0} out: a materialized view is always up to date.",
    ),
    Habit("", "VACUUM|ANALYZE", _NO_STATEMENT, "Leave {0} out: nothing here needs it."),
    Habit("", "OPTIMIZE( TABLE)?", "OPTIMIZE is for sinks", "Use OPTIMIZE SINK name."),
    Habit("", "LIST|PRINT", _NO_STATEMENT, "Use SHOW SOURCES, SHOW SINKS, or SELECT * FROM name LIMIT 10."),
    Habit("", "TERMINATE|KILL|CANCEL", _NO_STATEMENT, "Use DROP SINK name, or sinkql stop name."),
    Habit("", "LOAD( DATA)?|IMPORT|UNLOAD|EXPORT", _NO_STATEMENT, "Use CREATE SOURCE … FROM FILES (PATH = '…')."),
    Habit("", "UPSERT INTO|REPLACE INTO", _NO_STATEMENT, f"Use CREATE SINK … {INTO_ICEBERG} KEY (…) MODE UPSERT."),
    Habit("", "(BEGIN|EXECUTE) STATEMENT SET", _NO_STATEMENT, "Leave {0} out; write one CREATE SINK for each target."),
    Habit("BEGIN|EXECUTE", "STATEMENT( SET)?", _NO_STATEMENT, "Leave it out; write one CREATE SINK for each target."),
    Habit("", "CALL|EXEC|DO|DECLARE|DEFINE|PRAGMA|ATTACH|DETACH|CACHE|ADD", _NO_STATEMENT, "Leave {0} out."),
    Habit("SET", "'", "a setting's name is not in quotes", "Write SET name = value."),
    Habit(
        r"SET( SESSION| LOCAL)? \S+( \. \S+)*", r"\.", "settings have names of one word",
        "Write Spark's into CREATE CLUSTER name (SIZE = '…', CONF = MAP['…' => '…']).",
    ),
    Habit(
        "INSERT", "OVERWRITE|IGNORE|OR( \\S+)?", "INSERT {0} is no statement here", "Use INSERT INTO table VALUES (…).",
    ),
)  # fmt: skip

_CREATE = (
    Habit(
        "CREATE( OR REPLACE)?", "STREAM( TABLE)?", "there are no streams to create",
        "Use CREATE SOURCE for what is read, CREATE MATERIALIZED VIEW for what is computed from it.",
    ),
    Habit(
        "CREATE OR", "REFRESH( \\S+)( TABLE| VIEW)?", "there is no {0} to create",
        "Use CREATE MATERIALIZED VIEW name AS SELECT …: it is kept up to date.",
    ),
    Habit(
        "CREATE( OR REPLACE)?", "(STREAMING|LIVE|DYNAMIC)( LIVE)? (TABLE|VIEW)", "there is no {0} to create",
        "Use CREATE MATERIALIZED VIEW name AS SELECT …: it is kept up to date.",
    ),
    Habit(
        "CREATE( OR REPLACE)?", "(EXTERNAL|FOREIGN)( TABLE)?", "there is no {0} to create",
        "Use CREATE SOURCE name (…) FROM FILES (PATH = '…').",
    ),
    Habit(
        "CREATE( OR REPLACE)?", "UNLOGGED|TRANSIENT|GLOBAL|VIRTUAL", "{0} is not known here",
        "Leave the word out.",
    ),
    Habit(
        "CREATE( OR REPLACE)?", "PIPELINE|PIPE|TASK|JOB|FLOW|STREAMING JOB|CONNECTOR|ROUTINE LOAD",
        "there is no {0} to create", "Use CREATE SINK: a sink is the job that writes its table.",
    ),
    Habit(
        "CREATE (SOURCE|SINK) CONNECTOR", r"\S+", "there are no connectors to create",
        "Use CREATE CONNECTION for the system, and CREATE SOURCE or CREATE SINK for what is read or written.",
    ),
    Habit(
        "CREATE", r"(UNIQUE|CLUSTERED|FULLTEXT) INDEX|INDEX CONCURRENTLY", "indexes are not supported",
        "Use CREATE MATERIALIZED VIEW: it needs no index to be up to date.",
    ),
    Habit(
        "CREATE INDEX CONCURRENTLY", r"\S+", "indexes are not supported",
        "Use CREATE MATERIALIZED VIEW: it needs no index to be up to date.", back=1,
    ),
    Habit(
        "CREATE( OR REPLACE)?", "CATALOG|SERVER|STAGE|STORAGE INTEGRATION|INTEGRATION|EXTERNAL CATALOG",
        "there is no {0} to create",
        "Use CREATE CONNECTION name TO ICEBERG CATALOG (CATALOG TYPE = 'rest', URL = '…'), or TO AWS (…).",
    ),
    Habit(
        "CREATE", "PUBLICATION|SUBSCRIPTION", "there is no {0} to create",
        "Create it in Postgres; here CREATE SOURCE … FROM POSTGRES CONNECTION name (PUBLICATION = '…') reads it.",
    ),
    Habit(
        "CREATE( OR REPLACE)?", "TRIGGER|PROCEDURE|EXTENSION|SEQUENCE|DOMAIN|AGGREGATE|RULE|POLICY|MODEL|WAREHOUSE",
        "there is no {0} to create", "Leave it out; use sources, views and sinks.",
    ),
    Habit(
        "CREATE OR REPLACE", "SINK|SOURCE|CONNECTION|SECRET|CLUSTER|TABLE|SCHEMA|DATABASE", "OR REPLACE is for views",
        "Leave OR REPLACE out, and write DROP {0} IF EXISTS name; before it.", back=2,
    ),
    Habit(
        f"CREATE SECRET {NAME}", "WITH|\\(", "a secret has no options", "Write CREATE SECRET name AS env_var('NAME').",
    ),
    Habit(
        f"CREATE CONNECTION {NAME}", "WITH|TYPE|USING|AS|\\(", "a connection names its type after TO",
        "Write TO ICEBERG CATALOG (CATALOG TYPE = '…', …), TO AWS (…) or TO KAFKA (…).",
    ),
)  # fmt: skip

_SOURCES = (
    Habit(
        f"CREATE SOURCE {NAME}( \\(.*\\))?", "WITH", "a source names its system after FROM",
        f"Write {_FROM_SYSTEM}; address and password stand in CREATE CONNECTION.",
    ),
    Habit(
        "CREATE SOURCE .*FROM KAFKA", r"BROKERS?|TOPIC|\(", "a Kafka source names a connection",
        "Write FROM KAFKA CONNECTION name (TOPIC = '…'), after CREATE CONNECTION name TO KAFKA (BROKER = '…').",
    ),
    Habit(
        "CREATE SOURCE .*FROM", "S3|GCS|AZURE|HTTP|PARQUET|CSV|JSON|DELTA|PUBSUB|KINESIS|PULSAR|MONGODB|ORACLE|TABLE",
        "there are no sources from {0}", "Use FROM FILES (PATH = '…') with FORMAT JSON, CSV, PARQUET or AVRO.",
    ),
    Habit(
        "CREATE SOURCE .*FROM FILES( CONNECTION \\S+)?", "'", "the options of files stand in brackets",
        "Write FROM FILES (PATH = '…').",
    ),
    Habit(
        "CREATE SOURCE .*GENERATOR", r"\(|FOR|FORMAT", "the load generator has no name",
        "Write LOAD GENERATOR COUNTER, or another one.",
    ),
    Habit("CREATE SOURCE .*FROM", "'", "a source names its system after FROM", "Write FROM FILES (PATH = '…')."),
    Habit(
        "CREATE .*FORMAT", "PLAIN", "there is no FORMAT PLAIN ENCODE …",
        "Write FORMAT JSON, and ENVELOPE UPSERT or ENVELOPE DEBEZIUM if the rows overwrite others.",
    ),
    Habit(
        "CREATE .*FORMAT", "(UPSERT|DEBEZIUM|APPEND)( ENCODE)?", "{0} is an envelope, no format",
        "Write FORMAT JSON ENVELOPE UPSERT, or ENVELOPE DEBEZIUM.",
    ),
    Habit(
        "CREATE .*FORMAT", "XML|ORC|YAML|XLSX|EXCEL|ARROW|THRIFT|MSGPACK|DELTA", "there is no FORMAT {0}",
        "Use FORMAT JSON or FORMAT CSV.",
    ),
    Habit("CREATE .*FORMAT", "NDJSON|JSONL|JSON_LINES|JSONLINES", "there is no FORMAT {0}", "Write FORMAT JSON."),
    Habit("CREATE .*FORMAT", "TSV", "there is no FORMAT TSV", r"Write FORMAT CSV DELIMITED BY E'\t'."),
    Habit("CREATE .*FORMAT .*", "ENCODE", "there is no FORMAT … ENCODE", "Write FORMAT JSON."),
    Habit(
        "CREATE (SOURCE|TABLE) .*[(,] WATERMARK FOR", r"\S+", "there are no watermarks",
        "Leave WATERMARK out: results are exact without it.", back=2,
    ),
    Habit(
        "CREATE SOURCE .*", "(PRIMARY )?KEY(?! FORMAT)", "a source's key stands behind its columns",
        "Write PRIMARY KEY (column) NOT ENFORCED as the last item in the brackets.",
    ),
    Habit(
        "CREATE SOURCE .*[(] PRIMARY KEY [(]", r"\S+", "a source's key stands behind its columns",
        "Write the columns before it: (column type, …, PRIMARY KEY (column) NOT ENFORCED).", back=3,
    ),
    Habit(
        "CREATE (SOURCE|TABLE) .*", "METADATA|VIRTUAL", "there are no metadata columns",
        "Write INCLUDE TIMESTAMP, PARTITION, OFFSET or KEY after the format.",
    ),
    Habit(
        "CREATE SOURCE .*[(,] \\S+ .*", "(GENERATED|AS|DEFAULT|COMMENT|REFERENCES|CHECK|UNIQUE)",
        "a source's column has a name and a type", "Leave {0} out; compute in a view: CREATE VIEW v AS SELECT ….",
    ),
    Habit(
        "CREATE (SOURCE|TABLE) .*(STRUCT|ARRAY|MAP|ROW)( [<(])?", r"<|\(|\w+", "there is no such nested type",
        "Give the column the type jsonb, and take its parts in a view: data->>'name'.",
    ),
)  # fmt: skip

_TABLES = (
    Habit(
        "CREATE TABLE .*WITH \\(", "'", "a table has no connector",
        f"Use CREATE SOURCE name (…) {_FROM_SYSTEM} to read, CREATE SINK to write.",
    ),
    Habit(
        "CREATE TABLE .*", "USING( \\S+)?", "a table has no format",
        f"A sink makes the table: CREATE SINK name FROM relation {INTO_ICEBERG}.",
    ),
    Habit(
        f"CREATE( TEMP| TEMPORARY)? TABLE {NAME}.*", "AS", "a table is not made from a query",
        "Use CREATE MATERIALIZED VIEW name AS SELECT ….",
    ),
    Habit(
        "CREATE (TABLE|(MATERIALIZED )?VIEW|SOURCE|SINK) .*", "PARTITIONED( BY)?", NO_CLAUSE,
        "Write PARTITION BY (day(column)) in CREATE SINK.",
    ),
    Habit(
        "CREATE (TABLE|(MATERIALIZED )?VIEW|SOURCE|SINK) .*",
        "TBLPROPERTIES|CLUSTER(ED)? BY|LOCATION|STORED( AS)?|ROW FORMAT|DISTRIBUTED( BY)?|ENGINE|DUPLICATE KEY"
        "|DISTKEY|SORTKEY|INHERITS|TABLESPACE|AUTO REFRESH|SCHEDULE|TARGET_LAG|COMMENT",
        NO_CLAUSE, "Leave {0} out; options of a sink stand in WITH (…) at its end.",
    ),
    Habit(
        "CREATE (TABLE|SOURCE) .*", "AUTO_INCREMENT|AUTOINCREMENT|IDENTITY|GENERATED|ON (UPDATE|DELETE)|INDEX|FULLTEXT",
        "{0} is not known here", "Leave it out; give the values in INSERT.",
    ),
    Habit(
        f"ALTER TABLE {NAME}", "(DROP|ALTER|RENAME) COLUMN|MODIFY|CHANGE", "a table's columns stay as they are",
        "Leave columns out and compute others in a view: CREATE VIEW v AS SELECT ….",
    ),
    Habit(
        "INSERT .*", "ON (CONFLICT|DUPLICATE)( \\S+)?|RETURNING", NO_CLAUSE,
        "Leave {0} out; DELETE or UPDATE the row before, or use a sink with KEY (…) MODE UPSERT.",
    ),
)  # fmt: skip

HABITS = (*_CHARACTERS, *_STATEMENTS, *_CREATE, *_SOURCES, *_TABLES)
"""All forms but those of views and sinks."""
