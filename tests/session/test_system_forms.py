"""A query over a system relation gives the same result as over a table with the relation's rows."""

from __future__ import annotations

from session.system_forms import PYTHON, fill, found
from sinkql.session import Session


def test_forms_over_system_relations_are_those_over_tables(session: Session) -> None:
    fill(session)
    for query in PYTHON:
        assert found(session, query.format(r="plain")) == found(session, query.format(r="mz_relations")), query
    assert session._spark is None


def test_times_of_system_relations_are_read(session: Session) -> None:
    session.execute("CREATE TABLE t (a int)")
    query = "SELECT event_type, count(*) FILTER (WHERE occurred_at <= now()) FROM mz_audit_events GROUP BY ROLLUP (1)"
    assert ("create", 1) in session.execute(query)[0].rows
