"""The connector in the guide works once it is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-a-connector.md"


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which the connector of the page is installed."""
    blocks = dict(re.findall(r"^```(toml|python)\n(.*?)^```", _PAGE.read_text(), re.MULTILINE | re.DOTALL))
    (tmp_path / "sinkql_journal.py").write_text(blocks["python"])
    entry_points = re.search(r"\[project\.entry-points\.\"(.*)\"\]\n(\w+) = \"(.*)\"", blocks["toml"])
    assert entry_points is not None
    group, name, target = entry_points.groups()
    info = tmp_path / "sinkql_journal-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sinkql-journal\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {target}\n")
    (tmp_path / "app.log").write_text("first\nsecond\n")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}


def _sinkql(*arguments: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sinkql", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_connector_of_the_page_reads_the_lines_of_a_file(tmp_path: Path, installed: dict[str, str]) -> None:
    script = tmp_path / "pipeline.sql"
    script.write_text("CREATE SOURCE entries FROM JOURNAL (PATH = 'app.log');\n")
    shown = _sinkql(
        "--output", "json", "preview", "entries", "--file", str(script), folder=tmp_path, environment=installed
    )
    assert shown.returncode == 0, shown.stderr
    assert "first" in shown.stdout
    assert "second" in shown.stdout


def test_a_wrong_option_of_the_page_has_the_hint_that_it_promises(tmp_path: Path, installed: dict[str, str]) -> None:
    text = "CREATE SOURCE entries FROM JOURNAL (PAHT = 'app.log');"
    refused = _sinkql("shell", "-c", text, folder=tmp_path, environment=installed)
    assert "error[SQ2101]" in refused.stderr
    assert "Did you mean PATH?" in refused.stderr
