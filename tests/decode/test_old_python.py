"""The decoders give the same results on this machine's Python, often an old release, as on the tests' Python."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from decode.other_python import ROOT, answers

_SYSTEMS = Path("/usr/bin/python3")
_VERSION = "import sys; print(*sys.version_info[:3])"


def test_decoders_give_the_same_on_the_system_s_python() -> None:
    """It runs with the tests' packages, which work with any release of one minor version."""
    if not _SYSTEMS.exists():
        pytest.skip("/usr/bin/python3 does not exist")
    version = subprocess.check_output([_SYSTEMS, "-c", _VERSION], text=True).split()
    if version[:2] != [str(each) for each in sys.version_info[:2]] or version[2] == str(sys.version_info[2]):
        pytest.skip(f"/usr/bin/python3 is {'.'.join(version)}: not a different release of the tests' minor version")
    path = (ROOT, ROOT / "tests", sysconfig.get_path("purelib"))
    found = subprocess.run(
        [_SYSTEMS, "-S", Path(__file__).with_name("other_python.py")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
        capture_output=True,
        encoding="utf-8",
    )
    expected = [line.encode("unicode_escape").decode() for line in answers()]
    assert found.stdout.splitlines() == expected
    assert sum(": refused" not in line for line in expected) > 1500
