"""Commands that only read a catalog do not create one."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkql.cli.main import run_command


@pytest.mark.parametrize(
    "command", ["status", "status s", "start s", "stop s", "preview s", "secret list", "secret check"]
)
@pytest.mark.parametrize("named", [True, False])
def test_no_catalog_is_made(
    command: str, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    where = ["--catalog", str(tmp_path / "missing" / "x.db")] if named else []
    assert run_command([*command.split(), *where]) == 4
    assert "SQ4115" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


_ITEMS = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'memory') WITH (VALIDATE = false);
CREATE TABLE t (a integer);
"""


@pytest.mark.parametrize("named", [True, False])
def test_plan_compares_with_an_empty_one_and_apply_makes_what_it_saved(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("items.sql").write_text(_ITEMS)
    path = Path("missing", "x.db") if named else Path(".sinkql", "catalog.db")
    where = ["--catalog", str(path)] if named else []
    assert run_command(["plan", "items.sql", "--out", "saved.json", *where]) == 0
    assert "2 to create" in capsys.readouterr().out
    assert {each.name for each in tmp_path.iterdir()} == {"items.sql", "saved.json"}
    assert run_command(["apply", "saved.json", *where]) == 0
    assert path.exists()
    capsys.readouterr()
    assert run_command(["plan", "items.sql", *where]) == 0
    assert capsys.readouterr().out == "nothing to change\n"
    assert run_command(["apply", "saved.json", *where]) == 5  # the catalog has changed since the plan
    assert "SQ5209" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("catalog", "code"),
    [
        ("missing.db", "SQ4115"),
        ("file/catalog.db", "SQ4105"),
        ("file", "SQ4101"),
        ("mysql://host/catalog", "SQ4113"),
    ],
)
@pytest.mark.parametrize("by", ["--catalog", "SINKQL_CATALOG"])
def test_an_error_of_a_catalog_says_what_names_another(
    catalog: str,
    code: str,
    by: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("of another program")
    command = ["status"] if code == "SQ4115" else ["shell", "-c", "SHOW SINKS;"]
    if by == "--catalog":
        command += [by, catalog]
    else:
        monkeypatch.setenv(by, catalog)
    assert run_command(command) == 4
    told = capsys.readouterr().err
    assert (f"error[{code}]" in told, "--catalog or SINKQL_CATALOG" in told) == (True, True), told
