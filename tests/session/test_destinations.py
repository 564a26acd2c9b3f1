"""A second sink of one table is refused before anything is stored, unless both sinks keep existing rows."""

from __future__ import annotations

import pytest

from sinkql.errors import SinkqlError
from sinkql.session import Session
from sinkql.session.deploy.apply import apply
from sinkql.session.deploy.deployment import plan_deployment
from sinkql.session.deploy.script_catalog import Script

from .script import COUNTER, LAKE, PIPELINE, SINK, fails

_SECOND = SINK.replace("user_activity_iceberg", "second")
_KEEP = "'2s', EXISTING ROWS = KEEP"


@pytest.fixture
def piped(session: Session) -> Session:
    """Return a session whose catalog has a sink."""
    session.execute(PIPELINE)
    return session


def _sinks(session: Session) -> list[str]:
    return [name.rpartition(".")[2] for name in session.catalog.plans.names("SINK")]


def _refused(session: Session, text: str) -> None:
    error = fails(session, text)
    assert (error.code, error.message) == (
        "SQ2342",
        'sink "user_activity_iceberg" already writes to table "analytics.user_activity"',
    )
    assert error.span is not None
    assert text[error.span.start : error.span.end] == "NAMESPACE = 'analytics', TABLE = 'user_activity'"


def test_a_sink_that_nobody_planned_yet_is_in_the_way(piped: Session) -> None:
    with Session() as session:  # reads the file again without planning the items
        _refused(session, _SECOND)
        assert _sinks(session) == ["user_activity_iceberg"]
        waiting = session.catalog.plans.present()["materialize.public.user_activity_iceberg"]
        assert type(waiting).__name__ == "Waiting"
        session.execute("DROP SINK user_activity_iceberg;" + _SECOND)
        assert _sinks(session) == ["second"]


def test_a_sink_is_in_the_way_under_other_names_too(piped: Session) -> None:
    piped.execute("ALTER CONNECTION lake RENAME TO ocean; ALTER SINK user_activity_iceberg RENAME TO user_activity;")
    second = _SECOND.replace("CONNECTION lake", "CONNECTION ocean")
    assert 'sink "user_activity" already writes' in fails(piped, second).message
    with Session() as session:
        assert 'sink "user_activity" already writes' in fails(session, second).message


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_sinks_that_all_keep_rows_share_a_table(session: Session, first: bool, second: bool) -> None:
    session.execute(LAKE + COUNTER + (SINK.replace("'2s'", _KEEP) if first else SINK))
    text = _SECOND.replace("'2s'", _KEEP) if second else _SECOND
    if first and second:
        session.execute(text)
        assert _sinks(session) == ["second", "user_activity_iceberg"]
    else:
        _refused(session, text)
        assert _sinks(session) == ["user_activity_iceberg"]


def test_a_transaction_and_a_deployment_refuse_it_too(piped: Session) -> None:
    _refused(piped, f"BEGIN; {_SECOND}")
    piped.execute(f"ROLLBACK; BEGIN; DROP SINK user_activity_iceberg; {_SECOND} COMMIT;")
    assert _sinks(piped) == ["second"]
    with pytest.raises(SinkqlError, match='sink "second" already writes'):
        plan_deployment([Script("p.sql", SINK)], piped, keep=True)
    with pytest.raises(SinkqlError, match="already writes"):
        plan_deployment([Script("p.sql", LAKE + COUNTER + SINK + _SECOND)], piped)
    apply(plan_deployment([Script("p.sql", LAKE + COUNTER + SINK)], piped), piped)
    assert _sinks(piped) == ["user_activity_iceberg"]


def test_tables_whose_dotted_names_are_the_same_are_two(session: Session) -> None:
    dotted = SINK.replace("'analytics', TABLE = 'user_activity'", "'analytics', TABLE = 'of.users'")
    second = _SECOND.replace("'analytics', TABLE = 'user_activity'", "'analytics.of', TABLE = 'users'")
    session.execute(LAKE + COUNTER + dotted + second)
    with Session() as again:  # has the destinations from the file
        error = fails(again, second.replace("second", "third"))
        assert error.message == 'sink "second" already writes to table ""analytics.of".users"'
    # a sink is dropped before another creates the same table, and after another creates a different one
    third = second.replace("second", "third").replace("FROM n", "FROM m")
    others = COUNTER + COUNTER.replace("SOURCE n", "SOURCE m")
    steps = plan_deployment([Script("p.sql", LAKE + others + third)], session).steps
    assert [(each.action, each.name.rpartition(".")[2], each.early) for each in steps] == [
        ("drop", "second", True),
        ("create", "m", False),
        ("create", "third", False),
        ("drop", "user_activity_iceberg", False),
    ]


def _break(session: Session) -> None:
    """Change the sink's statement to name a missing source, as if another program had changed the file."""
    with session.catalog.database.write() as connection:
        connection.execute(
            "UPDATE items SET create_sql = replace(create_sql, 'public.n', 'public.nope') WHERE kind = 'SINK'"
        )
        connection.execute("UPDATE identity SET generation = generation + 1")


def _broken(session: Session) -> list[str]:
    return [name.rpartition(".")[2] for name in session.catalog.broken]


@pytest.mark.parametrize("found", ["never", "before", "between"])
def test_a_sink_that_does_not_plan_any_more_is_in_the_way(piped: Session, found: str) -> None:
    _break(piped)
    with Session() as session:  # the sink is known only from the file until it is planned
        if found == "before":
            assert _broken(session) == ["user_activity_iceberg"]
        _refused(session, _SECOND)
        if found == "between":
            assert _broken(session) == ["user_activity_iceberg"]
            _refused(session, _SECOND)
        session.execute("DROP SINK user_activity_iceberg;" + _SECOND)
        assert _sinks(session) == ["second"]
        assert _broken(session) == []


@pytest.mark.parametrize("sink", [_SECOND, SINK])
def test_a_deployment_drops_what_does_not_plan_any_more_before_another_writes_there(piped: Session, sink: str) -> None:
    _break(piped)
    with Session() as session:
        apply(plan_deployment([Script("p.sql", LAKE + COUNTER + sink)], session), session)
        assert len(_sinks(session)) == 1
        assert plan_deployment([Script("p.sql", LAKE + COUNTER + sink)], session).steps == ()


def test_a_sink_that_plans_again_is_not_in_its_own_way(piped: Session) -> None:
    _break(piped)
    with Session() as session:
        assert _broken(session) == ["user_activity_iceberg"]
        session.execute("ALTER CONNECTION lake RENAME TO ocean;")
        second = _SECOND.replace("CONNECTION lake", "CONNECTION ocean")
        _refused(session, second)
        session.execute("CREATE SOURCE nope FROM LOAD GENERATOR COUNTER (UP TO 10);")
        session.execute("ALTER SINK user_activity_iceberg RENAME TO user_activity;")
        assert _broken(session) == []
        assert 'sink "user_activity" already writes' in fails(session, second).message
