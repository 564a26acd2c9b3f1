"""`sinkql up` loses its table and its warehouse: `status` shows the reason, and the sink continues after the repair."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog, load_catalog

from sinkql.session import Session
from support.command import Running, run, start
from support.readers import duckdb_folder

pytestmark = pytest.mark.soak

_ITEMS = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///lake.db', WAREHOUSE = 'lake');
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (ROWS PER SECOND 1000);
"""
_SINK = """
CREATE SINK s FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  ENVELOPE NONE WITH (COMMIT INTERVAL = '1s');
"""


def test_a_sink_continues_when_what_was_gone_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Session() as session:
        session.execute(_ITEMS + _SINK)
        up = start("up", folder=tmp_path)
        try:
            _commits(up)
            catalog = _catalog(tmp_path)
            catalog.drop_table("n.t")
            _stalled(up, tmp_path, "SQ3503", 'table "n.t" was dropped')
            catalog.register_table("n.t", _newest(tmp_path))
            _commits(up)
            (tmp_path / "lake").rename(tmp_path / "away")
            _stalled(up, tmp_path, "SQ3556", 'a file of table "n.t" is missing')
            (tmp_path / "away").rename(tmp_path / "lake")
            _commits(up)
            assert _rows(tmp_path)
            catalog.purge_table("n.t")
            _stalled(up, tmp_path, "SQ3503", 'table "n.t" was dropped')
            session.execute("DROP SINK s;")
            session.execute(_SINK)
            _commits(up)
            assert up.interrupt() == 0
        finally:
            up.kill()
    found = _rows(tmp_path)
    assert found == [(number,) for number in range(1, len(found) + 1)]


def _commits(up: Running) -> None:
    """Wait for the next commit with rows."""
    up.wait_for(lambda event: event["event"] == "committed" and event["rows"] > 0)


def _stalled(up: Running, folder: Path, code: str, message: str) -> None:
    def found(event: dict[str, Any]) -> bool:
        return bool(event["event"] == "stalled" and event["error"]["code"] == code)

    assert up.wait_for(found)["error"]["message"] == message
    told = run("status", folder=folder).stdout
    assert "stalled" in told
    assert f"{code}: {message}" in " ".join(told.split())


def _catalog(folder: Path) -> Catalog:
    uri, warehouse = f"sqlite:///{folder}/lake.db", f"file://{folder}/lake"
    return load_catalog("default", type="sql", uri=uri, warehouse=warehouse)


def _newest(folder: Path) -> str:
    """Return the location of the table's newest metadata, which registers the table again."""
    return f"file://{max((folder / 'lake/n/t/metadata').glob('*.metadata.json'))}"


def _rows(folder: Path) -> list[tuple[Any, ...]]:
    return duckdb_folder(folder / "lake/n/t")
