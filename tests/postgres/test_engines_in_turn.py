"""The driver and Spark compute batches in turn, with texts that each produces; the tables agree with Postgres.

A row that one engine adds to the state of a join or a group is removed by the next engine, by its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from postgres.pipeline import capturing, catch_up
from sinkql.runtime.local import engine as local_engine
from sinkql.runtime.local import placement
from sinkql.session import Session
from support.postgres import Postgres
from support.readers import duckdb_folder, open_table, pyiceberg_rows
from support.running import placed_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server]

_TABLES = """
CREATE TABLE t (
  id int PRIMARY KEY, g int, j jsonb, n numeric(20,4), z timestamptz, f double precision, v interval, a text[]
);
CREATE TABLE o (id int PRIMARY KEY, name text);
"""
_VIEWS = {
    "plain": "SELECT id, f FROM t",
    "joined": """SELECT x.id, x.part::text, x.texts, abs(x.f), o.name
        FROM (
          SELECT id, g, j -> 'a' AS part, f, concat_ws(' ', j, j #>> '{a,bb}', n, (n / 7)::numeric(20,6), f > 0, v,
            array_to_string(a, ','), z, to_jsonb(n)) AS texts
          FROM t
        ) AS x JOIN o ON o.id = x.g""",
    "counted": """SELECT concat(j -> 'a', ' ', (n * 1.50)::numeric(24,6), ' ', v) AS k, count(*) AS c,
          count(DISTINCT j ->> 'a') AS d
        FROM t GROUP BY 1""",
}
_KEYS = {"plain": "id", "joined": "id", "counted": "k"}
_STEPS = (
    """INSERT INTO t VALUES
      (1, 1, '{"a": {"bb": 1, "a": 2}}', 1.5, '2024-11-03 05:30:00+00', '-0', '1 mon -3 days', '{a,NULL,b}'),
      (2, 2, '{"a": 1.50, "b": null}', -0.0001, '1969-12-31 23:59:59.5+00', 1e21, '36:00:00.5', '{}'),
      (3, 2, '{"a": [1, 2.0, "\\u00e9"], "a": "last"}', 12345678901234.5678, NULL, 'NaN', NULL, NULL),
      (4, 1, 'null', NULL, '9999-12-31 00:00:00+00', 0.1, '00:00', '{"x y",""}');
    INSERT INTO o VALUES (1, 'one'), (2, 'two')""",
    """DELETE FROM t WHERE id = 1; UPDATE o SET name = 'zwei' WHERE id = 2;
    INSERT INTO t VALUES (5, 1, '{"a": {"a": 2, "bb": 1}}', 1.5,
       '2024-11-03 06:30:00+00', '-0', '1 mon -3 days', '{a}')""",
    """DELETE FROM t WHERE id IN (2, 4); UPDATE t SET g = 1 WHERE id = 3;
    INSERT INTO t VALUES (1, 2, '{"a": 1.50, "b": null}', -0.0001, NULL, '-0', '36:00:00.5', '{}')""",
    "UPDATE t SET n = n + 1, j = '{\"a\": 1.5e2}'; DELETE FROM o WHERE id = 1; INSERT INTO o VALUES (1, 'again')",
    "DELETE FROM t WHERE id <> 5; DELETE FROM o WHERE id = 2",
)  # fmt: skip


@pytest.fixture
def session(
    postgres: Postgres, postgres_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    monkeypatch.chdir(tmp_path)
    postgres.execute(_TABLES + "CREATE PUBLICATION p FOR TABLE t, o", postgres_database)
    with Session() as session:
        session.execute(
            f"""CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
            CREATE CONNECTION pg TO POSTGRES (
              HOST '127.0.0.1', PORT {postgres.port}, DATABASE '{postgres_database}', USER postgres
            );
            CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR TABLES (public.t, public.o);"""
        )
        for name, query in _VIEWS.items():
            session.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            session.execute(
                f"CREATE SINK {name}_sink FROM {name} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = "
                f"'{name}') KEY ({_KEYS[name]}) NOT ENFORCED MODE UPSERT WITH (COMMIT INTERVAL = '1s')"
            )
        yield session


@pytest.mark.parametrize("steps", [3, pytest.param(len(_STEPS), marks=pytest.mark.soak)])
def test_what_one_engine_keeps_the_other_takes_out(
    steps: int,
    session: Session,
    spark: SparkSession,
    postgres: Postgres,
    postgres_database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def started() -> SparkSession:
        asked.append("Spark")
        return spark

    engine = placed_engine(started, 2)
    monkeypatch.setattr(placement, "_REMEMBERED_S", 0.0)
    with capturing(session):
        for turn, step in enumerate(_STEPS[:steps]):
            in_spark = turn % 2 == 1
            postgres.execute(step, postgres_database)
            asked.clear()
            with monkeypatch.context() as patch:
                if in_spark:
                    patch.setattr(local_engine, "too_large", lambda *_: "the test says so")
                catch_up(session, turn=turn + 1, engine=engine)
            assert bool(asked) is in_spark, f"step {turn} was for {'Spark' if in_spark else 'the driver'}"
            _check(postgres.connect(postgres_database))


def _check(connection: psycopg.Connection[Any]) -> None:
    with connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, query in _VIEWS.items():
            wanted = _shown(connection.execute(query).fetchall())
            assert _shown(duckdb_folder(Path("lake/n") / name)) == wanted
            assert _shown(pyiceberg_rows(open_table(Path("lake"), f"n.{name}"))) == wanted


def _shown(rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return rows as sorted texts, in which NaN equals itself and zeros have signs."""
    return sorted(repr([None if each is None else str(each) for each in row]) for row in rows)
