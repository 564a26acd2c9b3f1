"""Materialized views with a job: when a view gets one, and how sinks read it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sinkql import physical
from sinkql.connectors.iceberg.commit import checkpoint as markers
from sinkql.errors import SinkqlError
from sinkql.lowering.job import lower
from sinkql.lowering.materialized_view import view_jobs
from sinkql.runtime.batch.engine import Engine
from sinkql.session import Result, Session
from support.readers import open_table, pyiceberg_rows
from support.running import drain, loop_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SINK = """CREATE SINK {name} FROM {relation} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{name}')
  {clauses} WITH (COMMIT INTERVAL = '{interval}');"""


def sink(
    session: Session, name: str, relation: str = "v", clauses: str = "KEY (g) MODE UPSERT", interval: str = "5s"
) -> list[Result]:
    return session.execute(_SINK.format(name=name, relation=relation, clauses=clauses, interval=interval))


def jobs(session: Session) -> dict[str, physical.Job]:
    return {job.sink.rpartition(".")[2]: job for job in session.jobs()}


def sources(job: physical.Job) -> set[str]:
    return {read.name.rpartition(".")[2] for read in job.reads()}


def run(session: Session, *names: str, engine: Engine | None = None) -> None:
    """Run the named jobs, or all jobs with views first, until they have read everything."""
    plans = session.catalog.plans
    found = {job.sink.rpartition(".")[2]: job for job in (lower(name, plans) for name in view_jobs(plans))} | jobs(
        session
    )
    for name in names or sorted(found, key=lambda each: found[each].write.connector != physical.VIEW):
        job = found[name]
        session.catalog.control.acquire(job.sink_id, owner=name, takeover=True)
        control = session.catalog.control
        loop = loop_of(job, session.context(job), session.catalog.registry, engine=engine, control=control)
        loop.start(epoch=1)
        drain(loop)
        control.release(job.sink_id, owner=name)


def table(name: str) -> Counter[tuple[Any, ...]]:
    return Counter(pyiceberg_rows(open_table(Path(), f"n.{name}")))


def expected(session: Session) -> Counter[tuple[Any, ...]]:
    (result,) = session.execute("SELECT g, count(*), sum(x) FROM t GROUP BY g")
    return Counter(result.rows)


def test_a_view_of_one_sink_is_computed_by_it(session: Session) -> None:
    sink(session, "a")
    assert {name: sources(job) for name, job in jobs(session).items()} == {"a": {"t"}}


def test_a_view_of_two_sinks_is_a_job_that_both_read(session: Session) -> None:
    sink(session, "a", interval="7s")
    (told,) = sink(session, "b", "large", "KEY (g) MODE UPSERT", "3s")
    found = jobs(session)
    assert {name: sources(job) for name, job in found.items()} == {"a": {"v"}, "b": {"v"}, "v": {"t"}}
    assert found["v"].commit_interval.total_seconds() == 3
    assert [notice.code for notice in told.notices] == ["SQ2356"]
    session.execute("INSERT INTO t VALUES (1, 1, 5), (2, 1, 7), (3, 2, 9)")
    run(session)
    assert table("a") == expected(session)
    assert table("b") == Counter({(1, 12): 1})
    session.execute("DELETE FROM t WHERE id = 1; UPDATE t SET x = 100 WHERE id = 3; INSERT INTO t VALUES (4, 2, 1)")
    run(session)
    assert table("a") == expected(session)
    assert table("b") == Counter({(2, 101): 1})


@pytest.mark.spark
def test_in_spark_too_a_view_is_a_job_that_its_sinks_read(spark: SparkSession, session: Session) -> None:
    from sinkql.runtime.spark.engine import SparkEngine

    engine = SparkEngine(lambda: spark, buckets=2)
    sink(session, "a")
    sink(session, "b")
    for statement in ("INSERT INTO t VALUES (1, 1, 5), (2, 1, 7), (3, 2, 9)", "DELETE FROM t WHERE id < 3"):
        session.execute(statement)
        run(session, engine=engine)
        assert table("a") == table("b") == expected(session)
    with_state = [path.parent.name for path in Path(".sinkql/sinks").glob("*/state") if any(path.iterdir())]
    assert with_state == [jobs(session)["v"].sink_id]


def test_a_sink_that_has_begun_continues_by_itself(session: Session) -> None:
    sink(session, "a")
    session.execute("INSERT INTO t VALUES (1, 1, 5)")
    run(session)
    (told,) = sink(session, "b")
    assert told.notices[0].hint is not None
    assert '"a" still computes the view' in told.notices[0].hint
    sink(session, "c")
    found = jobs(session)
    assert {name: sources(job) for name, job in found.items()} == {"a": {"t"}, "b": {"v"}, "c": {"v"}, "v": {"t"}}
    session.execute("INSERT INTO t VALUES (2, 1, 5), (3, 4, 5)")
    run(session)
    assert table("a") == table("b") == table("c") == expected(session)


def test_an_option_makes_a_view_a_job(session: Session) -> None:
    session.execute(
        "CREATE MATERIALIZED VIEW w WITH (COMMIT INTERVAL = '2s', RETAIN HISTORY FOR '1 hour') AS"
        " SELECT g, max(x) AS m FROM t GROUP BY g"
    )
    sink(session, "a", "w")
    found = jobs(session)
    assert {name: sources(job) for name, job in found.items()} == {"a": {"w"}, "w": {"t"}}
    assert found["w"].commit_interval.total_seconds() == 2
    assert found["w"].write.options["tuning"] == {"retain_ms": 3_600_000}


def test_a_view_keeps_its_form_as_sinks_go(session: Session) -> None:
    sink(session, "a")
    sink(session, "b")
    session.execute("INSERT INTO t VALUES (1, 1, 5)")
    run(session)
    session.execute("DROP SINK b")
    session.execute("INSERT INTO t VALUES (2, 1, 5)")
    assert set(jobs(session)) == {"a", "v"}
    run(session)
    assert table("a") == expected(session)
    assert [pin.stem for pin in Path(".sinkql/views").glob("*/readers/*.json")] == [jobs(session)["a"].sink_id]


def test_views_with_a_source_in_common_are_read_at_one_tick(session: Session) -> None:
    session.execute(
        "CREATE MATERIALIZED VIEW w WITH (COMMIT INTERVAL = '1s') AS SELECT g, max(x) AS m FROM t GROUP BY g;"
        "CREATE MATERIALIZED VIEW o WITH (COMMIT INTERVAL = '1s') AS SELECT g, max(name) AS m FROM other GROUP BY g;"
        "CREATE MATERIALIZED VIEW w2 WITH (COMMIT INTERVAL = '1s') AS SELECT g, min(x) AS l FROM t GROUP BY g;"
        "CREATE MATERIALIZED VIEW mixed AS SELECT g, m FROM w UNION ALL SELECT g, x FROM t;"
        "CREATE MATERIALIZED VIEW apart AS SELECT g, m::text AS m FROM w UNION ALL SELECT g, m FROM o;"
        "CREATE MATERIALIZED VIEW both AS SELECT w.g, w.m, w2.l FROM w JOIN w2 USING (g)"
    )
    sink(session, "a", "mixed", "MODE APPEND")
    sink(session, "b", "apart", "MODE APPEND")
    sink(session, "c", "both")
    sink(session, "d", "w2")
    found = jobs(session)
    assert {name: sources(job) for name, job in found.items()} == {
        "w": {"t"}, "o": {"other"}, "w2": {"t"}, "a": {"w", "t"}, "b": {"w", "o"}, "c": {"w", "w2"}, "d": {"w2"},
    }  # fmt: skip
    assert {name for name, job in found.items() if job.timeline} == {"w", "w2", "a", "c"}
    for changes in (
        "INSERT INTO t VALUES (1, 1, 5), (2, 1, 7), (3, 2, 9)",
        "DELETE FROM t WHERE id = 2; UPDATE t SET x = 3 WHERE id = 3",
    ):
        session.execute(changes)
        run(session)
        (mixed,) = session.execute("SELECT g, max(x) FROM t GROUP BY g UNION ALL SELECT g, x FROM t")
        (both,) = session.execute("SELECT g, max(x), min(x) FROM t GROUP BY g")
        assert changed("a") == Counter(mixed.rows)
        assert table("c") == Counter(both.rows)
        told = {name: newest(name) for name in "cd"}
        assert told["c"]["tick"] == told["d"]["tick"]


def changed(name: str) -> Counter[tuple[Any, ...]]:
    """Return the consolidated rows of a table of changes."""
    found: Counter[tuple[Any, ...]] = Counter()
    for *row, diff, _ in pyiceberg_rows(open_table(Path(), f"n.{name}")):
        found[tuple(row)] += diff
    return +found


def newest(name: str) -> dict[str, str]:
    """Return the sink's checkpoint in the newest snapshot of a table."""
    snapshot = open_table(Path(), f"n.{name}").current_snapshot()
    assert snapshot is not None
    told = markers.own_checkpoint(snapshot, markers.writer_of(snapshot) or "")
    assert told is not None
    return told


