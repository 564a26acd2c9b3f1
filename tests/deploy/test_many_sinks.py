"""CREATE SINKS creates all sinks or fails without any, in sessions and through scripts."""

from __future__ import annotations

import pytest

from sinkql.errors import SinkqlError
from sinkql.session import Session
from sinkql.session.deploy.apply import apply
from sinkql.session.deploy.deployment import plan_deployment
from sinkql.session.deploy.script_catalog import Script

pytestmark = pytest.mark.long

_LAKE = "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');"
_TWO = "CREATE SOURCE auction FROM LOAD GENERATOR AUCTION FOR TABLES (auction.bids, auction.users);"
_SINKS = """
CREATE SINKS FOR ALL TABLES OF SOURCE auction
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'raw')
  WITH (COMMIT INTERVAL = '10s');
"""


def _names(session: Session) -> list[str]:
    (result,) = session.execute("SHOW SINKS;")
    return [row[0] for row in result.rows]


def test_each_table_gets_a_sink_and_again_nothing_happens(session: Session) -> None:
    *_, made = session.execute(_LAKE + _TWO + _SINKS)
    assert [name.rpartition(".")[2] for name in made.names] == ["bids_sink", "users_sink"]
    (again,) = session.execute(_SINKS)
    assert (_names(session), len(again.notices)) == (["bids_sink", "users_sink"], 2)


def test_where_one_sink_cannot_be_made_none_is(session: Session) -> None:
    other = "INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'raw', TABLE = 'other') MODE APPEND"
    session.execute(f"{_LAKE}{_TWO} CREATE SINK users_sink FROM bids {other} WITH (COMMIT INTERVAL = '10s');")
    with pytest.raises(SinkqlError) as caught:
        session.execute(_SINKS)
    assert (caught.value.code, _names(session), session.transaction) == ("SQ2014", ["users_sink"], None)


def test_scripts_describe_a_sink_for_each_table(session: Session) -> None:
    script = Script("shop.sql", _SINKS + _TWO + _LAKE)
    apply(plan_deployment([script], session), session)
    assert _names(session) == ["bids_sink", "users_sink"]
    assert plan_deployment([script], session).steps == ()
    assert plan_deployment([Script("some.sql", _SINKS)], session, keep=True).steps == ()
    more = plan_deployment([Script("shop.sql", _SINKS + _TWO.replace(", auction.users", "") + _LAKE)], session)
    assert ("drop", "users_sink") in [(step.action, step.name.rpartition(".")[2]) for step in more.steps]
