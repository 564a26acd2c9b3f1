"""The built wheel, and what importing the package costs."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

_ROOT = Path(__file__).parents[2]
_SCRIPT = "CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(_ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment in which Python finds the wheel's content, and not the checkout's."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return os.environ | {"PYTHONPATH": str(folder)}


def _sinkql(installed: dict[str, str], folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "sinkql", *arguments]
    done = subprocess.run(command, env=installed, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_wheel_compiles_sql_by_itself(installed: dict[str, str], tmp_path: Path) -> None:
    program = f"import sinkql; print(sinkql.__file__); print(sinkql.compile({_SCRIPT!r}).items[0].name)"
    done = subprocess.run(
        [sys.executable, "-c", program], env=installed, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    package = Path(installed["PYTHONPATH"]) / "sinkql" / "__init__.py"
    assert done.stdout.splitlines() == [str(package), "materialize.public.lake"]


def test_the_shell_of_the_wheel_has_its_help(installed: dict[str, str], tmp_path: Path) -> None:
    assert _sinkql(installed, tmp_path, "shell", "-c", "\\h CREATE SINK").startswith("CREATE SINK\n")


@pytest.mark.slow
def test_the_demo_of_the_wheel_shows_committed_rows(installed: dict[str, str], tmp_path: Path) -> None:
    shown = _sinkql(installed, tmp_path, "demo", "--folder", "demo")
    assert "sink events committed 120 rows" in shown
    assert (tmp_path / "demo" / "lake" / "analytics" / "events").is_dir()


def test_the_wheel_has_the_example(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "sinkql/quickstart/pipeline.sql" in names
    assert "sinkql/parser/mistake/habits.toml" in names
    assert "sinkql/py.typed" in names
