"""Freed memory is reused: repeated allocations fault their pages in only once."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import ctypes, resource
from sinkql.allocator import keep_freed
if {kept}:
    keep_freed()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    blocks = [b"x" * (1 << 20) for _ in range(10)]
    del blocks
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_blocks_that_come_and_go_are_taken_from_the_system_once() -> None:
    once = (10 << 20) // 4096
    assert _failpoints(kept=True) < 2 * once
    assert _failpoints(kept=False) > 5 * once


def _failpoints(*, kept: bool) -> int:
    command = [sys.executable, "-c", _PROGRAM.format(kept=kept)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
