"""A catalog's sinks → the process that runs them, `sinkql up`: started, listened to, ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from sinkql.catalog.address import VARIABLE, Address, ServerUrl

COMMAND = (sys.executable, "-m", "sinkql")
_KEPT = 21
"""How many of the last lines of its errors are kept."""


@dataclass(slots=True)
class SinkProcess:
    """Run `sinkql up` for a catalog, for the sinks of these names or for all.

    `take` gets each event it prints, and `ended` its exit code and the last lines of its errors; another thread calls
    them, one at a time.
    """

    catalog: Address
    take: Callable[[dict[str, Any]], None]
    ended: Callable[[int, Sequence[str]], None]
    names: tuple[str, ...] = ()
    command: tuple[str, ...] = COMMAND
    ending: bool = False
    """Whether it was asked to end."""
    _process: subprocess.Popen[str] | None = None
    _listener: threading.Thread | None = None
    _errors: list[str] = field(default_factory=list)

    @property
    def pid(self) -> int | None:
        """Return the process's id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Start the process."""
        self.ending = False
        self._errors = []
        named, environment = ["--catalog", str(self.catalog)], None
        if isinstance(self.catalog, ServerUrl):  # arguments of processes can be seen by others, a password with them
            named, environment = [], {**os.environ, VARIABLE: self.catalog.text}
        self._process = subprocess.Popen(
            [*self.command, *named, "--output", "json", "up", *self.names],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Ctrl-C at the terminal is for whoever started it, not for the sinks
            start_new_session=True,
        )
        assert self._process.stderr is not None
        errors = threading.Thread(target=self._collect, args=(self._process.stderr,), daemon=True)
        errors.start()
        self._listener = threading.Thread(target=self._listen, args=(self._process, errors), daemon=True)
        self._listener.start()

    def stop(self) -> None:
        """Ask the process to end after the running batches; `wait` waits for it."""
        if self._process is not None and self.pid is not None:
            self.ending = True
            self._process.send_signal(signal.SIGINT)

    def wait(self) -> None:
        """Wait until the process has ended."""
        if self._process is not None:
            self._process.wait()

    def listened(self) -> None:
        """Wait until all that the ended process said is taken in."""
        if self._listener is not None:
            self._listener.join()

    def kill(self) -> None:
        """End the process and all it started at once; its sinks go on from their last commit when they start."""
        if self.pid is not None:
            os.killpg(self.pid, signal.SIGKILL)
            self.wait()

    def _collect(self, stream: IO[str]) -> None:
        for line in stream:
            self._errors = [*self._errors[1 - _KEPT :], line.rstrip()]

    def _listen(self, process: subprocess.Popen[str], errors: threading.Thread) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            event = json_object(line)
            if event is not None:
                self._give(event)
        code = process.wait()
        errors.join()
        self.ended(code, self._errors)

    def _give(self, event: dict[str, Any]) -> None:
        try:
            self.take(event)
        except Exception:  # who cannot be told keeps nothing from running: a pipe that nobody reads would
            with suppress(OSError):
                traceback.print_exc()


def json_object(line: str) -> dict[str, Any] | None:
    """Return what a line says in JSON, None if it does not."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def told_error(lines: Sequence[str]) -> Any | None:
    """Return the last error that lines tell, as `sinkql.errors.as_data` gave it."""
    found = (json_object(line) for line in reversed(lines))
    return next((each["error"] for each in found if each is not None and "error" in each), None)
