"""Parquet files with damaged footers yield rows or errors; none of them ends the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("count", [300, pytest.param(30_000, marks=pytest.mark.soak)])
def test_no_footer_ends_the_process(count: int) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "files.footers", str(count), str(count)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"seed {done.stdout.split()[-1:]}: {done.stderr[-2000:]}"