def test_a_dropped_view_leaves_nothing(session: Session) -> None:
    session.execute(
        "CREATE MATERIALIZED VIEW w WITH (COMMIT INTERVAL = '1s') AS SELECT g, max(x) AS m FROM t GROUP BY g"
    )
    sink(session, "a", "w")
    session.execute("INSERT INTO t VALUES (1, 1, 5)")
    run(session)
    assert len(list(Path(".sinkql/views").iterdir())) == 1
    session.execute("DROP SINK a; DROP MATERIALIZED VIEW w")
    assert list(Path(".sinkql/views").iterdir()) == []
    assert session.jobs() == []


def test_a_view_that_is_replaced_gives_its_sinks_what_changes(session: Session) -> None:
    sink(session, "a")
    sink(session, "b", clauses="MODE APPEND")
    session.execute("INSERT INTO t VALUES (1, 1, 5), (2, 2, 7), (3, 2, 9)")
    run(session)
    session.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT g, count(*) AS n, sum(x + 1) AS s FROM t GROUP BY g"
    )
    session.execute("INSERT INTO t VALUES (4, 3, 1)")
    run(session)
    (result,) = session.execute("SELECT g, count(*), sum(x + 1) FROM t GROUP BY g")
    assert table("a") == Counter(result.rows)
    found: Counter[tuple[Any, ...]] = Counter()
    for *row, diff, _ in table("b").elements():
        found[tuple(row)] += diff
    assert +found == Counter(result.rows)


