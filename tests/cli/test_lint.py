"""`sinkql lint`, and variables in scripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sinkql.cli.command import run
from sinkql.lint import lint

_PIPELINE = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
CREATE SOURCE n FROM LOAD GENERATOR COUNTER;
CREATE SINK k FROM n INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'a', TABLE = 't')
  MODE APPEND WITH (COMMIT INTERVAL = '10s');
"""


def _codes(text: str) -> list[tuple[str, str]]:
    return [(found.level, found.error.code) for found in lint(text)]


def test_a_good_script_has_no_findings() -> None:
    assert _codes(_PIPELINE) == []


def test_all_mistakes_are_told_and_not_what_follows_from_them() -> None:
    text = """
    CREATE SOURCE n FROM LOAD GENERATOR COUNTR;
    CREATE VIEW v AS SELECT counter FROM n;
    CREATE VIEW w AS SELECT counter FROM nowhere;
    CREAT VIEW x AS SELECT 1;
    CREATE VIEW y AS SELECT countr FROM v;
    DROP SINK nothing;
    """
    assert _codes(text) == [("error", "SQ1001"), ("error", "SQ2202"), ("error", "SQ1003"), ("error", "SQ2001")]


@pytest.mark.parametrize(
    ("text", "code", "under"),
    [
        ("CREATE SECRET s AS 'hunter22';", "SQ2701", "'hunter22'"),
        ("CREATE SOURCE n FROM LOAD GENERATOR COUNTER; CREATE MATERIALIZED VIEW v AS SELECT * FROM n;", "SQ2702", "*"),
        (_PIPELINE.replace("'10s'", "'1s'"), "SQ2703", "COMMIT INTERVAL = '1s'"),
        (_PIPELINE + "CREATE VIEW v AS SELECT counter FROM n;", "SQ2704", "v"),
    ],
)
def test_what_may_be_wrong_is_a_warning(text: str, code: str, under: str) -> None:
    (found,) = lint(text)
    assert found.error.span is not None
    assert (found.level, found.error.code) == ("warning", code)
    assert text[found.error.span.start : found.error.span.end] == under


def test_a_secret_is_not_shown() -> None:
    (found,) = lint("CREATE SECRET s AS 'hunter22';")
    assert "hunter22" not in str(found.error.text)


def _run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = run(arguments)
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_warnings_fail_only_when_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "s.sql"
    script.write_text("CREATE SECRET s AS 'hunter22';")
    assert _run(["lint", str(script)], capsys)[0] == 0
    code, out, _ = _run(["lint", "--strict", str(script)], capsys)
    assert (code, "warning[SQ2701]" in out, out.splitlines()[-1]) == (1, True, "errors: 0, warnings: 1")


def test_variables_are_put_in_and_errors_show_the_script_as_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "s.sql"
    script.write_text("CREATE VIEW :\"name\" AS SELECT :'text' AS t FROM :relation;")
    variables = ["-v", "name=a view", "-v", "text=it's", "-v", "relation=nowhere"]
    code, out, _ = _run(["--output", "json", "lint", *variables, str(script)], capsys)
    found = json.loads(out)
    assert (code, found["code"], found["column"]) == (1, "SQ2202", script.read_text().index(":relation") + 1)
    assert script.read_text()[found["start"] : found["end"]] == ":relation"


def test_a_variable_without_a_value_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "s.sql"
    script.write_text("CREATE SOURCE s (id bigint) FROM FILES (PATH = :'folder') FORMAT JSON;")
    for command in (["lint"], ["exec"], ["compile"], ["plan"]):
        code, _, error = _run(["--catalog", str(tmp_path / "c" / "c.db"), *command, str(script)], capsys)
        assert (code, "SQ4033" in error, "add -v folder=value" in error) == (4, True, True)
    code, _, _ = _run(["compile", "-v", "folder=in", str(script)], capsys)
    assert code == 0


def test_what_is_no_variable_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = _run(["lint", "-v", "folder", str(tmp_path)], capsys)
    assert (code, "folder is not NAME=VALUE" in error) == (64, True)


def test_a_folder_stands_for_its_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "a.sql").write_text("CREAT VIEW v AS SELECT 1;")
    (tmp_path / "below" / "b.sql").write_text("create source n from load generator counter;")
    assert run(["lint", str(tmp_path)]) == 1
    assert "errors: 1" in capsys.readouterr().out
    assert run(["fmt", "--check", str(tmp_path / "below")]) == 1
    assert capsys.readouterr().out == f"{tmp_path / 'below' / 'b.sql'}\n"


@pytest.mark.parametrize("option", ["--json", "--output"])
def test_an_option_of_sinkql_itself_is_told_its_place(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", option]) == 64
    assert "before the command: sinkql --output json status" in capsys.readouterr().err
