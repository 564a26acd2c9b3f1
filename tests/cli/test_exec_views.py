"""The jobs that `sinkql exec` runs: views that no sink reads, and the sinks of CREATE SINKS."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sinkql import physical
from sinkql.cli.main import run_command
from sinkql.session import Session

_SCRIPT = """
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);
CREATE MATERIALIZED VIEW v {options}AS SELECT counter % 3 AS m, count(*) AS n FROM n GROUP BY counter % 3;
"""


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, options: str, *more: str) -> list[str]:
    """Run the script with more statements; return the names of the jobs that it starts."""
    ran: list[str] = []

    def take(self: Session, jobs: Sequence[physical.Job], **_: Any) -> int:
        ran.extend(job.sink.rpartition(".")[2] for job in jobs)
        return 0

    monkeypatch.setattr(Session, "run", take)
    monkeypatch.chdir(folder)
    (folder / "v.sql").write_text("\n".join([_SCRIPT.format(options=options), *more]))
    assert run_command(["exec", "--once", "v.sql"]) == 0
    return ran


def test_a_view_with_a_log_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(tmp_path, monkeypatch, "WITH (COMMIT INTERVAL = '1s') ") == ["v"]
    assert run(tmp_path, monkeypatch, "WITH (COMMIT INTERVAL = '1s') ") == ["v"]  # the view exists already


def test_a_view_without_one_is_said_to_wait_for_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, monkeypatch, "") == []
    assert "Materialized view v is computed when a sink or a query reads it. " in capsys.readouterr().out
    view = "CREATE MATERIALIZED VIEW {} AS SELECT m FROM v;"
    logged = view.format("l WITH (COMMIT INTERVAL = '1s')")
    assert run(tmp_path, monkeypatch, "", view.format("w")) == []
    assert "Materialized views v, w are computed when a sink or a query reads them. " in capsys.readouterr().out
    assert run(tmp_path, monkeypatch, "", view.format("w"), logged) == ["l"]
    assert "Materialized view w is computed when " in capsys.readouterr().out


def test_all_sinks_of_create_sinks_are_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statements = """
CREATE SOURCE auction FROM LOAD GENERATOR AUCTION FOR TABLES (auction.bids, auction.users);
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SINKS FOR ALL TABLES OF SOURCE auction
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'raw')
  WITH (COMMIT INTERVAL = '10s');
"""
    assert run(tmp_path, monkeypatch, "", statements) == ["bids_sink", "users_sink"]
    assert run(tmp_path, monkeypatch, "", statements) == ["bids_sink", "users_sink"]
