"""Views of an older version's catalog keep their columns, and so do the tables of their sinks."""

from __future__ import annotations

from datetime import timedelta

from sinkql.catalog.address import Address
from sinkql.catalog.open_store import open_store
from sinkql.catalog.system import LAYOUT
from sinkql.session import Session

_SCRIPT = """
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);
CREATE MATERIALIZED VIEW v AS SELECT round(counter * 1.50, 1) AS x FROM n;
CREATE VIEW w AS SELECT x * 2 AS y FROM v;
"""
_SINK = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE CLUSTER c (SIZE = 'local[1]');
CREATE SINK s IN CLUSTER c FROM v INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  MODE APPEND WITH (COMMIT INTERVAL = '1s');
"""


def _types(place: Address, *names: str) -> list[str]:
    session = Session(place)
    return [str(row[2]) for name in names for row in session.execute(f"SHOW COLUMNS FROM {name}")[0].rows]


def _as_of_version(place: Address, version: int) -> None:
    with open_store(place, LAYOUT).write() as connection:
        if not connection.shared:  # SQLite's views would name the column that is dropped
            query = "SELECT type, name FROM sqlite_master WHERE type IN ('view', 'trigger')"
            for row in connection.all(query):
                connection.execute(f'DROP {row.type} "{row.name}"')
        connection.execute("ALTER TABLE progress DROP COLUMN in_spark")
        table = f"UPDATE catalog_version SET version = {version}"
        connection.execute(table if connection.shared else f"PRAGMA user_version = {version}")


def _as_of_version_1(place: Address) -> None:
    with open_store(place, LAYOUT).write() as connection:
        connection.execute("UPDATE items SET details = replace(details, 'numeric(38,1)', 'numeric(38,10)')")
    _as_of_version(place, 1)


def test_commits_from_before_ran_at_an_unknown_place(place: Address) -> None:
    with Session(place) as session:
        session.execute(_SCRIPT + _SINK)
        (job,) = session.jobs()
        session.catalog.control.committed(job.sink_id, rows=1, size=1, offsets={}, epoch=1, in_spark=True)
    _as_of_version(place, 2)
    with Session(place) as session:
        (before,) = session.execute("SHOW SINKS")[0].rows
        session.catalog.control.committed(job.sink_id, rows=1, size=1, offsets={}, epoch=1, in_spark=True)
        (after,) = session.execute("SHOW SINKS")[0].rows
        (cluster,) = session.jobs()
    assert (before[3], after[3]) == (None, "Spark")
    assert (cluster.execution, cluster.spark_idle) == ("AUTO", timedelta(minutes=5))


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
