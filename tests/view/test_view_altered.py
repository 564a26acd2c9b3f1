"""ALTER of a materialized view's options, and its effect on the view's job."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from sinkql.errors import SinkqlError
from sinkql.lowering.materialized_view import view_id
from sinkql.session import Result, Session
from view.test_view_jobs import expected, jobs, run, sink, sources, table


def alter(session: Session, action: str, view: str = "v") -> Result:
    (result,) = session.execute(f"ALTER MATERIALIZED VIEW {view} {action}")
    return result


def retained(session: Session) -> int:
    found: int = jobs(session)["v"].write.options["tuning"]["retain_ms"]
    return found


def test_options_of_a_job_change_and_its_log_stays(session: Session) -> None:
    sink(session, "a")
    sink(session, "b", "large")
    session.execute("INSERT INTO t VALUES (1, 1, 5)")
    run(session)
    before = jobs(session)["v"]
    alter(session, "SET (COMMIT INTERVAL = '2s', RETAIN HISTORY FOR '1 hour')")
    after = jobs(session)["v"]
    assert (after.sink_id, after.plan) == (before.sink_id, before.plan)
    assert (after.commit_interval, retained(session)) == (timedelta(seconds=2), 3_600_000)
    alter(session, "SET (RETAIN HISTORY = FOR '2 hours')")
    assert retained(session) == 7_200_000
    alter(session, "RESET (COMMIT INTERVAL, RETAIN HISTORY)")
    assert (jobs(session)["v"].commit_interval, retained(session)) == (timedelta(seconds=5), 0)
    session.execute("INSERT INTO t VALUES (2, 1, 5)")
    run(session)
    assert table("a") == expected(session)


def test_options_make_a_view_a_job_whose_new_sinks_read_it(session: Session) -> None:
    sink(session, "a")
    told = alter(session, "SET (COMMIT INTERVAL = '2s')")
    assert [notice.code for notice in told.notices] == ["SQ2356"]
    assert alter(session, "SET (COMMIT INTERVAL = '2s')", "large").notices == ()
    assert {name: sources(job) for name, job in jobs(session).items()} == {"a": {"v"}, "v": {"t"}, "large": {"v"}}
    session.execute("INSERT INTO t VALUES (1, 1, 5), (2, 1, 7)")
    run(session, "v", "large", "a")
    assert table("a") == expected(session)


def test_a_sink_that_has_begun_computes_it_as_before(session: Session) -> None:
    sink(session, "a")
    session.execute("INSERT INTO t VALUES (1, 1, 5)")
    run(session)
    (told,) = alter(session, "SET (COMMIT INTERVAL = '2s')").notices
    assert told.hint is not None
    assert sources(jobs(session)["a"]) == {"t"}
    session.execute("INSERT INTO t VALUES (2, 1, 5)")
    run(session)
    assert table("a") == expected(session)


def test_a_view_that_is_replaced_with_options_becomes_a_job(session: Session) -> None:
    before = session.catalog.generation
    session.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW v WITH (COMMIT INTERVAL = '2s') AS"
        " SELECT g, count(*) AS n, sum(x) AS s FROM t GROUP BY g"
    )
    assert session.catalog.generation == before + 1
    assert view_id("materialize.public.v", session.catalog.plans) is not None
    session.execute("INSERT INTO t VALUES (1, 1, 5)")
    run(session)
    (result,) = session.execute("SELECT * FROM v")
    assert Counter(result.rows) == Counter({(1, 1, 5): 1})
    assert [notice.message for notice in result.notices if notice.code == "SQ2649"]


def test_sinks_of_a_view_that_is_replaced_with_options_follow_its_new_query(session: Session) -> None:
    sink(session, "a")
    session.execute("INSERT INTO t VALUES (1, 1, 5), (2, 2, 6)")
    run(session)
    sink(session, "b", "large")
    session.execute("DROP SINK b")
    before = session.catalog.generation
    query = "SELECT g, count(*) AS n, max(x)::bigint AS s FROM t GROUP BY g"
    session.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v WITH (COMMIT INTERVAL = '2s') AS {query}")
    assert session.catalog.generation == before + 1
    sink(session, "c")
    assert {name: sources(job) for name, job in jobs(session).items()} == {"a": {"t"}, "v": {"t"}, "c": {"v"}}
    session.execute("INSERT INTO t VALUES (3, 1, 7)")
    run(session)
    assert table("a") == table("c") == Counter({(1, 2, 7): 1, (2, 1, 6): 1})


@pytest.mark.parametrize(
    ("action", "code"),
    [
        ("SET (COMMIT INTERVAL = '0.05s')", "SQ2309"),
        ("SET (INTERVAL = '1s')", "SQ2101"),
        ("SET (COMMIT INTERVAL = 'soon')", "SQ2103"),
        ("RESET (REFRESH)", "SQ2101"),
        ("SET (REPLICATE = (t))", "SQ2340"),
    ],
)
def test_options_that_there_are_not_are_refused(session: Session, action: str, code: str) -> None:
    with pytest.raises(SinkqlError) as refused:
        alter(session, action)
    assert refused.value.code == code
    assert refused.value.span is not None
    assert refused.value.hint is not None
    assert session.jobs() == []


def test_a_transaction_that_is_rolled_back_leaves_the_view_as_it_was(session: Session) -> None:
    session.execute("BEGIN; ALTER MATERIALIZED VIEW v SET (COMMIT INTERVAL = '2s'); ROLLBACK")
    assert session.jobs() == []
    session.execute("BEGIN; ALTER MATERIALIZED VIEW v SET (COMMIT INTERVAL = '2s'); COMMIT")
    assert set(jobs(session)) == {"v"}
