"""Ctrl-C before a sink runs immediately ends a command that waits for an outside system."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import start
from support.patience import PATIENCE_S
from support.silent import silent

pytestmark = pytest.mark.long

_CONNECTION = "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'REST', URL = '{url}', WAREHOUSE = 'lake')"
_SINK = """ WITH (VALIDATE = false);
CREATE SOURCE n FROM LOAD GENERATOR COUNTER;
CREATE SINK s FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  MODE APPEND WITH (COMMIT INTERVAL = '1s')"""


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("command", "text"),
    [("exec", _CONNECTION), ("exec", _CONNECTION + _SINK), ("plan", _CONNECTION + _SINK)],
    ids=["connection", "sink", "plan"],
)
def test_ctrl_c_while_a_catalog_does_not_answer_ends_the_command(tmp_path: Path, command: str, text: str) -> None:
    with silent() as (url, asked):
        (tmp_path / "pipeline.sql").write_text(text.format(url=url) + ";")
        running = start(command, "pipeline.sql", folder=tmp_path)
        try:
            assert asked.get(timeout=PATIENCE_S).startswith(b"GET /v1/config")
            assert running.interrupt() == 130
        finally:
            running.kill()
