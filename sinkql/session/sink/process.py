"""Start a child process that runs sinks, read its events, and stop it."""

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
from sinkql.errors import SinkqlError, from_data
from sinkql.machine import clock
from sinkql.planner.name import short_name
from sinkql.session.sink.wait_for_target import TargetWait

COMMAND = (sys.executable, "-m", "sinkql")
_ERROR_LINES = 21
"""The number of last lines of the error output that are stored."""


@dataclass(slots=True)
class SinkProcess:
    """A child process `sinkql up` that runs the named sinks of a catalog, or all.

    Another thread calls `on_event` with each event that the process prints. It then calls `on_end` with the exit code
    and the last lines of the error output.
    """

    catalog: Address
    on_event: Callable[[dict[str, Any]], None]
    on_end: Callable[[int, Sequence[str]], None]
    names: tuple[str, ...] = ()
    command: tuple[str, ...] = COMMAND
    is_stopping: bool = False
    """Whether `stop` was called."""
    _process: subprocess.Popen[str] | None = None
    _listener: threading.Thread | None = None
    _errors: list[str] = field(default_factory=list)

    @property
    def pid(self) -> int | None:
        """Return the process's id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Start the process."""
        self.is_stopping = False
        self._errors = []
        arguments, environment = ["--catalog", str(self.catalog)], None
        if isinstance(self.catalog, ServerUrl):  # other users can see arguments, which would show the password
            arguments, environment = [], {**os.environ, VARIABLE: self.catalog.text}
        self._process = subprocess.Popen(
            [*self.command, *arguments, "--output", "json", "up", *self.names],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Ctrl-C at the terminal must not reach the sinks
            start_new_session=True,
        )
        assert self._process.stderr is not None
        errors = threading.Thread(target=self._collect, args=(self._process.stderr,), daemon=True)
        errors.start()
        self._listener = threading.Thread(target=self._listen, args=(self._process, errors), daemon=True)
        self._listener.start()

    def stop(self) -> None:
        """Ask the process to end after the running batches, without waiting for the end."""
        if self._process is not None and self.pid is not None:
            self.is_stopping = True
            self._process.send_signal(signal.SIGINT)

    def wait(self) -> None:
        """Wait until the process has ended."""
        if self._process is not None:
            self._process.wait()

    def wait_for_events(self) -> None:
        """Wait until all events of the ended process are processed."""
        if self._listener is not None:
            self._listener.join()

    def kill(self) -> None:
        """Kill the process and its children. The sinks continue from their last commit when they start again."""
        if self.pid is not None:
            os.killpg(self.pid, signal.SIGKILL)
            self.wait()

    def _collect(self, stream: IO[str]) -> None:
        for line in stream:
            self._errors = [*self._errors[1 - _ERROR_LINES :], line.rstrip()]

    def _listen(self, process: subprocess.Popen[str], errors: threading.Thread) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            event = json_object(line)
            if event is not None:
                self._call_listener(event)
        code = process.wait()
        errors.join()
        self.on_end(code, self._errors)

    def _call_listener(self, event: dict[str, Any]) -> None:
        try:
            self.on_event(event)
        except Exception:  # a failing listener must not stop the reading, or the full pipe would block the sinks
            with suppress(OSError):
                traceback.print_exc()


def json_object(line: str) -> dict[str, Any] | None:
    """Return the JSON object in a line, None if the line is no JSON object."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def reported_error(lines: Sequence[str]) -> Any | None:
    """Return the last error in the lines, in the form of `sinkql.errors.as_data`."""
    objects = (json_object(line) for line in reversed(lines))
    return next((value["error"] for value in objects if value is not None and "error" in value), None)


_CHECK_SECONDS = 0.3


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
        self._seen_commits = dict.fromkeys(sinks, 0)
        self._stalled: dict[str, SinkqlError] = {}
        self._failed: SinkqlError | None = None
        self._end_reasons: dict[str, str] = {}
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
        self._process.wait_for_events()
        if kind is None:
            self._raise()

    async def __aenter__(self) -> RunningSinks:
        return self.__enter__()

    async def __aexit__(self, *raised: Any) -> None:
        import asyncio  # already loaded by the caller

        await asyncio.to_thread(self.__exit__, *raised)

    def wait_for_commit(self, timeout: float | None = None) -> None:
        """Wait until each sink has committed rows after the start or after the previous wait.

        If a sink has no new rows, wait until its table has everything that its sources have now. A load generator
        without UP TO has no such end. Raise the error of a sink that failed or needs a user to act, or SQ5212 if
        a sink was stopped or dropped. After `timeout` seconds, raise TimeoutError with the error of a sink that
        retries.
        """
        until = None if timeout is None else clock.monotonic() + timeout
        wait = self._reaching()
        try:
            while not self._has_committed(wait):
                self._raise_ended()
                remaining = None if until is None else until - clock.monotonic()
                if remaining is not None and remaining <= 0:
                    error = next(iter(self._stalled.values()), None)
                    raise TimeoutError(f"no commit within {timeout:g} s") from error
                wait.check()
                with self._changed:
                    clock.wait(self._changed, _CHECK_SECONDS if remaining is None else min(remaining, _CHECK_SECONDS))
        finally:
            wait.end()

    def _has_committed(self, wait: TargetWait) -> bool:
        """Return whether all sinks have committed or reached the target, and mark their commits as seen."""
        with self._changed:
            if not all(
                self._commits[sink] > self._seen_commits[sink] or wait.request(sink) in self._reached
                for sink in self.sinks
            ):
                return False
            self._seen_commits = dict(self._commits)
            return True

    def _raise_ended(self) -> None:
        with self._changed:
            self._raise()
            self._raise_stopped()

    def _raise(self) -> None:
        waiting = (error for error in self._stalled.values() if not error.retryable)
        error = self._failed or next(waiting, None)
        if error is not None:
            raise error

    def _raise_stopped(self) -> None:
        for sink, reason in self._end_reasons.items():
            if self._commits[sink] == self._seen_commits[sink]:
                message = f'sink "{short_name(sink)}" ended before it committed: {reason}'
                raise SinkqlError("SQ5212", message, hint="Start the sink again before you wait.")

    # --- events of the process, on the listener thread ---------------------------------------------------------------

    def _take(self, event: dict[str, Any]) -> None:
        sink = event.get("sink") or event.get("view")
        if sink not in self._commits:
            return
        with self._changed:
            match event["event"]:
                case "started":
                    self._end_reasons.pop(sink, None)
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
                    self._end_reasons[sink] = event["why"]
                case _:
                    return
            self._changed.notify_all()

    def _ended(self, code: int, errors: Sequence[str]) -> None:
        with self._changed:
            if code != 0 and not self._process.is_stopping and self._failed is None:
                reported = reported_error(errors)
                message, detail = f"the process that runs the sinks ended with {code}", "\n".join(errors) or None
                hint = "Start the sinks again; they continue where they stopped."
                failure = SinkqlError("SQ4004", message, detail=detail, hint=hint)
                self._failed = from_data(reported) if reported is not None else failure
            self._end_reasons = dict.fromkeys(self.sinks, "its process ended") | self._end_reasons
            self._changed.notify_all()
