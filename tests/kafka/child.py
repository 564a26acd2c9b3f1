"""Run a sink of a catalog to the end of its topics, in a separate process.

Run as a program, this module forks for each order (`support.forking`). The forked process dies at the failpoint of its
order.
"""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Any

import msgspec

from sinkql.connector_api.registry import discover
from sinkql.errors import SinkqlError
from sinkql.runtime.local.engine import LocalEngine
from sinkql.session import Session
from sinkql.storage import failpoint
from support.fault import armed
from support.fork_server import import_all
from support.forking import serve
from support.running import drain, loop_of

RETRY, FAULT, WRONG = 75, 70, 71
"""Exit codes: the run can be retried, a failpoint fired, another error occurred."""
PROBLEM = Path("problem")
"""The traceback of the last error, in the working folder."""


def _run(order: dict[str, Any]) -> int:
    os.chdir(order["folder"])
    os.environ.update(armed(order["failpoints"] or "none=fail"))
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


if __name__ == "__main__":
    discover()
    import_all("sinkql.connectors.confluent", "sinkql.connectors.iceberg", "sinkql.connectors.kafka", "sinkql.parser")
    serve(_run)
