"""A sink stops while a row fails in its view's expression, and only then."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest
from pyspark.sql import SparkSession

from sinkql.connector_api.stream import Limit
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.attempt import OutdatedStartError
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.batch.pacing import Pacer, PacingOrders
from sinkql.runtime.spark.engine import SparkEngine
from sinkql.session import Session
from support.running import drain, use_engine
from table.test_table_sinks import _SETUP, Kind, expected, loop, sink, written

_VIEWS = """
CREATE MATERIALIZED VIEW divided AS SELECT id, 12 / g AS q FROM t;
CREATE MATERIALIZED VIEW condition AS SELECT id FROM t WHERE 12 / g > 3;
CREATE MATERIALIZED VIEW summed AS SELECT name, sum(12 / g) AS q FROM t GROUP BY name;
CREATE MATERIALIZED VIEW above AS SELECT name, 12 / sum(g) AS q FROM t GROUP BY name;
CREATE MATERIALIZED VIEW two AS SELECT id, 12 / g AS q FROM t UNION ALL SELECT id, length(name) FROM loose;
"""
_KINDS = {
    "divided": Kind("divided", "KEY (id) MODE UPSERT", "SELECT id, 12 // g FROM t"),
    "condition": Kind("condition", "KEY (id) MODE UPSERT", "SELECT id FROM t WHERE 12 // g > 3"),
    "summed": Kind("summed", "KEY (name) NOT ENFORCED MODE UPSERT", "SELECT name, sum(12 // g) FROM t GROUP BY name"),
    "above": Kind("above", "KEY (name) NOT ENFORCED MODE UPSERT", "SELECT name, 12 // sum(g) FROM t GROUP BY name"),
    "two": Kind(
        "two", "MODE APPEND", "SELECT id, 12 // g FROM t UNION ALL SELECT id, length(name) FROM loose", changelog=True
    ),
}


def _change(session: Session, random_: random.Random) -> None:
    key, g = random_.randrange(8), random_.choice([0, 0, 1, 2, 3])
    name = f"'{random_.choice('ab')}'"
    statement = random_.choice([
        f"INSERT INTO t VALUES ({key}, {g}, 1, {name})",
        f"INSERT INTO t VALUES ({key}, {g}, 1, {name})",
        f"UPDATE t SET g = {g} WHERE id = {key}",
        f"UPDATE t SET name = {name} WHERE id < {key}",
        f"DELETE FROM t WHERE id = {key}",
        "DELETE FROM t WHERE g = 0",
        f"INSERT INTO loose VALUES ({key}, {name})",
        "DELETE FROM loose",
    ])  # fmt: skip
    assert _code(lambda: session.execute(statement)) in {None, "SQ2420"}  # the key may exist


def _code(act: Callable[[], object]) -> str | None:
    """Return the code of the error that a call raises, if any."""
    try:
        act()
    except SinkqlError as error:
        return error.code
    return None


def _fails(session: Session, kind: str) -> bool:
    if kind == "above":
        (result,) = session.execute("SELECT name, g FROM t")
        sums: dict[str, int] = {}
        for name, g in result.rows:
            sums[name] = sums.get(name, 0) + g
        return 0 in sums.values()
    (result,) = session.execute("SELECT count(*) FROM t WHERE g = 0")
    return result.rows != ((0,),)


def _run(running: BatchLoop, session: Session, random_: random.Random) -> None:
    """Commit all available data; some rows change between planning and running a batch."""
    pacer = Pacer(running.readers)
    orders = PacingOrders(running.checkpoint.end, timedelta(0), running.job.max_rows_per_commit)
    while (
        end := pacer.next_end(running.checkpoint.end, orders, time.time_ns() // 1_000_000)
    ) != running.checkpoint.end:
        if random_.random() < 0.2:
            _change(session, random_)
        running.commit_batch(running.checkpoint.end, end)


@pytest.mark.long
@pytest.mark.share(4)
@pytest.mark.parametrize("kind", _KINDS)
def test_a_sink_stops_while_a_row_fails_and_only_then(session: Session, kind: str) -> None:
    random_, each = random.Random(f"{kind}1"), _KINDS[kind]
    session.execute(_SETUP + _VIEWS)
    running = sink(session, each, ", MAX ROWS PER COMMIT = 2")
    running.start(epoch=1)
    committed = 0
    for step in range(18):
        for _ in range(random_.randrange(1, 4)):
            _change(session, random_)
        code = _code(partial(_run, running, session, random_))
        assert code == ("SQ3201" if _fails(session, kind) else None)
        if code is None:
            assert written(each.changelog) == expected(session, each.expected)
            committed += 1
        elif random_.random() < 0.5:
            running = loop(session)
            running.start(epoch=step)
    assert committed


def _stall(session: Session) -> BatchLoop:
    """Return a sink whose batch of a single row has failed."""
    session.execute(_SETUP + _VIEWS)
    session.execute("INSERT INTO t VALUES (1, 1, 1, 'a'); INSERT INTO t VALUES (2, 0, 1, 'a')")
    return sink(session, _KINDS["divided"], ", MAX ROWS PER COMMIT = 1")


@pytest.mark.spark
def test_in_spark_a_sink_recovers_once_the_failing_row_is_deleted(spark: SparkSession, session: Session) -> None:
    running = _stall(session)
    use_engine(running, SparkEngine(lambda: spark, buckets=2))
    running.start(epoch=1)
    with pytest.raises(SinkqlError) as stalled:
        drain(running)
    assert stalled.value.code == "SQ3201"
    start = running.checkpoint.end
    pinned = {name: reader.latest(start[name], Limit(1)) for name, reader in running.readers.items()}
    session.execute(
        "INSERT INTO t VALUES (3, 3, 1, 'b'); DELETE FROM t WHERE id = 2; INSERT INTO t VALUES (4, 4, 1, '')"
    )
    running.commit_batch(start, pinned)  # Spark plans the same batch again
    assert written(False) == expected(session, _KINDS["divided"].expected)
    after = {name: reader.latest(pinned[name], Limit(1)) for name, reader in running.readers.items()}
    with pytest.raises(OutdatedStartError):
        running.commit_batch(pinned, after)  # and then a batch that is already in the table, so that it restarts
    assert drain(running) == 0


def test_a_run_up_to_now_does_not_go_past_its_target_for_a_failing_row(session: Session) -> None:
    running = _stall(session)
    running.start(epoch=1, once=True)
    session.execute("DELETE FROM t WHERE id = 2")
    with pytest.raises(SinkqlError) as stalled:
        drain(running)
    assert stalled.value.code == "SQ3201"
    running = loop(session)
    running.start(epoch=2, once=True)
    drain(running)
    assert running.caught_up()
    assert written(False) == expected(session, _KINDS["divided"].expected)
