"""Views of an older version's catalog keep their columns, and so do the tables of their sinks."""

from __future__ import annotations

from sinkql.catalog.address import Address
from sinkql.catalog.open_store import open_store
from sinkql.catalog.system import LAYOUT
from sinkql.session import Session

_SCRIPT = """
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);
CREATE MATERIALIZED VIEW v AS SELECT round(counter * 1.50, 1) AS x FROM n;
CREATE VIEW w AS SELECT x * 2 AS y FROM v;
"""


def _types(place: Address, *names: str) -> list[str]:
    session = Session(place)
    return [str(row[2]) for name in names for row in session.execute(f"SHOW COLUMNS FROM {name}")[0].rows]


def _as_of_version_1(place: Address) -> None:
    with open_store(place, LAYOUT).write() as connection:
        table = "UPDATE catalog_version SET version = 1"
        connection.execute(table if connection.shared else "PRAGMA user_version = 1")
        connection.execute("UPDATE items SET details = replace(details, 'numeric(38,1)', 'numeric(38,10)')")


def test_views_from_before_keep_the_types_of_their_columns(place: Address) -> None:
    Session(place).execute(_SCRIPT)
    assert _types(place, "v", "w") == ["numeric(38,1)", "numeric(38,1)"]
    _as_of_version_1(place)
    assert _types(place, "v", "w") == ["numeric(38,10)", "numeric(38,10)"]

    again = Session(place).execute(_SCRIPT)
    assert all("already exists" in each.notices[0].message for each in again)
    Session(place).execute(
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT round(counter * 1.50, 1) AS x, 1.5 AS more FROM n;"
        "ALTER VIEW w RENAME TO u;"
    )
    assert _types(place, "v", "u") == ["numeric(38,10)"] * 3

    Session(place).execute("DROP VIEW u; DROP MATERIALIZED VIEW v;")
    Session(place).execute(_SCRIPT)
    assert _types(place, "v", "w") == ["numeric(38,1)", "numeric(38,1)"]