def test_a_view_that_gets_a_column_has_upsert_sinks_follow(session: Session) -> None:
    sink(session, "a")
    sink(session, "b", "large")
    session.execute("INSERT INTO t VALUES (1, 1, 5), (2, 2, 7), (3, 2, 9)")
    run(session)
    session.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT g, count(*) AS n, sum(x) AS s, max(x) AS m FROM t GROUP BY g"
    )
    run(session)
    (result,) = session.execute("SELECT g, count(*), sum(x), max(x) FROM t GROUP BY g")
    assert table("a") == Counter(result.rows)
    assert table("b") == Counter({(2, 16): 1})


def test_views_in_a_transaction_are_all_or_nothing(session: Session) -> None:
    session.execute("BEGIN")
    sink(session, "a")
    sink(session, "b")
    session.execute("ROLLBACK")
    assert session.jobs() == []
    session.execute("BEGIN")
    sink(session, "a")
    sink(session, "b")
    session.execute("COMMIT")
    assert {name: sources(job) for name, job in jobs(session).items()} == {"a": {"v"}, "b": {"v"}, "v": {"t"}}
    session.execute("INSERT INTO t VALUES (1, 1, 5)")
    run(session)
    assert table("a") == table("b") == expected(session)


def test_a_view_over_a_view_reads_its_log(session: Session) -> None:
    session.execute(
        "CREATE MATERIALIZED VIEW w WITH (COMMIT INTERVAL = '1s') AS SELECT g, max(x) AS m FROM t GROUP BY g;"
        "CREATE MATERIALIZED VIEW w2 WITH (COMMIT INTERVAL = '1s') AS SELECT m, count(g) AS n FROM w GROUP BY m"
    )
    sink(session, "a", "w2", "KEY (m) MODE UPSERT")
    found = jobs(session)
    assert {name: sources(job) for name, job in found.items()} == {"a": {"w2"}, "w2": {"w"}, "w": {"t"}}
    session.execute("INSERT INTO t VALUES (1, 1, 5), (2, 2, 5), (3, 3, 9)")
    run(session, "w", "w2", "a")
    assert table("a") == Counter({(5, 2): 1, (9, 1): 1})


def test_an_interval_under_100_milliseconds_is_refused(session: Session) -> None:
    with pytest.raises(SinkqlError) as refused:
        session.execute("CREATE MATERIALIZED VIEW w WITH (COMMIT INTERVAL = '99ms') AS SELECT g FROM t")
    assert refused.value.code == "SQ2309"


def test_a_view_leaves_out_records_that_its_sinks_keep_as_dead_letters(session: Session) -> None:
    Path("in").mkdir()
    Path("in/a.json").write_text('{"id": 1, "x": 5}\n{"id": 2, "x": "no"}\n{"id": 3, "x": 5}\n')
    os.utime("in/a.json", (0, 0))  # a young file may still be growing
    session.execute(
        "CREATE SOURCE f (id bigint, x int) FROM FILES (PATH = 'in') FORMAT JSON WITH (ON ERROR = 'DEAD LETTER');"
        "CREATE MATERIALIZED VIEW w WITH (COMMIT INTERVAL = '1s') AS SELECT x, count(*) AS n FROM f GROUP BY x"
    )
    sink(session, "a", "w", "KEY (x) MODE UPSERT")
    run(session)
    (result,) = session.execute("SELECT * FROM w")
    assert [notice.code for notice in result.notices] == ["SQ2649"]
    assert table("a") == Counter(result.rows) == Counter({(5, 2): 1})
    assert [row[0] for row in pyiceberg_rows(open_table(Path(), "n.a__errors"))]
