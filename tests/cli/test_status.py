"""`sinkql status` prints states and progress of sinks; with --watch, again after each change, until Ctrl-C."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sinkql.cli.main import run_command
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


def test_it_shows_how_far_behind_sinks_and_their_sources_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with Session(tmp_path / ".sinkql" / "catalog.db") as session:
        session.execute(_ITEMS)
        (job,) = session.jobs()
        session.catalog.control.measured(
            job.sink_id, {"materialize.public.n": {"known": 5 << 20, "committed": 1 << 20, "unit": "bytes"}}
        )
    assert run_command(["status"]) == 0
    sinks, sources = capsys.readouterr().out.split("\n\n")
    assert re.split(" {2,}", sinks.splitlines()[2])[:5] == ["s", "created", "running", "0", "4.0 MB"]
    assert [re.split(" {2,}", line.strip()) for line in sources.splitlines() if line[0] in "sn"] == [
        ["source", "status", "behind"], ["n", "created", "4.0 MB"],
    ]  # fmt: skip
