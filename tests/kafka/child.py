"""A catalog with sinks of topics → one of them run until all that is there is in its table, in a process of its own.

Run as a program, it takes orders as JSON lines and forks for each, so that what is slow, the imports, is done once. The
process dies where its order says.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import msgspec

import kafka.pipeline
import sinkql.connectors.kafka.reader  # before the fork
from sinkql.connector_api.registry import discover
from sinkql.errors import SinkqlError
from sinkql.runtime.local.engine import LocalEngine
from sinkql.session import Session
from sinkql.storage import failpoint
from support.fault import armed
from support.running import drain, loop_of

__all__ = ["kafka", "serve", "sinkql"]
RETRY, FAULT, WRONG = 75, 70, 71
"""How a process ends that may be run again, that met its fault, and that met something else."""
PROBLEM = Path("problem")
"""What it met, in the working folder."""


def _run(order: dict[str, Any]) -> int:
    os.chdir(order["folder"])
    os.environ.update(armed(order["faults"] or "none=fail"))
    try:
        with Session() as session:
            job = next(each for each in session.jobs() if each.sink == order["sink"])
            job = msgspec.structs.replace(job, max_rows_per_commit=order["rows"])
            loop = loop_of(job, session.context(job), discover(), engine=LocalEngine(2))
            loop.start(epoch=order["epoch"], once=True)
            drain(loop)
    except BaseException as error:
        PROBLEM.write_text(traceback.format_exc())
        if isinstance(error, failpoint.FaultError):
            return FAULT
        return RETRY if isinstance(error, SinkqlError) and error.retryable else WRONG
    return 0


def serve() -> None:
    """Fork for each order, and answer with how its process ended."""
    assert threading.active_count() == 1, "threads are in no fork"
    gc.freeze()
    for line in sys.stdin:
        process = os.fork()
        if not process:
            sys.stdin.close()
            os._exit(_run(json.loads(line)))
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
