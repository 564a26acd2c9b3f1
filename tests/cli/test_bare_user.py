"""Users without a home or a name, and read-only machines: commands work, or the error says what to set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sinkql.errors import SinkqlError, temporary_folder_error
from support.nameless import NAMELESS, can_be_nameless

_SCRIPT = "CREATE SOURCE n FROM LOAD GENERATOR COUNTER (UP TO 3);\nSELECT * FROM n;\n"
_NO_TEMPORARY = "import tempfile\ntempfile._candidate_tempdir_list = lambda: ['/proc']\n"
"""Code that leaves Python without a writable temporary folder, as on a read-only machine."""


def _ran(folder: Path, *before: str, home: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a script in a folder, with no home but `home`."""
    (folder / "a.sql").write_text(_SCRIPT)
    environment = {
        name: value for name, value in os.environ.items() if name not in ("HOME", "TMPDIR", "XDG_CACHE_HOME")
    }
    given = {"HOME": home} if home is not None else {}
    command = [*before, sys.executable, "-m", "sinkql", "--catalog", "kept/catalog.db", "exec", "a.sql"]
    return subprocess.run(
        command, cwd=folder, env={**environment, **given}, capture_output=True, text=True, check=False
    )


@pytest.mark.share(2)
@pytest.mark.parametrize("home", [None, "/nonexistent/home"])
def test_a_user_without_a_name_or_a_home_runs_a_script(tmp_path: Path, home: str | None) -> None:
    done = _ran(tmp_path, *(NAMELESS if can_be_nameless() else ()), home=home)  # not all machines allow this
    assert (done.returncode, done.stderr) == (0, "")
    assert "(3 rows)" in done.stdout
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.sql", "kept"]  # in particular, no folder named ~


def test_a_read_only_root_is_told_with_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_NO_TEMPORARY)
    done = _ran(tmp_path, "env", f"PYTHONPATH={tmp_path}")
    assert done.returncode == 4
    assert "error[SQ4070]" in done.stderr
    assert "Set TMPDIR to a folder that can be written." in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_can_be_written_is_no_error() -> None:
    found: SinkqlError | None = temporary_folder_error()
    assert found is None
