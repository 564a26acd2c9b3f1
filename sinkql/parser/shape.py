"""A statement that is wrong → the sentence that shows how such statements are written."""

from __future__ import annotations

from collections.abc import Sequence

from sinkql.parser.lexical import Lexeme

_SHAPES = {
    "CREATE SECRET": "CREATE SECRET name AS env_var('NAME');",
    "CREATE CONNECTION": "CREATE CONNECTION name TO ICEBERG CATALOG (CATALOG TYPE = 'rest', URL = '…');",
    "CREATE CLUSTER": "CREATE CLUSTER name (SIZE = 'local[2]');",
    "CREATE SOURCE": "CREATE SOURCE name (column type, …) FROM FILES (PATH = '…') FORMAT JSON;",
    "CREATE TABLE": "CREATE TABLE name (column type, …);",
    "CREATE VIEW": "CREATE VIEW name AS SELECT …;",
    "CREATE OR REPLACE VIEW": "CREATE OR REPLACE VIEW name AS SELECT …;",
    "CREATE MATERIALIZED VIEW": "CREATE MATERIALIZED VIEW name IN CLUSTER name AS SELECT …;",
    "CREATE SINK": (
        "CREATE SINK name FROM relation INTO ICEBERG CATALOG CONNECTION name (NAMESPACE = '…', TABLE = '…') "
        "KEY (column) MODE UPSERT WITH (COMMIT INTERVAL = '10s');"
    ),
    "DROP": "DROP SINK name;",
    "INSERT": "INSERT INTO table (column, …) VALUES (…);",
    "UPDATE": "UPDATE table SET column = value WHERE …;",
    "DELETE": "DELETE FROM table WHERE …;",
    "SHOW": "SHOW SINKS; or SHOW CREATE SINK name;",
    "SET": "SET name = value;",
    "ALTER SYSTEM": "ALTER SYSTEM SET name = value;",
    "ALTER SINK": "ALTER SINK name SET (COMMIT INTERVAL = '10s');",
    "ALTER CONNECTION": "ALTER CONNECTION name SET (option = value);",
    "EXPLAIN": "EXPLAIN PHYSICAL PLAN FOR SINK name;",
}


def shape(lexemes: Sequence[Lexeme]) -> str | None:
    """Return the form of the statement that these begin; None for a beginning that says nothing."""
    for count in (3, 2, 1):
        found = _SHAPES.get(" ".join(lexeme.keyword for lexeme in lexemes[:count]))
        if found is not None:
            return f"The form is {found}"
    return None
