"""Scripts that create an item twice, or an item that no catalog accepts: the plan reports it before apply."""

from __future__ import annotations

import pytest

from sinkql.errors import SinkqlError
from sinkql.session import Session
from sinkql.session.deploy.deployment import Deployment, plan_deployment
from sinkql.session.deploy.script_catalog import Script


def _plan(session: Session, text: str) -> Deployment:
    return plan_deployment([Script("tables.sql", text)], session)


@pytest.mark.parametrize(
    ("type_", "code", "message"),
    [
        ("bigint", "SQ2012", 'table "t" already exists, skipped'),
        ("text", "SQ2013", 'table "t" already exists and is different, skipped'),
    ],
)
def test_a_second_definition_with_if_not_exists_gives_the_notice_of_a_session(
    session: Session, type_: str, code: str, message: str
) -> None:
    deployment = _plan(session, f"CREATE TABLE t (id bigint); CREATE TABLE IF NOT EXISTS t (id {type_});")
    assert [(item.notice.code, item.notice.message) for item in deployment.notices] == [(code, message)]


@pytest.mark.parametrize("create", ["CREATE VIEW v AS SELECT 1 AS a", "CREATE OR REPLACE VIEW v AS SELECT 2 AS a"])
def test_a_second_definition_is_refused_because_scripts_have_no_order(session: Session, create: str) -> None:
    with pytest.raises(SinkqlError) as raised:
        _plan(session, f"CREATE VIEW v AS SELECT 1 AS a; {create};")
    assert raised.value.code == "SQ2002"


def test_an_index_of_a_view_without_a_log_is_refused_by_the_plan(session: Session) -> None:
    text = (
        "CREATE SOURCE n FROM LOAD GENERATOR COUNTER; CREATE MATERIALIZED VIEW v AS SELECT counter FROM n;"
        "CREATE INDEX ON v (counter);"
    )
    with pytest.raises(SinkqlError) as raised:
        _plan(session, text)
    assert (raised.value.code, raised.value.path) == ("SQ2372", "tables.sql")
