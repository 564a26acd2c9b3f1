"""A catalog's sinks → the process that runs them, `sinkql up`: started, listened to, ended.

Sinks that a process of their own runs, for as long as a `with` lasts.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from sinkql.catalog.address import VARIABLE, Address, ServerUrl
from sinkql.errors import SinkqlError, from_data
from sinkql.planner.name import short_name
from sinkql.session.sink.wait_for_target import TargetWait

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


_LOOK_SECONDS = 0.3


class RunningSinks:
    """Sinks that start with a `with` or `async with` block, and stop after their batches at its end.

    The end raises the error of a sink that failed or needs a user to act. An error of the block comes first. You may
    call methods from any thread.
    """

    def __init__(
        self,
        catalog: Address,
        sinks: tuple[str, ...],
        command: tuple[str, ...] = COMMAND,
        *,
        reaching: Callable[[], TargetWait],
    ) -> None:
        self.sinks = sinks
        self._reaching = reaching
        self._process = SinkProcess(catalog, self._take, self._ended, sinks, command)
        self._commits = dict.fromkeys(sinks, 0)
        self._waited = dict.fromkeys(sinks, 0)
        self._stalled: dict[str, SinkqlError] = {}
        self._failed: SinkqlError | None = None
        self._gone: dict[str, str] = {}
        self._reached: set[str | None] = set()
        self._changed = threading.Condition()

    def __enter__(self) -> RunningSinks:
        if self.sinks:
            self._process.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        try:
            self._process.stop()
            self._process.wait()
        except BaseException:
            self._process.kill()
            raise
        self._process.listened()
        if kind is None:
            self._raise()

    async def __aenter__(self) -> RunningSinks:
        return self.__enter__()

    async def __aexit__(self, *raised: Any) -> None:
        import asyncio  # which is there where this is called

        await asyncio.to_thread(self.__exit__, *raised)

    def wait_for_commit(self, timeout: float | None = None) -> None:
        """Wait until each sink has committed rows after the start or after the previous wait.

        If a sink has no new rows, wait until its table has everything that its sources have now. A load generator
        without UP TO has no such end. Raise the error of a sink that failed or needs a user to act, or SQ5212 if
        a sink was stopped or dropped. After `timeout` seconds, raise TimeoutError with the error of a sink that
        retries.
        """
        until = None if timeout is None else time.monotonic() + timeout
        reaching = self._reaching()
        try:
            while not self._committed(reaching):
                self._raise_ended()
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    error = next(iter(self._stalled.values()), None)
                    raise TimeoutError(f"no commit within {timeout:g} s") from error
                reaching.check()
                with self._changed:
                    self._changed.wait(_LOOK_SECONDS if left is None else min(left, _LOOK_SECONDS))
        finally:
            reaching.end()

    def _committed(self, reaching: TargetWait) -> bool:
        """Tell whether no sink is waited for any more; the commits that there are have been seen then."""
        with self._changed:
            if not all(
                self._commits[sink] > self._waited[sink] or reaching.request(sink) in self._reached
                for sink in self.sinks
            ):
                return False
            self._waited = dict(self._commits)
            return True

    def _raise_ended(self) -> None:
        with self._changed:
            self._raise()
            self._raise_gone()

    def _raise(self) -> None:
        waiting = (error for error in self._stalled.values() if not error.retryable)
        error = self._failed or next(waiting, None)
        if error is not None:
            raise error

    def _raise_gone(self) -> None:
        for sink, why in self._gone.items():
            if self._commits[sink] == self._waited[sink]:
                message = f'sink "{short_name(sink)}" ended before it committed: {why}'
                raise SinkqlError("SQ5212", message, hint="Start the sink again, and wait then.")

    # --- what the process says, on a thread of its own ----------------------------------------------------------------

    def _take(self, event: dict[str, Any]) -> None:
        sink = event.get("sink") or event.get("view")
        if sink not in self._commits:
            return
        with self._changed:
            match event["event"]:
                case "started":
                    self._gone.pop(sink, None)
                case "committed":
                    self._commits[sink] += event["rows"] > 0
                    self._stalled.pop(sink, None)
                case "reached":
                    self._reached.update(event["requests"])
                case "stalled":
                    self._stalled[sink] = from_data(event["error"])
                case "stopped" if "error" in event:
                    self._failed = self._failed or from_data(event["error"])
                case "stopped":
                    self._gone[sink] = event["why"]
                case _:
                    return
            self._changed.notify_all()

    def _ended(self, code: int, errors: Sequence[str]) -> None:
        with self._changed:
            if code != 0 and not self._process.ending and self._failed is None:
                told = told_error(errors)
                message, detail = f"the process that runs the sinks ended with {code}", "\n".join(errors) or None
                hint = "Start the sinks again; they continue where they stopped."
                ended = SinkqlError("SQ4004", message, detail=detail, hint=hint)
                self._failed = from_data(told) if told is not None else ended
            self._gone = dict.fromkeys(self.sinks, "its process ended") | self._gone
            self._changed.notify_all()
