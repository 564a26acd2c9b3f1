"""`sinkql status --watch`: what the sinks do, told again when it has changed, until Ctrl-C."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkql.session import Session
from support.command import start

_ITEMS = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE n FROM LOAD GENERATOR COUNTER;
CREATE SINK s FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  MODE APPEND WITH (COMMIT INTERVAL = '1s');
"""


def test_watch_tells_what_changes_until_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / ".sinkql" / "catalog.db"
    with Session(path) as session:
        session.execute(_ITEMS)
        watching = start("status", "--watch", folder=tmp_path)
        watching.wait_for(lambda row: (row["name"], row["desired"]) == ("s", "running"))
        session.stop("s")
        watching.wait_for(lambda row: row["desired"] == "stopped")
    assert watching.interrupt() == 0
    assert len(watching.printed) == 2
