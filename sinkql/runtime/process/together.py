"""Sources of a kind that one process captures → a thread each, which share what their connector gives."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass

from sinkql.capture.runner import CaptureRunner
from sinkql.connector_api.cdc import OpenStream
from sinkql.errors import SinkqlError
from sinkql.runtime.process.desk import CaptureAssignment, CaptureDirectory

_LOOK_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class _Running:
    capturing: CaptureAssignment
    stopping: threading.Event
    thread: threading.Thread

    def end(self) -> None:
        self.stopping.set()
        self.thread.join()


def capture_all(stopping: threading.Event, desk: CaptureDirectory, kind: str) -> None:
    """Capture all sources of a kind that are to be, as they come and go, until it is to stop."""
    running: dict[str, _Running] = {}
    with desk.together(kind) as open_stream:
        try:
            while not stopping.is_set():
                with suppress(SinkqlError):  # a catalog that cannot be read now is asked again
                    _look(running, desk, kind, open_stream)
                stopping.wait(_LOOK_SECONDS)
        finally:
            for each in running.values():
                each.stopping.set()
            for each in running.values():
                each.thread.join()


def _look(running: dict[str, _Running], desk: CaptureDirectory, kind: str, open_stream: OpenStream) -> None:
    wanted = {each.source.id: each for each in desk.captures() if each.source.kind == kind}
    for id_, each in list(running.items()):
        if wanted.get(id_) != each.capturing:
            each.end()
            del running[id_]
    for id_, capturing in wanted.items():
        if id_ not in running or not running[id_].thread.is_alive():
            running[id_] = _begun(desk, capturing, open_stream)


def _begun(desk: CaptureDirectory, capturing: CaptureAssignment, open_stream: OpenStream) -> _Running:
    source, stopping = capturing.source, threading.Event()
    folder = desk.folder(capturing)
    opening = desk.opening(source, folder.store, open_stream)
    capture = CaptureRunner(folder, opening, capturing.keeping, desk.host(source), stopping=stopping)
    thread = threading.Thread(target=capture.run, name=f"capture {source.id}")
    thread.start()
    return _Running(capturing, stopping, thread)
