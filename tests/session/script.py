"""Scripts and helpers that several tests of sessions share."""

from __future__ import annotations

import pytest

from sinkql.errors import SinkqlError
from sinkql.session import Session

COUNTER = "CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);"
LAKE = "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');"
SINK = """
CREATE SINK user_activity_iceberg
  FROM n
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'analytics', TABLE = 'user_activity')
  ENVELOPE NONE
  WITH (COMMIT INTERVAL = '2s');
"""
PIPELINE = LAKE + COUNTER + SINK
NAME = "materialize.public.user_activity_iceberg"


def fails(session: Session, text: str) -> SinkqlError:
    """Run a text that must fail; return its error."""
    with pytest.raises(SinkqlError) as raised:
        session.execute(text, "script.sql")
    return raised.value


def sink_id(session: Session) -> str:
    """Return the id of the pipeline's sink."""
    return session.jobs([NAME])[0].sink_id
