"""Queries of TPC-H and Nexmark run in Spark into Iceberg; after every commit the table's rows equal DuckDB's result.

One more query has top rows in LATERAL, a temporal filter and a threshold.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sinkql.lowering.job import lower
from sinkql.runtime.batch.clock import CLOCK, with_clock
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.spark.engine import SparkEngine
from sinkql.storage import failpoint
from sinkql.testing import target
from support.fault import armed
from support.readers import connect
from support.running import contexts
from views import harness, nexmark, tpch
from views.churn import batches
from views.harness import Changes, Relation, View, Views
from views.queries import queries
from views.rows import Rows, different, plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.share(2)]
_TPCH, _NEXMARK = queries("tpch.sql"), queries("nexmark.sql")
_COMMITS = 4
_FAILING = {2: "commit-request", 3: "committed"}
"""Commits whose process dies at a failpoint, before or after the table has them; the next process continues."""


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """Return the session. Its workers cannot import this folder, so its code is pickled by value."""
    from pyspark.cloudpickle import register_pickle_by_value

    register_pickle_by_value(harness)
    return spark


def _hold(
    folder: Path,
    session: SparkSession,
    sql: str,
    relations: Sequence[Relation],
    changes: Sequence[Changes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    views = Views(folder, relations, {"v": View(sql)}, sinks=True)
    loop = _loop(views, folder, session)
    for number, each in enumerate(changes, 1):
        views.batch(each)
        end = {name: {"batch": number} for name in loop.readers}
        if number in _FAILING:
            _fail(loop, end, _FAILING[number], monkeypatch)
            loop = _loop(views, folder, session)
        if loop.checkpoint.end != end:
            loop.commit_batch(loop.checkpoint.end, end)
        expected = views.content.ask(sql)
        found = different(_read(folder / "lake" / "n" / "v", changelog=loop.job.write.changelog), expected)
        assert not found, f"commit {number}: {found}"
    views.close()


def _loop(views: Views, folder: Path, session: SparkSession) -> BatchLoop:
    """Return a sink's batch loop as a new process starts it."""
    job = lower("materialize.public.v_sink", views.catalog)
    context = contexts(folder, job)
    writer = views.catalog.registry.writer(job.write, context)
    engine = SparkEngine(lambda: session, buckets=2)
    readers = with_clock(job, views.readers_of(job), lambda: 0)
    loop = BatchLoop(job, readers, writer, engine, context.folder, target.NoCommitLog())
    loop.start(epoch=1)
    return loop


def _fail(loop: BatchLoop, end: Mapping[str, Any], point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a batch that fails where its process would die."""
    with monkeypatch.context() as patch:
        for name, value in armed(f"{point}#{failpoint._passes[point] + 1}=fail").items():
            patch.setenv(name, value)
        with pytest.raises(failpoint.FaultError):
            loop.commit_batch(loop.checkpoint.end, end)


def _read(folder: Path, *, changelog: bool) -> Rows:
    with connect() as connection:
        hidden = " EXCLUDE (_mz_timestamp)" if changelog else ""
        rows = connection.execute(f"SELECT *{hidden} FROM iceberg_scan('{folder}')").fetchall()
    found: Rows = Counter()
    for row in rows:
        *values, diff = row if changelog else (*row, 1)
        found[plain(values)] += diff
    assert all(count >= 0 for count in found.values())
    return +found


def _hold_tpch(folder: Path, session: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random_ = random.Random(22)
    rows, updates = tpch.rows(90, random_), tpch.updates()
    changes = list(batches(tpch.RELATIONS, rows, updates, commits=_COMMITS, changes=60, random_=random_))
    _hold(folder, session, _TPCH[name], tpch.RELATIONS, changes, monkeypatch)


def _hold_nexmark(folder: Path, session: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random_ = random.Random(23)
    rows, updates = nexmark.rows(100, random_), nexmark.updates()
    changes = list(batches(nexmark.RELATIONS, rows, updates, commits=_COMMITS, changes=40, random_=random_))
    _hold(folder, session, _NEXMARK[name], nexmark.RELATIONS, changes, monkeypatch)


@pytest.mark.parametrize("name", ["q3", "q13"])
def test_query_of_tpch(tmp_path: Path, session: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _hold_tpch(tmp_path, session, name, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["q4", "q9", "q11"])
def test_query_of_nexmark(tmp_path: Path, session: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _hold_nexmark(tmp_path, session, name, monkeypatch)


_BOUNDED = (
    Relation("a", {"id": "bigint NOT NULL", "g": "int", "x": "int", "until": "bigint NOT NULL"}, ("id",)),
    Relation("b", {"id": "bigint NOT NULL", "g": "int", "y": "int"}, ("id",)),
)
_WITHIN = """
    SELECT a.id, a.x, u.y
    FROM a
    LEFT JOIN LATERAL (SELECT y FROM b WHERE b.g = a.g AND b.y <= a.x ORDER BY y DESC, b.id LIMIT 1) AS u ON true
    WHERE a.x > (SELECT max(y) - 4 FROM b) AND mz_now() < a.until"""


@pytest.mark.soak
def test_first_rows_within_bounds_that_move(tmp_path: Path, session: SparkSession) -> None:
    views, random_ = Views(tmp_path, _BOUNDED, {"v": View(_WITHIN)}, sinks=True), random.Random(24)
    loop, shown = _loop(views, tmp_path, session), []
    for number, most in enumerate((4, 7, 3, None), 1):
        rows = [
            (10 * number + place, place % 3, random_.randrange(8), 100 * random_.randint(1, 6)) for place in range(9)
        ]
        values = [] if most is None else [(10 * number + place, place % 3, most - place) for place in range(4)]
        gone = [(row, -1) for row in views.content.rows["b"]]
        changes: Changes = {"a": [(row, 1) for row in rows], "b": [*gone, *((row, 1) for row in values)]}
        views.content.apply(changes)
        for name, each in views.sources.items():
            each.batches.append(list(changes[name]))
        now = 100 * number
        end = {name: {"batch": number} for name in loop.readers} | {CLOCK: {"at": now}}
        loop.commit_batch(loop.checkpoint.end, end)
        expected = views.content.ask(_WITHIN.replace("mz_now()", str(now)))
        assert not different(_read(tmp_path / "lake" / "n" / "v", changelog=False), expected), number
        shown.append(expected.total())
    assert shown[-1] == 0
    assert all(shown[:-1])
    views.close()


@pytest.mark.soak
@pytest.mark.parametrize("name", ["q1", "q5", "q8", "q9", "q10", "q12"])
def test_more_of_tpch(tmp_path: Path, session: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _hold_tpch(tmp_path, session, name, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["q5", "q6", "q7", "q18", "q19", "q23"])
def test_more_of_nexmark(tmp_path: Path, session: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _hold_nexmark(tmp_path, session, name, monkeypatch)
