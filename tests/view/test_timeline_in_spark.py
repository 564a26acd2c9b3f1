"""Two views of one source and a join of both, in Spark processes that are killed: each snapshot shows one state."""

from __future__ import annotations

import contextlib
import json
import random
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

from sinkql.connectors.iceberg.commit import checkpoint as markers
from sinkql.session import Session
from support.command import run, start
from support.fault import armed
from support.readers import duckdb_folder, open_table

pytestmark = pytest.mark.slow
_VIEWS = {
    "a": "SELECT g, count(*) AS n, max(x) AS m FROM t GROUP BY g",
    "b": "SELECT g, min(x) AS l, count(DISTINCT x) AS d FROM t GROUP BY g",
    "ab": "SELECT a.g, a.n, a.m, b.l, b.d FROM a JOIN b ON a.g = b.g",
    "beside": "SELECT t.id, t.x, a.g, a.n, a.m FROM t JOIN a ON a.g = t.g",
}
_KEYS = {"a": "g", "b": "g", "ab": "g", "beside": "id"}
_SETUP = """
CREATE CLUSTER c (SIZE = 'local[2]');
SET cluster = c;
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE TABLE t (id bigint PRIMARY KEY, g integer NOT NULL, x integer);
"""
_SINK = """CREATE SINK s_{name} IN CLUSTER c FROM {name}
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{name}')
  KEY ({key}) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""
_POINTS = ("tick", "tick-made", "view-entry", "view-entry-made", "commit-request", "commit-reply", "committed")
_MOST = 60
Rows = Counter[tuple[object, ...]]


def _script(folder: Path) -> None:
    jobs = {name: " WITH (COMMIT INTERVAL = '1s')" if name in ("a", "b") else "" for name in _VIEWS}
    views = [f"CREATE MATERIALIZED VIEW {name}{jobs[name]} AS {query};\n" for name, query in _VIEWS.items()]
    sinks = [_SINK.format(name=name, key=key) for name, key in _KEYS.items()]
    (folder / "pipeline.sql").write_text(_SETUP + "".join(views) + "".join(sinks))


def _change(session: Session, number: int) -> str:
    """Change rows of each group, so that no two states share a row of a view; return the statement."""
    rows = ", ".join(f"({10 * number + g}, {g}, {100 * number + g})" for g in range(4))
    statement = f"INSERT INTO t VALUES {rows}"
    session.execute(statement)
    return statement


def _states(changes: Sequence[str]) -> dict[str, list[Rows]]:
    """Return the rows of each view after each prefix of the changes, computed by DuckDB."""
    found: dict[str, list[Rows]] = {name: [] for name in _VIEWS}
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (id BIGINT, g INTEGER, x INTEGER)")
        for name, query in _VIEWS.items():
            connection.execute(f"CREATE VIEW {name} AS {query}")
        for change in ("", *changes):
            if change:
                connection.execute(change)
            for name in _VIEWS:
                found[name].append(Counter(connection.execute(f"FROM {name}").fetchall()))
    return found


def _check(folder: Path, changes: Sequence[str]) -> dict[str, dict[int, int]]:
    """Find the state of each snapshot of each table; return the number of the state at each tick."""
    states, reached = _states(changes), dict[str, dict[int, int]]()
    for name in _VIEWS:
        columns, order, at = _columns(name), list[int](), dict[int, int]()
        for snapshot in markers.ancestry(open_table(folder / "lake", f"n.{name}")):
            told = markers.own_checkpoint(snapshot, markers.writer_of(snapshot) or "")
            assert told is not None
            rows = Counter(duckdb_folder(folder / "lake" / "n" / name, columns, snapshot=snapshot.snapshot_id))
            assert rows in states[name], (name, json.loads(told["offsets"]), rows)
            order.append(states[name].index(rows))
            if "tick" in told:
                assert at.setdefault(int(told["tick"]), order[-1]) == order[-1]
        assert order == sorted(order, reverse=True)
        assert order[0] == len(changes), name
        reached[name] = at
    for tick in {tick for at in reached.values() for tick in at}:
        assert len({at[tick] for at in reached.values() if tick in at}) == 1, (tick, reached)
    return reached


def _columns(name: str) -> str:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (id BIGINT, g INTEGER, x INTEGER)")
        for view, query in _VIEWS.items():
            connection.execute(f"CREATE VIEW {view} AS {query}")
        return ", ".join(row[0] for row in connection.execute(f"DESCRIBE {name}").fetchall())


def _history(folder: Path, rules: Sequence[str]) -> list[str]:
    """Change the table while the jobs run, killed once by each failpoint rule; return the changes."""
    _script(folder)
    changes: list[str] = []
    with contextlib.chdir(folder), Session() as session:
        session.execute((folder / "pipeline.sql").read_text())
        for rule in rules:
            running = start("exec", "pipeline.sql", folder=folder, environment=armed(rule))
            try:
                changes.append(_change(session, len(changes)))
                for event in running.to_end():
                    if event.get("event") == "committed" and len(changes) < _MOST:
                        changes.append(_change(session, len(changes)))
                assert running.end() == -signal.SIGKILL, rule
            finally:
                running.kill()
    ended = run("exec", "--once", "pipeline.sql", folder=folder)
    assert ended.returncode == 0, ended.stderr
    return changes


@pytest.mark.soak
def test_each_snapshot_is_of_one_state_and_equal_ticks_of_the_same(tmp_path: Path) -> None:
    changes = _history(tmp_path, ("tick-made#5=kill",))
    reached = _check(tmp_path, changes)
    assert reached["a"].keys() & reached["b"].keys()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6))
def test_histories_with_kills(seed: int, tmp_path: Path) -> None:
    random_ = random.Random(seed)
    rules = [f"{random_.choice(_POINTS)}#{random_.randint(2, 8)}=kill" for _ in range(3)]
    changes = _history(tmp_path, rules)
    reached = _check(tmp_path, changes)
    print(rules, len(changes), {name: len(at) for name, at in reached.items()})
