"""`sinkql preview` prints rows and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sinkql.cli.main import run_command as run
from sinkql.session import Session

_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake') WITH (VALIDATE = false);
CREATE TABLE t (id int, at timestamptz, ok boolean, raw bytea);
INSERT INTO t VALUES (1, '2024-02-03 04:05:06.7+01', true, '\\x00ff'), (2, NULL, false, NULL);
CREATE SINK s FROM t INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  MODE APPEND WITH (COMMIT INTERVAL = '1s');
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """Return the words of each line without the line of the row count."""
    *lines, counted = [line for line in capsys.readouterr().out.splitlines() if line.strip() and "─" not in line]
    count = len(lines) - 1
    assert counted == f"({count} {'row' if count == 1 else 'rows'})"
    return [line.split() for line in lines]


def test_rows_are_printed_as_postgres_prints_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Session().execute(_SCRIPT)
    assert run(["preview", "t", "--limit", "1"]) == 0
    assert printed(capsys) == [["id", "at", "ok", "raw"], ["1", "2024-02-03", "03:05:06.7+00", "true", "\\x00ff"]]
    assert run(["--output", "json", "preview", "t"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first == {"id": 1, "at": "2024-02-03 03:05:06.7+00", "ok": True, "raw": "\\x00ff"}


@pytest.mark.parametrize("item", ['"a.b"', '"of a.b"'])
def test_a_name_with_a_dot_stands_in_quotes(folder: Path, capsys: pytest.CaptureFixture[str], item: str) -> None:
    script = _SCRIPT.replace("TABLE t", 'TABLE "a.b"').replace("INTO t ", 'INTO "a.b" ')
    (folder / "pipeline.sql").write_text(script.replace("SINK s FROM t", 'SINK "of a.b" FROM "a.b"'))
    assert run(["preview", "-f", "pipeline.sql", item]) == 0
    assert [line[0] for line in printed(capsys)] == ["id", "1", "2"]


@pytest.mark.parametrize("item", ["t", "s"])
def test_a_script_is_shown_without_being_run(folder: Path, capsys: pytest.CaptureFixture[str], item: str) -> None:
    (folder / "pipeline.sql").write_text(_SCRIPT)
    assert run(["preview", "-f", "pipeline.sql", item]) == 0
    assert [line[0] for line in printed(capsys)] == ["id", "1", "2"]
    assert [path.name for path in folder.iterdir()] == ["pipeline.sql"]


def test_a_mistake_is_shown_where_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "pipeline.sql").write_text("CREATE TABLE t (id int);\nINSERT INTO t VALUES ('x');")
    assert run(["preview", "-f", "pipeline.sql", "t"]) == 1
    assert "pipeline.sql:2:23: error[SQ2212]" in capsys.readouterr().err
    Session().close()
    assert run(["preview", "nothing"]) == 1
    assert 'relation "nothing" does not exist' in capsys.readouterr().err
