"""Captures and sinks of a fake server in separate processes (`support.forking`)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from capture.leased import LeasedHost
from capture.pipeline import QUICK, FakeHost, Running, Sinks, once
from capture.server import FakeStream, Server
from sinkql.capture.runner import CaptureRunner
from sinkql.connector_api.cdc import LogRetention
from sinkql.errors import SinkqlError
from support.fault import armed
from support.forking import serve

_KEEPING = replace(QUICK, kept_seconds=1000.0)
"""For tests that read all entries at the end."""
PASSED = {"SQ3431", "SQ3435", "SQ3437", "SQ4201", "SQ5101", "SQ5206"}
"""Errors that a sink may get while its capture dies; its next start succeeds."""


def _sinks(order: dict[str, Any]) -> Sinks:
    keeping = msgspec.convert(order["keeping"], LogRetention)
    return Sinks(Path(order["folder"]), tuple(order["names"]), keeping, storage=order["storage"])


def _run(order: dict[str, Any]) -> int:
    os.environ.update(armed(order["failpoints"] or "none=fail"))
    sinks = _sinks(order)
    if order["role"] == "capture":
        lease = order.get("lease")
        host = FakeHost(sinks, epoch=order["epoch"]) if lease is None else LeasedHost(sinks, seconds=lease)
        pace = QUICK if lease is None else _KEEPING
        CaptureRunner(
            sinks.directory, lambda: FakeStream(sinks.server, chunk_seconds=0.002), sinks.keeping, host, pace
        ).run()
        return 0
    try:
        once(sinks, order["name"], patience=60.0)
    except SinkqlError as error:
        if error.code in PASSED:
            return 3
        raise
    return 0


def prepare() -> None:
    """Import the modules and create the objects that each process needs."""
    with TemporaryDirectory() as folder:
        Server.make(Path(folder) / "server.db").commit([("t", 1, "one")])
        sinks = Sinks(Path(folder))
        with Running(sinks):
            once(sinks)


if __name__ == "__main__":
    prepare()
    serve(_run)
