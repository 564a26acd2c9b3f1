"""Completion of the command line in bash, zsh and fish."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sinkql.session import Session
from support.command import run

_ITEMS = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = '{folder}/lake');
CREATE SOURCE counter FROM LOAD GENERATOR COUNTER;
CREATE SECRET my_key AS 'x';
CREATE SECRET "my.key" AS 'x';
CREATE SINK first FROM counter INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'a')
  MODE APPEND WITH (COMMIT INTERVAL = '1s');
CREATE SINK second FROM counter INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'b')
  MODE APPEND WITH (COMMIT INTERVAL = '1s');
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    with Session(folder) as session:
        session.execute(_ITEMS.format(folder=folder))
    return folder


def _answers(folder: Path, line: str, python: tuple[str, ...] = ()) -> list[str]:
    words = line.split(" ")
    environment = {"_SINKQL_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, *python, "-m", "sinkql"],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    if python:
        return done.stderr.splitlines()
    return [each.partition(",")[2] for each in done.stdout.splitlines() if each]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sinkql stat", ["status"]),
        ("sinkql stop ", ["first", "second"]),
        ("sinkql stop first s", ["second"]),
        ("sinkql status f", ["first"]),
        ("sinkql preview c", ["counter"]),
        ("sinkql secret set ", ['"my.key"', "my_key"]),
        ("sinkql shell --format js", ["json", "jsonl"]),
        ("sinkql --catalog nowhere.db stop ", []),
    ],
)
def test_commands_options_and_names_of_items_are_completed(folder: Path, line: str, expected: list[str]) -> None:
    assert _answers(folder, line) == expected


def test_a_catalog_that_is_named_is_the_one_that_is_asked(folder: Path, tmp_path: Path) -> None:
    assert _answers(tmp_path, f"sinkql --catalog {folder} stop ") == ["first", "second"]
    assert _answers(tmp_path, f"sinkql --catalog sqlite:///{folder}/.sinkql/catalog.db stop f") == ["first"]


def test_what_takes_long_to_import_is_not_imported_for_it(folder: Path) -> None:
    modules = {line.rpartition("|")[2].strip() for line in _answers(folder, "sinkql stop ", ("-X", "importtime"))}
    assert "sqlite3" in modules
    assert modules.isdisjoint({"sqlalchemy", "sqlglot", "lark", "rich", "prompt_toolkit", "pyspark", "pyarrow"})


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_asks_in_its_own_way(tmp_path: Path, shell: str) -> None:
    done = run("completion", shell, folder=tmp_path)
    assert done.returncode == 0
    assert f"_SINKQL_COMPLETE={shell}_complete" in done.stdout


def test_bash_completes_with_its_script(folder: Path) -> None:
    launcher = folder / "sinkql"
    launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -m sinkql "$@"\n')
    launcher.chmod(0o755)
    script = f"""
    PATH={folder}:$PATH
    eval "$(sinkql completion bash)"
    COMP_WORDS=(sinkql stop se); COMP_CWORD=2
    _sinkql_completion sinkql
    echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "second", done.stderr
