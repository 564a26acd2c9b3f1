"""A materialized view with a job, in processes with Spark: it is computed once, and five tables equal it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import duckdb
import pytest

from sinkql.connectors.view.log import ViewLog
from support.command import run, start
from support.gzipped import write_gzipped
from support.readers import duckdb_folder

pytestmark = [pytest.mark.slow, pytest.mark.soak]

_VIEW = """
CREATE CLUSTER c (SIZE = 'local[2]', EXECUTION = SPARK);
SET cluster = c;
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE events (g integer, x integer)
  FROM FILES (PATH = 'in', GLOB = '*.json.gz', MAX FILES PER COMMIT = 1) FORMAT JSON;
CREATE MATERIALIZED VIEW v WITH (COMMIT INTERVAL = '1s', RETAIN HISTORY = '1 day') AS
SELECT g, count(*) AS n, sum(x) AS s, max(x) AS most FROM events GROUP BY g;
"""
_SINK = """CREATE SINK {name} IN CLUSTER c FROM v
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{name}')
  KEY (g) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""
QUERY = "SELECT g, count(*) AS n, sum(x)::BIGINT AS s, max(x) AS most FROM events GROUP BY g"
_COLUMNS = ("g", "n", "s", "most")
Rows = Counter[tuple[object, ...]]


def script(folder: Path, sinks: int) -> tuple[str, ...]:
    """Write the pipeline and return the names of its sinks."""
    names = tuple(f"s{number}" for number in range(sinks))
    (folder / "pipeline.sql").write_text(_VIEW + "".join(_SINK.format(name=name) for name in names))
    return names


def add(folder: Path, number: int) -> None:
    """Add a file of events; each file has new groups."""
    (folder / "in").mkdir(exist_ok=True)
    rows = [{"g": None if x % 7 == 0 else x % (number + 3), "x": 100 * number + x} for x in range(30)]
    write_gzipped(folder / "in" / f"{number:03}.json.gz", "".join(json.dumps(row) + "\n" for row in rows))


def expected(folder: Path) -> Rows:
    with duckdb.connect() as connection:
        connection.execute(
            f"CREATE VIEW events AS SELECT * FROM read_json('{folder}/in/*.json.gz', format = 'newline_delimited', "
            "columns = {g: 'INTEGER', x: 'INTEGER'})"
        )
        return Counter(connection.execute(QUERY).fetchall())


def tables(folder: Path, names: tuple[str, ...]) -> dict[str, Rows]:
    return {name: Counter(duckdb_folder(folder / "lake" / "n" / name, ", ".join(_COLUMNS))) for name in names}


def batches(folder: Path) -> list[int]:
    """Return the numbers of the remaining entries of the view's log that have changes."""
    (view,) = (folder / ".sinkql" / "views").iterdir()
    log, newest = ViewLog(view), ViewLog(view).newest()
    assert newest is not None
    found = ((number, log.entry(number)) for number in range(1, newest[0] + 1))
    return [number for number, entry in found if entry is not None and entry.runs]


def with_state(folder: Path) -> list[str]:
    """Return the jobs that keep the state of an operator."""
    return [path.parent.name for path in (folder / ".sinkql" / "sinks").glob("*/state") if any(path.iterdir())]


def test_a_view_of_five_sinks_is_computed_once_and_followed(tmp_path: Path) -> None:
    names = script(tmp_path, 5)
    add(tmp_path, 0)
    assert run("exec", "--once", "pipeline.sql", folder=tmp_path).returncode == 0
    first = expected(tmp_path)
    assert tables(tmp_path, names) == dict.fromkeys(names, first)
    (view,) = (tmp_path / ".sinkql" / "views").iterdir()
    assert with_state(tmp_path) == [view.name]
    before = len(batches(tmp_path))

    following = start("subscribe", "v", folder=tmp_path)
    try:
        present: Rows = Counter()
        while present != first:
            take(present, following.wait_for(lambda row: "mz_diff" in row))
        add(tmp_path, 1)
        ended = run("--output", "json", "exec", "--once", "pipeline.sql", folder=tmp_path)
        assert ended.returncode == 0, ended.stderr
        second = expected(tmp_path)
        assert second != first
        while +present != second:
            take(present, following.wait_for(lambda row: "mz_diff" in row))
        assert all(count >= 0 for count in present.values())
        assert following.interrupt() == 0
    finally:
        following.kill()
    assert tables(tmp_path, names) == dict.fromkeys(names, second)
    assert with_state(tmp_path) == [view.name]
    assert (before, len(batches(tmp_path))) == (1, 2)
    events = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [event["read"] for event in events if event.get("event") == "committed" and "view" in event] == [30]


def take(present: Rows, change: dict[str, int]) -> None:
    present[tuple(change[column] for column in _COLUMNS)] += change["mz_diff"]
