"""Words with a meaning of their own: reserved ones, option names, connection types, and options that hold secrets."""

RESERVED = frozenset(
    {
        "WITH", "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH",
        "OPTIONS", "RETURNING", "UNION", "EXCEPT", "INTERSECT",
    }
)  # fmt: skip
"""Words that are names only in quotes, or after AS."""

QUOTED = RESERVED | frozenset(
    {
        "TRUE", "FALSE", "NULL", "ARRAY", "CASE", "CAST", "NOT", "IF", "IN", "ALL", "DEFAULT", "SECRET", "INTERVAL",
        "MAP", "SESSION", "LOCAL", "PRIMARY", "CONSTRAINT", "FOREIGN", "ON", "AT",
    }
)  # fmt: skip
"""Words that are printed in quotes: reserved, or a keyword somewhere where a name may stand too."""

SHOWN = frozenset(
    {
        "CLUSTERS", "COLUMNS", "CONNECTIONS", "CREATE", "DATABASES", "INDEXES", "MATERIALIZED", "OBJECTS", "PRIVILEGES",
        "REDACTED", "ROLES", "SCHEMAS", "SECRETS", "SINKS", "SOURCES", "SUBSOURCES", "TABLES", "TIME", "TRANSACTION",
        "TYPES", "VIEWS",
    }
)  # fmt: skip
"""Words that after SHOW begin something else than a variable's name."""

SET = frozenset({"NAMES", "SCHEMA", "TIME", "TRANSACTION"})
"""Words that after SET begin something else than a variable's name."""

SENSITIVE = frozenset(
    {
        "ACCESS KEY ID", "CREDENTIAL", "PASSWORD", "SASL PASSWORD", "SASL USERNAME", "SECRET ACCESS KEY",
        "SERVICE ACCOUNT KEY", "SESSION TOKEN", "SSL CERTIFICATE", "SSL CERTIFICATE AUTHORITY", "SSL KEY", "USER",
        "USERNAME",
    }
)  # fmt: skip
"""Options whose literals are secrets."""

SECRET_ALONE = frozenset(
    {"CREDENTIAL", "PASSWORD", "SASL PASSWORD", "SECRET ACCESS KEY", "SERVICE ACCOUNT KEY", "SESSION TOKEN", "SSL KEY"}
)
"""Options whose literals are secrets even without the other half of a pair."""

SECRET_FUNCTIONS = {
    "env_var": ("NAME",),
    "file": ("path",),
    "keyring": ("service", "name"),
    "vault": ("path", "field"),
    "aws_secret": ("id", "field"),
    "decode": ("…", "base64"),
}
"""What CREATE SECRET … AS may call, and its arguments as hints show them; the field of `aws_secret` may be left out."""

CONNECTION_KINDS = frozenset(
    {
        "AWS", "AWS PRIVATELINK", "AWS GLUE SCHEMA REGISTRY", "GCP", "KAFKA", "CONFLUENT SCHEMA REGISTRY", "POSTGRES",
        "SSH TUNNEL", "SQL SERVER", "MYSQL", "ICEBERG CATALOG",
    }
)  # fmt: skip
"""Connection types. The connectors decide which there are; these tell where a type ends and its options begin."""

