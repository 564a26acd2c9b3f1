"""The source's process asks the driver how far a source behind a connection may go: only the driver has secrets.

The two meet at a socket in the query folder, which is the user's alone; a question is a call of `Reader.latest`.
"""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.extension.registry import Registry, discover
from sinkql.extension.stream import Context, Limit, Offsets, Reader
from sinkql.runtime.batch import failure

_SOCKET = "ask"
_LONGEST = 100  # of a socket's path, some bytes fewer than any system has room for


def asked(read: physical.Read) -> bool:
    """Tell whether the driver answers for a source."""
    return read.connection is not None


@dataclass(slots=True)
class Answers:
    """Answer the source's process of a query folder, from `start` to `close`, with readers of its own."""

    folder: Path
    job: physical.Job
    context: Context
    _socket: socket.socket | None = field(default=None, init=False)
    _readers: Mapping[str, Reader] = field(default_factory=dict, init=False)

    def start(self, registry: Registry | None = None) -> None:
        """Listen, if the job has a source to answer for."""
        reads = [read for read in self.job.reads() if asked(read)]
        if not reads:
            return
        found = registry or discover()
        self._readers = {read.source: found.reader(read, self.context) for read in reads}
        self._socket = socket.socket(socket.AF_UNIX)
        with _address(self.folder) as address:
            self._socket.bind(address)
        self._socket.listen()
        Thread(target=self._serve, args=(self._socket,), name="answers", daemon=True).start()

    def close(self) -> None:
        """Answer no more."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # or the thread would wait on
            self._socket.close()
            self._socket = None

    def _serve(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return  # it was closed
            # whoever asks may end at any byte of its question, and another one asks in its place
            with suppress(Exception), connection, connection.makefile("rwb") as stream:
                pickle.dump(self._answer(*pickle.load(stream)), stream)

    def _answer(self, source: str, start: Offsets, limit: Limit, until: Offsets | None) -> Offsets | SinkqlError:
        try:
            return self._readers[source].latest(start, limit, until)
        except Exception as error:  # whatever it is, who asked has to know
            return error if isinstance(error, SinkqlError) else failure.coded(error)


@dataclass(frozen=True, slots=True)
class Asking:
    """Look for new input of a source by asking the driver."""

    folder: Path
    source: str

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        """Return what the driver's reader returns; raises what it raises."""
        with socket.socket(socket.AF_UNIX) as connection:
            with _address(self.folder) as address:
                connection.connect(address)
            with connection.makefile("rwb") as stream:
                pickle.dump((self.source, start, limit, until), stream)
                stream.flush()
                answer: Any = pickle.load(stream)
        if isinstance(answer, SinkqlError):
            raise answer
        found: Offsets = answer
        return found


@contextmanager
def _address(folder: Path) -> Iterator[str]:
    """Give the socket's path, through the folder's handle where it is longer than paths of sockets may be."""
    path = str(folder / _SOCKET)
    if len(os.fsencode(path)) <= _LONGEST:
        yield path
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{handle}/{_SOCKET}"
    finally:
        os.close(handle)
