"""ALTER: the stored definition, its state after an error, and the effect on running sinks."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from session.script import NAME, PIPELINE, fails, sink_id
from sinkql import ast, logical, physical
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connector_api.registry import Registry, discover
from sinkql.errors import SinkqlError
from sinkql.runtime.sink.workload import WorkloadFollower
from sinkql.session import Session
from sinkql.session.sink.workload import CatalogWorkload

_AWS = """
CREATE SECRET key AS 'one';
CREATE CONNECTION s3 TO AWS (ACCESS KEY ID = 'k', SECRET ACCESS KEY = SECRET key);
CREATE SINK t FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'analytics', TABLE = 't')
  USING AWS CONNECTION s3 ENVELOPE NONE WITH (COMMIT INTERVAL = '2s');
"""


@pytest.fixture
def piped(session: Session) -> Session:
    session.execute(PIPELINE)
    return session


def _following(session: Session, sink: str) -> WorkloadFollower:
    (job,) = session.jobs([sink])
    workload = CatalogWorkload(session.catalog, [job], every_seconds=0)
    (work,) = workload.now()
    return WorkloadFollower(workload, work, work.job.cluster, once=False)


def _create_sql(session: Session) -> str:
    (result,) = session.execute("SHOW CREATE SINK user_activity_iceberg;")
    return str(result.rows[0][1])


def test_a_sink_keeps_its_id_and_another_session_sees_the_change(piped: Session) -> None:
    before = sink_id(piped)
    piped.execute("ALTER SINK user_activity_iceberg SET (COMMIT INTERVAL = '5s');")
    (job,) = Session().jobs([NAME])
    assert (before, timedelta(seconds=5)) == (job.sink_id, job.commit_interval)


def test_what_is_wrong_changes_nothing(piped: Session) -> None:
    before = _create_sql(piped)
    error = fails(piped, "ALTER SINK user_activity_iceberg SET (COMMIT INTERVAL = '1ms');")
    assert (error.code, before) == ("SQ2309", _create_sql(piped))
    assert before == _create_sql(Session())


@pytest.mark.parametrize(
    ("change", "sign"),
    [
        ("SET (COMMIT INTERVAL = '5s', MAX ROWS PER COMMIT = 7)", "same"),
        ("SET (RETAIN SNAPSHOTS = 3)", "other"),
        ("SET FROM m", "other"),
        ("SET CLUSTER c", "moved"),
    ],
)
def test_who_runs_a_sink_sees_what_became_of_it(piped: Session, change: str, sign: str) -> None:
    piped.execute("CREATE CLUSTER c (SIZE = 'local[1]'); CREATE SOURCE m FROM LOAD GENERATOR COUNTER (UP TO 20);")
    following = _following(piped, NAME)
    assert following.update() == "same"
    Session().execute(f"ALTER SINK user_activity_iceberg {change};")
    assert following.update() == sign
    assert following.update() == ("moved" if sign == "moved" else "same")
    assert following.work.job == piped.jobs([NAME])[0]


@pytest.mark.parametrize(
    ("change", "outdated"),
    [("SET CLUSTER c", False), ("RENAME TO other", False), ("SET (RETAIN SNAPSHOTS = 3)", True), ("SET FROM m", True)],
)
def test_rows_that_are_computed_again_are_no_others_for_a_name_or_a_cluster(
    piped: Session, change: str, *, outdated: bool
) -> None:
    piped.execute("CREATE CLUSTER c (SIZE = 'local[1]'); CREATE SOURCE m FROM LOAD GENERATOR COUNTER (UP TO 20);")
    following = _following(piped, NAME)
    Session().execute(f"ALTER SINK user_activity_iceberg {change};")
    assert following.differs()
    assert following.outdated() == outdated


def test_a_new_value_of_a_secret_is_seen_by_the_sinks_that_use_it(piped: Session) -> None:
    piped.execute(_AWS)
    using, other = _following(piped, "t"), _following(piped, NAME)
    Session().execute("ALTER SECRET key AS 'two';")
    assert (using.differs(), other.differs()) == (True, False)
    assert (using.update(), using.update()) == ("other", "same")
    job = using.work.job
    assert job.write.store is not None
    store = piped.context(job).store(job.write.store)
    assert store.properties()["s3.secret-access-key"] == "two"


def test_a_sink_from_another_relation_follows_its_earlier_plans(piped: Session) -> None:
    piped.execute("CREATE SOURCE m FROM LOAD GENERATOR COUNTER (UP TO 20);")
    plans = [piped.jobs([NAME])[0].plan]
    piped.execute("ALTER SINK user_activity_iceberg SET FROM m;")
    assert tuple(plans) == tuple(each.plan for each in piped.jobs([NAME])[0].follows)
    plans.append(piped.jobs([NAME])[0].plan)
    piped.execute("ALTER SINK user_activity_iceberg SET FROM n;")
    assert tuple(plans) == tuple(each.plan for each in piped.jobs([NAME])[0].follows)
    assert plans[0] == piped.jobs([NAME])[0].plan


def test_sinks_that_users_stopped_are_not_to_run(piped: Session) -> None:
    workload = CatalogWorkload(piped.catalog, every_seconds=0)
    assert [work.job.sink for work in workload.now()] == [NAME]
    piped.stop(NAME)
    assert workload.now() == []
    piped.start(NAME)
    first = workload.now()
    piped.start(NAME)
    assert first != workload.now()  # a second start is a new request, so that failed sinks are retried
    piped.execute("DROP SINK user_activity_iceberg;")
    assert workload.now() == []


# --- the outside ------------------------------------------------------------------------------------------------------


def _refusing(table: str) -> Registry:
    """Return a registry whose Iceberg catalogs refuse one table once it exists."""
    registry, seen = discover(), set[str]()
    kind = registry.sinks["ICEBERG CATALOG"]

    def find(
        statement: ast.CreateSink, sink: logical.Sink, access: OutsideAccess, *, job: physical.Job | None = None
    ) -> logical.Facts:
        if sink.options["table"] == table and table in seen:
            raise SinkqlError("SQ4203", "the catalog does not allow this")
        seen.add(sink.options["table"])
        return {"table": None}

    return replace(registry, sinks=registry.sinks | {kind.name: replace(kind, facts=find)})


def test_a_connection_stays_as_it_is_where_a_sink_that_uses_it_would_not_run(folder: Path) -> None:
    session = Session(registry=_refusing("t"))
    session.execute(PIPELINE + _AWS)
    error = fails(session, "ALTER CONNECTION s3 SET (REGION = 'eu-west-1');")
    assert (error.code, error.message) == ("SQ4203", 'sink "t": the catalog does not allow this')
    assert error.span is not None
    (before,) = Session().execute("SHOW CREATE CONNECTION s3;")
    assert "eu-west-1" not in str(before.rows)
    session.execute("ALTER CONNECTION s3 SET (REGION = 'eu-west-1') WITH (VALIDATE = false);")
    (after,) = Session().execute("SHOW CREATE CONNECTION s3;")
    assert "eu-west-1" in str(after.rows)


def test_a_catalog_that_does_not_answer_is_told_at_the_connection(session: Session) -> None:
    session.execute(
        "CREATE CONNECTION away TO ICEBERG CATALOG (CATALOG TYPE = 'rest', URL = 'http://127.0.0.1:1')"
        " WITH (VALIDATE = false);"
    )
    text = "VALIDATE CONNECTION away;"
    error = fails(session, text)
    assert error.span is not None
    assert (error.code, text[error.span.start : error.span.end]) == ("SQ4201", "away")


def test_alter_in_a_transaction_takes_effect_at_its_commit(piped: Session) -> None:
    piped.execute(_AWS + "CREATE SOURCE m FROM LOAD GENERATOR COUNTER (UP TO 20);")
    plan, following = piped.jobs([NAME])[0].plan, _following(piped, "t")
    piped.execute(
        "BEGIN;"
        "ALTER SINK user_activity_iceberg SET (COMMIT INTERVAL = '5s');"
        "ALTER SINK user_activity_iceberg SET FROM m;"
        "ALTER SECRET key AS 'two';"
    )
    assert Session().jobs([NAME])[0].commit_interval == timedelta(seconds=2)
    assert not following.differs()
    piped.execute("COMMIT;")
    (job,) = Session().jobs([NAME])
    assert (job.commit_interval, job.follows) == (timedelta(seconds=5), (physical.Earlier(plan),))
    assert following.differs()