OPTION_NAMES = SENSITIVE | frozenset(
    {
        # connections
        "ACCESS DELEGATION", "ASSUME ROLE ARN", "ASSUME ROLE SESSION NAME", "AVAILABILITY ZONE", "AVAILABILITY ZONES",
        "AWS CONNECTION", "AWS PRIVATELINK", "BROKER", "BROKERS", "CATALOG TYPE", "DATABASE", "ENDPOINT",
        "GCP CONNECTION", "HOST", "OAUTH2 SERVER URL", "PORT", "PROGRESS TOPIC", "PROGRESS TOPIC REPLICATION FACTOR",
        "REGION", "REGISTRY", "SASL MECHANISMS", "SCOPE", "SECURITY PROTOCOL", "SERVICE NAME", "SSH TUNNEL",
        "SSL MODE", "STORAGE PROVIDER", "URL", "VALIDATE", "WAREHOUSE",
        # clusters
        "AUTO SCALING STRATEGY", "EXPERIMENTAL ARRANGEMENT COMPRESSION", "HYDRATION SIZE", "HYDRATION TIME ESTIMATE",
        "LINGER DURATION",
        "CONF", "CORES", "DISK", "EXECUTORS", "INTROSPECTION DEBUGGING", "INTROSPECTION INTERVAL", "MANAGED", "MASTER",
        "MEMORY", "REPLICAS", "REPLICATION FACTOR", "SCHEDULE", "SIZE", "WORKLOAD CLASS",
        # sources
        "AS OF", "BATCH SIZE", "EXCLUDE COLUMNS", "FOLLOW", "GLOB", "GROUP ID PREFIX", "IGNORE COLUMNS", "KEYS",
        "MAX CARDINALITY", "MAX FILES PER COMMIT", "ON ERROR", "PARTITIONS", "PATH", "PUBLICATION", "RECURSIVE",
        "RETAIN HISTORY", "ROWS PER SECOND", "SCALE FACTOR", "SEED", "SNAPSHOT ROUNDS", "START OFFSET",
        "START TIMESTAMP", "TEXT COLUMNS", "TICK INTERVAL", "TIMESTAMP INTERVAL", "TOPIC",
        "TOPIC METADATA REFRESH INTERVAL", "TRANSACTIONAL SNAPSHOT", "UP TO", "VALUE SIZE",
        # schemas of formats
        "AVRO KEY FULLNAME", "AVRO VALUE FULLNAME", "COMPATIBILITY LEVEL", "CONFLUENT WIRE FORMAT",
        "KEY COMPATIBILITY LEVEL", "NULL DEFAULTS", "SCHEMA NAME", "VALUE COMPATIBILITY LEVEL",
        # views
        "ASSERT NOT NULL", "PARTITION BY", "REFRESH",
        # sinks
        "COMMIT INTERVAL", "COMPRESSION TYPE", "EXISTING ROWS", "FORMAT VERSION", "LEGACY IDS", "MAINTENANCE",
        "MAX ROWS PER COMMIT", "NAMESPACE", "PARTITION STRATEGY", "PROGRESS GROUP ID PREFIX", "RETAIN SNAPSHOTS",
        "SNAPSHOT", "TABLE", "TOPIC CONFIG", "TOPIC PARTITION COUNT", "TOPIC REPLICATION FACTOR",
        "TRANSACTIONAL ID PREFIX", "VERSION",
    }
)  # fmt: skip
"""Option names after which `=` may be left out before a bare word: `SIZE small`. Any other name needs it there."""

ODD_CHARACTERS = "\u0085\u00a0\u00ab\u00b4\u00bb\u1680\u2000-\u206f\u2212\u3000\ufeff\uff08\uff09\uff0c\uff1b\uff1d"
"""Characters, as in a regular expression's brackets, that word processors put for quotes, dashes and spaces."""

QUERY = RESERVED | frozenset(
    {
        "ALL", "AND", "ANY", "ARRAY", "AS", "ASC", "BETWEEN", "BY", "CASE", "CAST", "CROSS", "DATE", "DESC", "DISTINCT",
        "ELSE", "END", "EXISTS", "FALSE", "FILTER", "FIRST", "FULL", "ILIKE", "IN", "INNER", "INTERVAL", "IS", "JOIN",
        "LAST", "LATERAL", "LEFT", "LIKE", "NATURAL", "NOT", "NULL", "NULLS", "ON", "OR", "OUTER", "OVER", "PARTITION",
        "RECURSIVE", "RIGHT", "SOME", "THEN", "TIMESTAMP", "TRUE", "USING", "VALUES", "WHEN",
    }
)  # fmt: skip
"""Words that are keywords inside queries, for highlighting and completion."""

RUNS = {
    "CSV_WITH": "WITH",
    "DOC_ON": "DOC ON",
    "KEY_STRATEGY": "KEY STRATEGY",
    "PARTITION_BY": "PARTITION BY",
    "VALUE_STRATEGY": "VALUE STRATEGY",
}
"""Words that are one terminal of the grammar: what begins alike is told apart by more than one word ahead."""
