"""Run random statements, valid and damaged, in whole sessions, which may only return results and coded errors.

    python -m bench.fuzz [--statements 1000000] [--seed 1] [--seconds 2] [--memory 512]

Prints the progress, and each script that fails, so that it can be run again. A script fails if it raises an exception
without a code or an error whose place is outside the text. It also fails if the session stops responding, or if a
statement exceeds its CPU seconds or megabytes. Exits with 1 if a script failed. The same seed generates the same
statements.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from bench.common import ROOT

_PIECE = 10_000
_PATIENCE = 5
"""The multiple of a limit at which a statement, or the whole run, is stopped."""


class _TooLongError(BaseException):
    """A statement ran for too long."""


class _Bounds:
    """The CPU seconds and megabytes that a statement may take; `slowest` is the longest time seen."""

    def __init__(self, seconds: float, megabytes: int) -> None:
        self.seconds, self.megabytes = seconds, megabytes
        self.slowest = 0.0
        signal.signal(signal.SIGVTALRM, self._stop)

    def __call__(self, text: str, run: Callable[[], None]) -> str | None:
        began, before = time.process_time(), _peak()
        signal.setitimer(signal.ITIMER_VIRTUAL, self.seconds * _PATIENCE)
        try:
            run()
        except _TooLongError:
            return f"stopped after {self.seconds * _PATIENCE} CPU seconds"
        except MemoryError:
            return "out of memory"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        took, grown = time.process_time() - began, _peak() - before
        self.slowest = max(self.slowest, took)
        if took > self.seconds:
            return f"took {took:.1f} CPU seconds"
        return f"took {grown} MB" if grown > self.megabytes else None

    def _stop(self, number: int, frame: FrameType | None) -> None:
        raise _TooLongError


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--statements", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2, help="CPU seconds that a statement may take")
    parser.add_argument("--memory", type=int, default=512, help="megabytes that a statement may take")
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    bounds, failed = _Bounds(given.seconds, given.memory), 0
    most = _peak() + given.memory * _PATIENCE
    outcomes: dict[str, int] = {}
    for piece in range(0, given.statements, _PIECE):
        count = min(_PIECE, given.statements - piece)
        failed += _piece(given.seed + piece, count, bounds, outcomes)
        print(
            f"{piece + count:,} statements, seed {given.seed + piece}, {len(outcomes)} outcomes, "
            f"{outcomes.get('right', 0):,} right, slowest {bounds.slowest:.2f} s, {_peak()} MB, {failed} failed",
            flush=True,
        )
        if _peak() > most:
            sys.exit(f"{_peak()} MB: memory grows from statement to statement")
    sys.exit(failed > 0)


def _piece(seed: int, count: int, bounds: _Bounds, outcomes: dict[str, int]) -> int:
    from language.session_fuzz import Fuzz

    failed, home = 0, Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for failure in Fuzz(seed, Path(folder), bounds, outcomes).failures(count):
            failed += 1
            print(f"=== seed {seed}\n{failure}\n===", flush=True)
        os.chdir(home)
    gc.collect()
    return failed


def _peak() -> int:
    """Return the peak memory of the process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()
