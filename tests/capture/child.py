"""Captures and sinks as processes of their own: takes orders as JSON lines, and forks for each.

What is slow, the imports, is done once; the forked process dies as one of its own.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from capture.pipeline import QUICK, FakeHost, Running, Sinks, once
from capture.server import FakeStream, Server
from sinkql.capture.process import Capture
from sinkql.errors import SinkqlError
from sinkql.extension.capture import Keeping
from support.fault import armed

PASSED = {"SQ3431", "SQ3435", "SQ3437", "SQ4201", "SQ5101", "SQ5206"}
"""What a sink meets while its capture dies, and gets over at its next start."""


def _sinks(order: dict[str, Any]) -> Sinks:
    return Sinks(Path(order["folder"]), tuple(order["names"]), msgspec.convert(order["keeping"], Keeping))


def _run(order: dict[str, Any]) -> int:
    os.environ.update(armed(order["faults"] or "none=fail"))
    sinks = _sinks(order)
    if order["role"] == "capture":
        host = FakeHost(sinks, epoch=order["epoch"])
        Capture(sinks.place, lambda: FakeStream(sinks.server, chunk_seconds=0.002), sinks.keeping, host, QUICK).run()
        return 0
    try:
        once(sinks, order["name"], patience=60.0)
    except SinkqlError as error:
        if error.code in PASSED:
            return 3
        raise
    return 0


def _child(order: dict[str, Any]) -> int:
    sys.stdin.close()
    try:
        return _run(order)
    except BaseException:
        Path(order["log"]).write_text(traceback.format_exc())
        return 70


def serve() -> None:
    """Fork for each order and tell the process id; tell how one ended that is waited for."""
    with TemporaryDirectory() as folder:  # what is imported, and made once, is there in each
        Server.make(Path(folder) / "server.db").commit([("t", 1, "one")])
        sinks = Sinks(Path(folder))
        with Running(sinks):
            once(sinks)
    assert threading.active_count() == 1, "threads are in no fork"
    gc.freeze()
    for line in sys.stdin:
        order = json.loads(line)
        match order["do"]:
            case "start":
                pid = os.fork()
                if not pid:
                    os._exit(_child(order))
                print(pid, flush=True)
            case "poll":
                pid, status = os.waitpid(order["pid"], os.WNOHANG)
                print(json.dumps(os.waitstatus_to_exitcode(status) if pid else None), flush=True)
            case "kill":
                os.kill(order["pid"], signal.SIGKILL)
                _, status = os.waitpid(order["pid"], 0)
                print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)


if __name__ == "__main__":
    serve()
