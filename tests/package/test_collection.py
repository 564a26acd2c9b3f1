"""Two processes collect the same tests: parallel workers with different tests would run none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).parents[2]


@pytest.mark.soak
def test_names_of_tests_depend_on_neither_time_nor_hashes(request: pytest.FixtureRequest) -> None:
    names = [item.nodeid for item in request.session.items]
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "", "-p", "no:cacheprovider"],
        cwd=_REPOSITORY,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr or found.stdout[-2000:]
    assert sorted({*names} - {*found.stdout.splitlines()}) == []
