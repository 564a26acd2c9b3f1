"""`make test` on machines without programs that tests need: its messages, and what gets installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support import programs

_INSTALLS = """
for each; do
  if [ "$each" = tmux ]; then printf '#!/bin/sh\\n' >{0}/tmux; /bin/chmod +x {0}/tmux; fi
done
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the only folder of PATH, with all programs that tests need except tmux."""
    for name in programs.PACKAGES:
        if name != "tmux":
            _program(tmp_path, name, "")
    return tmp_path


def _program(path: Path, name: str, body: str) -> None:
    (path / name).write_text(f"#!/bin/sh\n{body}\n")
    (path / name).chmod(0o755)


def _said(path: Path) -> str:
    command = [sys.executable, programs.__file__]
    return subprocess.run(command, env={"PATH": str(path)}, capture_output=True, text=True, check=True).stdout


def test_nothing_is_said_where_all_is_there(path: Path) -> None:
    _program(path, "tmux", "")
    assert _said(path) == ""


@pytest.mark.parametrize(
    ("manager", "expected"),
    [
        ("dnf", "install them with: dnf install tmux\n"),
        ("apk", "install them with: apk add tmux\n"),
        ("none", "install them with: the packages of your system that are called tmux in Debian\n"),
    ],
)
def test_another_system_is_told_the_command(path: Path, manager: str, expected: str) -> None:
    _program(path, manager, "exit 1")
    said = _said(path)
    assert expected in said
    assert said.endswith("tests that need tmux are left out, and listed at the end\n")


@pytest.fixture
def rights(path: Path) -> None:
    """Add a `sudo` that grants everything, so that any user can install packages."""
    _program(path, "sudo", 'shift; "$@"')
    _program(path, "true", "")


@pytest.mark.usefixtures("rights")
def test_debian_installs_what_is_missing(path: Path) -> None:
    _program(path, "apt-get", _INSTALLS.format(path))
    assert _said(path).splitlines() == [
        "tests need tmux, which this machine does not have",
        "installing tmux with apt-get",
    ]


@pytest.mark.usefixtures("rights")
def test_an_archive_that_cannot_be_reached_is_no_failure(path: Path) -> None:
    _program(path, "apt-get", "echo 'E: Unable to locate package tmux'; exit 100")
    assert _said(path).splitlines()[2:] == [
        "apt-get cannot install all of them:",
        "  E: Unable to locate package tmux",
        "tests that need tmux are left out, and listed at the end",
    ]


def test_a_test_without_its_program_says_what_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "_ADMINISTRATION", str(tmp_path))
    with pytest.raises(
        pytest.skip.Exception, match="mariadbd is not installed: Debian's package mariadb-server has it"
    ):
        programs.need("mariadbd")
