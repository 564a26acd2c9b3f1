"""Run captures and sinks of a real server in child processes (`support.forking`), some with mutants applied."""

from __future__ import annotations

import base64
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from capture.child import PASSED, prepare
from capture.pipeline import QUICK, FakeHost, Sinks, once
from sinkql.capture.runner import CaptureRunner
from sinkql.capture.snapshot import TableSnapshotReader
from sinkql.connectors.postgres.client import failure
from sinkql.connectors.postgres.stream import PostgresStream
from sinkql.errors import SinkqlError
from support.fault import armed
from support.forking import serve

from .mutant import MUTANTS
from .reading import login_at

_PACE = replace(QUICK, chunk_bytes=20_000)


def _run(order: dict[str, Any]) -> int:
    patch = pytest.MonkeyPatch()  # never undone: this process does nothing else
    os.environ.update(armed(order["failpoints"] or "none=fail"))
    sinks, source = pickle.loads(base64.b64decode(order["sinks"]))
    if order["role"] == "sink":
        return _sink(sinks, order["name"])
    patch.setattr("sinkql.connectors.postgres.chunk._FIRST_ROWS", 7)
    _count(patch, Path(order["counts"]))
    for name in order["mutants"]:
        MUTANTS[name](patch)
    server = login_at(order["port"], order["database"])
    host = FakeHost(sinks, epoch=order["epoch"])
    stream = partial(PostgresStream, server, source, failure)
    CaptureRunner(sinks.directory, stream, sinks.keeping, host, _PACE).run()
    return 0


def _sink(sinks: Sinks, name: str) -> int:
    try:
        once(sinks, name, patience=60.0)
    except SinkqlError as error:
        if error.code in PASSED or error.retryable:  # for example, the server restarts
            return 3
        raise
    return 0


def _count(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Count chunks, and reads of unchanged values from the server: one byte in a file for each."""

    def counted(name: str, inner: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            with (folder / name).open("ab") as file:
                file.write(b".")
            return inner(*arguments, **more)

        return call

    folder.mkdir(exist_ok=True)
    patch.setattr(TableSnapshotReader, "_add", counted("chunks", TableSnapshotReader._add))
    patch.setattr(PostgresStream, "complete", counted("read through", PostgresStream.complete))


if __name__ == "__main__":
    prepare()
    serve(_run)
