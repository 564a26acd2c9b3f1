"""Several processes change one table concurrently; one is killed in the middle of a statement."""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sinkql import physical
from sinkql.connector_api.stream import Context, ReadCounts
from sinkql.errors import SinkqlError
from sinkql.lowering.job import lower_relation
from sinkql.session import Session
from sinkql.storage import failpoint
from sinkql.table.reader import TableReader
from support.fault import armed
from support.patience import PATIENCE_S, ended

pytestmark = pytest.mark.long

_FORK = multiprocessing.get_context("fork")  # a process that has all modules loaded
_MAKE = "CREATE TABLE t (id bigint PRIMARY KEY, name text NOT NULL)"


def rows(session: Session, text: str) -> list[tuple[Any, ...]]:
    return list(session.execute(text)[-1].rows)


def log(session: Session) -> list[tuple[Any, ...]]:
    """Return the sum of the table's log, as a reader of the log finds it."""
    session.catalog.refresh()
    read = lower_relation(session.catalog.plans.item("materialize.public.t"), session.catalog.plans)  # type: ignore[arg-type]  # a source
    assert isinstance(read, physical.Read)
    context = Context("s", "s", Path(".sinkql/sinks/s").absolute(), str)
    reader = TableReader.of(read, context)
    found: Counter[tuple[Any, ...]] = Counter()
    start = reader.initial(at_end=False)
    for split in reader.splits(start, reader.target(start)):
        for batch in reader.read(split, ReadCounts()):
            for *row, diff in zip(*batch.to_pydict().values(), strict=True):
                found[tuple(row)] += diff
    assert all(count >= 0 for count in found.values())
    return sorted(found.elements())


def insert_keys(first: int, done: Any) -> None:
    """Insert every fourth key with its own row and a row shared with another process; report the inserted keys."""
    session = Session()
    kept = []
    for key in range(first, 200, 4):
        try:
            session.execute(f"INSERT INTO t VALUES ({key}, 'mine'), ({-(key // 2 + 1)}, 'shared')")
            kept.append(key)
        except SinkqlError as error:
            if error.code != "SQ2420":
                raise
    done.put(kept)


def test_four_processes_insert_each_key_once(session: Session) -> None:
    session.execute(_MAKE)
    done = _FORK.Queue()
    started = [_FORK.Process(target=insert_keys, args=(first, done)) for first in range(4)]
    for process in started:
        process.start()
    kept = [key for _ in started for key in done.get(timeout=PATIENCE_S)]
    assert ended(*started) == [0] * 4
    assert len(kept) == 100  # of two statements with the same shared row, the first one succeeds
    assert {key // 2 for key in kept} == set(range(100))
    found = rows(session, "SELECT id FROM t ORDER BY id")
    assert found == sorted([(key,) for key in kept] + [(-key,) for key in range(1, 101)])
    assert log(session) == sorted(rows(session, "SELECT * FROM t"))


def count_up(times: int) -> None:
    session = Session()
    for _ in range(times):
        session.execute("UPDATE t SET n = n + 1")


def test_four_processes_count_every_update(session: Session) -> None:
    session.execute("CREATE TABLE t (n int); INSERT INTO t VALUES (0)")
    started = [_FORK.Process(target=count_up, args=(15,)) for _ in range(4)]
    for process in started:
        process.start()
    assert ended(*started) == [0] * 4
    assert rows(session, "SELECT n FROM t") == [(60,)]


@pytest.mark.parametrize("point", ["table-rows", "table-changed", "table-committed"])
def test_a_statement_that_is_killed_is_done_or_undone(session: Session, point: str) -> None:
    session.execute(f"{_MAKE}; INSERT INTO t VALUES (1, 'old'), (2, 'old')")
    for statement, done in (
        ("INSERT INTO t VALUES (3, 'new'), (4, 'new')", [(1, "old"), (2, "old"), (3, "new"), (4, "new")]),
        ("UPDATE t SET id = id + 10, name = 'newer' WHERE id = 1", [(2, "old"), (11, "newer")]),
        ("DELETE FROM t", []),
    ):
        before = rows(session, "SELECT * FROM t ORDER BY id")
        assert killed(statement, point) == -9
        after = rows(session, "SELECT * FROM t ORDER BY id")
        assert after == (done if point == "table-committed" else before)
        assert log(session) == after
        session.execute("DELETE FROM t WHERE id IN (3, 4); INSERT INTO t VALUES (99, 'goes on')")
        session.execute("DELETE FROM t WHERE id = 99")


def killed(statement: str, point: str) -> int | None:
    """Run a statement in a process that is killed at a failpoint; return its exit code."""
    process = _FORK.Process(target=run, args=(statement, point))
    process.start()
    return ended(process)[0]


def run(statement: str, point: str) -> None:
    os.environ.update(armed(f"{point}=kill"))
    failpoint._passes.clear()  # the parent process may have passed the point
    Session().execute(statement)


def test_a_drop_that_is_killed_takes_the_rows_away_at_the_next_start(session: Session) -> None:
    session.execute(_MAKE)
    (file,) = Path(".sinkql/tables").glob("*.db")
    assert (killed("DROP TABLE t", "drop-clean"), file.exists()) == (-9, True)
    Session()
    assert not list(Path(".sinkql/tables").iterdir())
