"""An option that is set to its default, or spelled differently, is the same option."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkql.errors import SinkqlError
from sinkql.session import Session

_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE f (id int, v text) FROM FILES (PATH = 'f') FORMAT CSV WITH HEADER;
CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 10);
CREATE MATERIALIZED VIEW m AS SELECT count(*) AS c FROM f;
CREATE SINK k FROM f INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  MODE APPEND WITH (COMMIT INTERVAL = '90s');
"""
_SAME = [
    "ALTER SOURCE f SET (ON ERROR = FAIL);",
    "ALTER SOURCE f SET (on error = 'Fail');",
    "ALTER SINK k SET (MAINTENANCE = true);",
    "ALTER SINK k SET (MAX ROWS PER COMMIT = 5000000);",
    "ALTER SINK k SET (COMMIT INTERVAL = '90 seconds');",
    "ALTER SINK k SET (COMMIT INTERVAL = '1m 30s');",
]


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").mkdir()
    session = Session(tmp_path / "catalog.db")
    session.execute(_SCRIPT)
    return session


@pytest.mark.parametrize("change", _SAME)
def test_the_script_is_unchanged(session: Session, change: str) -> None:
    session.execute(change)
    codes = {notice.code for result in session.execute(_SCRIPT) for notice in result.notices}
    assert codes == {"SQ2012"}


@pytest.mark.parametrize(
    "other",
    [
        _SCRIPT.replace("'90s'", "'91s'"),
        _SCRIPT.replace("HEADER;", "HEADER WITH (ON ERROR = SKIP);"),
        _SCRIPT.replace("UP TO 10", "UP TO 11"),
        _SCRIPT.replace("count(*)", "count(id)"),
        _SCRIPT.replace("id int, v text", "id int, w text"),
    ],
)
def test_what_means_something_else_is_told(session: Session, other: str) -> None:
    assert other != _SCRIPT
    with pytest.raises(SinkqlError) as caught:
        session.execute(other)
    assert caught.value.code == "SQ2014"
