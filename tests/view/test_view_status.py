"""Status, state, plan and progress of a materialized view with a job."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from sinkql.cli.output import Output
from sinkql.cli.progress import LiveProgress
from sinkql.errors import SinkqlError
from sinkql.lowering.job import lower
from sinkql.runtime.batch.events import SinkCommitted, SinkElsewhere, SinkStarting, SinkStopped, silent
from sinkql.runtime.batch.metrics import ProgressMeter
from sinkql.session import Session
from support.running import drain, loop_of
from view.test_view_jobs import sink

_VIEW, _SINK = "materialize.public.v", "materialize.public.a"


def run(session: Session, *names: str) -> None:
    """Commit all data of the jobs in this order, and report their progress like a running process."""
    control = session.catalog.control
    for name in names:
        job = lower(f"materialize.public.{name}", session.catalog.plans)
        loop = loop_of(job, session.context(job), session.catalog.registry, control=control)
        loop.start(epoch=1, once=True)
        drain(loop)
        ProgressMeter(job.sink_id, control, silent).sample(
            job.sink, loop.readers, loop.checkpoint.end, waits=False, last=True, state=loop.report.metrics.now,
            tick=loop.checkpoint.tick,
        )  # fmt: skip


def status(session: Session, *names: str) -> dict[str, dict[str, Any]]:
    columns, rows = session.status(names)
    return {row[0]: dict(zip(columns, row, strict=True)) for row in rows}


def rows(session: Session, query: str) -> list[tuple[Any, ...]]:
    (result,) = session.execute(query)
    return list(result.rows)


@pytest.fixture
def shared(session: Session) -> Session:
    """Return a session with a view that two sinks share; its job and the sinks have run."""
    sink(session, "a")
    sink(session, "b", "large")
    session.execute("INSERT INTO t VALUES (1, 1, 5), (2, 1, 7), (3, 2, 9)")
    run(session, "v", "a", "b")
    return session


def test_the_status_has_views_behind_the_sinks(shared: Session) -> None:
    found = status(shared)
    assert [(name, each["type"], each["rows"], each["commits"]) for name, each in found.items()] == [
        ("a", "sink", 2, 1),
        ("b", "sink", 1, 1),
        ("v", "materialized view", 2, 1),
    ]
    assert (found["v"]["amplification"], found["v"]["widest_key"], found["a"]["widest_key"]) == (0.7, 1, None)
    assert list(status(shared, "v", "a")) == ["a", "v"]


def test_a_view_that_its_sinks_compute_has_no_status(session: Session) -> None:
    sink(session, "a")
    assert list(status(session)) == ["a"]
    with pytest.raises(SinkqlError) as refused:
        session.status(["v"])
    assert refused.value.code == "SQ2003"


def test_a_view_that_fails_is_told_where_sinks_are(shared: Session) -> None:
    (job,) = [each for each in shared.jobs() if each.view]
    shared.catalog.control.acquire(job.sink_id, owner="x", takeover=True)
    shared.catalog.control.status(job.sink_id, "stalled", owner="x", error="SQ3212: two rows", hint="Mend it.")
    assert status(shared)["v"]["error"] == "SQ3212: two rows"
    assert rows(shared, "SELECT notice_type, message, hint FROM mz_internal.mz_notices") == [
        ("Materialized view stalled", "SQ3212: two rows", "Mend it.")
    ]
    assert rows(shared, "SELECT name, status FROM mz_internal.mz_materialized_view_statuses") == [("v", "stalled")]


def test_a_view_is_stopped_and_started_like_a_sink(shared: Session) -> None:
    assert shared.stop("v") == (_VIEW,)
    assert {name: each["desired"] for name, each in status(shared).items()} == {
        "a": "running",
        "b": "running",
        "v": "stopped",
    }
    assert set(shared.start()) == {_SINK, "materialize.public.b", _VIEW}
    assert {each["desired"] for each in status(shared).values()} == {"running"}


def test_the_state_of_a_view_is_shown(shared: Session) -> None:
    query = "SELECT o.name, t.operator, t.rows FROM mz_internal.mz_state AS t JOIN mz_objects AS o ON o.id = t.id"
    assert rows(shared, query) == [("v", "aggregate", 2)]
    plan = rows(shared, "EXPLAIN PHYSICAL PLAN WITH (STATE) FOR MATERIALIZED VIEW v")
    assert plan[0] == (f"Job {_VIEW} (materialized view)",)
    assert any("2 rows" in line for (line,) in plan)
    with pytest.raises(SinkqlError) as refused:
        shared.execute("EXPLAIN PHYSICAL PLAN WITH (STATE) FOR MATERIALIZED VIEW large")
    assert refused.value.code == "SQ2970"
    assert "FOR SINK" in str(refused.value.hint)


def test_a_source_that_only_a_view_reads_is_known(session: Session) -> None:
    session.execute(
        "CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);"
        "CREATE MATERIALIZED VIEW c WITH (COMMIT INTERVAL = '1s') AS SELECT counter % 3 AS m, count(*) AS n FROM n"
        " GROUP BY counter % 3"
    )
    sink(session, "a", "c", "KEY (m) MODE UPSERT")
    run(session, "c", "a")
    columns, ((*found,),) = session.source_status(["c"])
    assert dict(zip(columns, found, strict=True))["source"] == "n"
    read = rows(
        session,
        "SELECT messages_received, updates_committed FROM mz_internal.mz_source_statistics AS s"
        " JOIN mz_sources AS o ON o.id = s.id WHERE o.name = 'n'",
    )
    loop = status(session)["c"]
    assert read == [(10, loop["rows"])]


def test_lines_of_progress_name_views_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    face = LiveProgress(Output("text"), lambda sink: [])
    commit = SinkCommitted(_VIEW, 3, 3, 0, 1, 1, 2.0, timedelta(), timedelta())
    for event in (
        SinkStarting(_VIEW, "quickstart", view=True),
        SinkElsewhere(_SINK),
        commit,
        SinkStopped(_VIEW, "dropped"),
    ):
        face(event)
    lines = [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()]
    assert [line.partition(" v")[0] for line in lines if " v" in line] == ["materialized"] * 3
    assert any(line.startswith("another process runs sink a") for line in lines)
    assert any(line == "materialized view v ended: dropped" for line in lines)


def test_where_jobs_are_on_the_timeline_is_told(session: Session) -> None:
    session.execute(
        "CREATE MATERIALIZED VIEW w WITH (COMMIT INTERVAL = '1s') AS SELECT g, max(x) AS m FROM t GROUP BY g;"
        "CREATE MATERIALIZED VIEW w2 WITH (COMMIT INTERVAL = '1s') AS SELECT g, min(x) AS l FROM t GROUP BY g;"
        "CREATE MATERIALIZED VIEW w3 WITH (COMMIT INTERVAL = '1s') AS SELECT name, count(*) AS n FROM other"
        " GROUP BY name;"
        "INSERT INTO t VALUES (1, 1, 5); INSERT INTO other VALUES (1, 'a')"
    )
    run(session, "w", "w2", "w3")
    query = (
        "SELECT o.name, t.tick FROM mz_internal.mz_timeline AS t JOIN mz_objects AS o ON o.id = t.id ORDER BY o.name"
    )
    found = rows(session, query)
    assert [name for name, _ in found] == ["w", "w2"]
    assert len({tick for _, tick in found}) == 1
