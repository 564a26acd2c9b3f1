"""A program that runs a sink of files with the real Spark: python placed_program.py FOLDER.

Batches above a few kilobytes are Spark's, and Spark rests when it was idle for a second.
"""

from __future__ import annotations

import sys
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from sinkql.connector_api.registry import discover
from sinkql.lowering.placement import Allowance
from sinkql.runtime.batch.events import Event, SinkCommitted
from sinkql.runtime.local import placement
from sinkql.runtime.process import supervisor
from sinkql.runtime.process.application import RunSpec
from sinkql.runtime.sink import life
from support.running import FixedWorkload, MemoryControl, contexts, csv_files, job

LARGE_BYTES = 16_000
_ALLOWANCE = Allowance(1e9, LARGE_BYTES)


def main(folder: Path) -> int:
    """Run the sink until a signal; print the names of events, and for a commit what it read and where."""
    telling = threading.Lock()

    def tell(event: Event) -> None:
        with telling:  # events come from several threads
            words = [event.read, event.in_spark] if isinstance(event, SinkCommitted) else []
            print(type(event).__name__, *words, flush=True)

    patch = pytest.MonkeyPatch()  # never undone: the process runs nothing else
    for name in ("COLD", "WARM"):
        patch.setattr(placement, name, _ALLOWANCE)
    patch.setattr(life, "_FIRST_WAIT", 0.1)
    each = replace(
        job(csv_files(folder), folder, key=("id",), interval_ms=100, master="local[1]"), spark_idle=timedelta(seconds=1)
    )
    spec = RunSpec(
        FixedWorkload([each]),
        lambda one: contexts(folder, one),
        discover(),
        MemoryControl(),
        tell,
        once=False,
        takeover=False,
    )
    return max(outcome.exit_code for outcome in supervisor.run_until_done(spec))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
