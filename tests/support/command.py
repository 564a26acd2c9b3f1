"""Run the command line, or another program, as a process, and read its lines as they come; every wait has a limit."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from support.forked import ForkedProcess, can_fork
from support.patience import PATIENCE_S, Deadline

_SHOWN = 50
"""Number of last lines in the message of a failed wait."""
_AFTER_KILL_S = 5.0
_SINKQL = (sys.executable, "-m", "sinkql")
Process: TypeAlias = "subprocess.Popen[str] | ForkedProcess"
ONLY_LATE = "SQ4005"
"""The error of a sink on an overloaded machine; the sink retries."""


@dataclass(slots=True)
class Running:
    """A running program; `rows` and `commits` count what its sinks have committed, by its JSON lines."""

    process: Process
    lines: queue.Queue[str | None] = field(default_factory=queue.Queue)
    events: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    commits: dict[str, int] = field(default_factory=dict)
    printed: list[str] = field(default_factory=list)

    def wait_for(self, what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the next event that satisfies `what`; fail if the program ends or no event comes in time."""

        def found(line: str) -> bool:
            event = _event(line)
            return event is not None and what(event)

        event: dict[str, Any] = json.loads(self.wait_for_line(found))
        return event

    def wait_for_line(self, what: Callable[[str], bool]) -> str:
        """Return the next line that satisfies `what`; fails as `wait_for` does."""
        deadline = Deadline()
        while (line := self._line(deadline)) is not None:
            if what(line):
                return line
        raise self._failure(f"it ended with {self.end()}")

    def wait_for_end(self) -> dict[str, Any]:
        """Return the next event of a sink that stopped or stalled; skip sinks that wait for a slow machine."""
        return self.wait_for(lambda event: event.get("event") in ("stopped", "stalled") and not late(event))

    def wait_for_rows(self, wanted: Mapping[str, int]) -> None:
        """Wait until the sinks have committed these numbers of rows."""

        def there(_: str = "") -> bool:
            return all(self.rows.get(sink, 0) >= rows for sink, rows in wanted.items())

        if not there():
            self.wait_for_line(there)

    def wait_for_commit(self, sink: str, number: int) -> None:
        """Wait until the sink has made this number of commits with rows."""

        def there(_: str = "") -> bool:
            return self.commits.get(sink, 0) >= number

        if not there():
            self.wait_for_line(there)

    def to_end(self) -> Iterator[dict[str, Any]]:
        """Yield the events until the program ends."""
        deadline = Deadline()
        while (line := self._line(deadline)) is not None:
            if (event := _event(line)) is not None:
                yield event

    def look(self, seconds: float) -> bool:
        """Read the next line, and return whether one came within `seconds`; fail if the program ends."""
        try:
            line = self.lines.get(timeout=seconds)
        except queue.Empty:
            return False
        if self._took(line) is None:
            raise self._failure(f"it ended with {self.end()}")
        return True

    def rest(self) -> list[str]:
        """Return the lines until the program ends."""
        deadline, before = Deadline(), len(self.printed)
        while self._line(deadline) is not None:
            pass
        return self.printed[before:]

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> int:
        """Ask the program to stop, as Ctrl-C does; return its exit code."""
        self.process.send_signal(number)
        return self.end()

    def end(self) -> int:
        """Wait until the program ends; return its exit code."""
        try:
            return self.process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise self._failure("it did not end") from None

    def kill(self) -> None:
        """Kill the program and all other processes of its group."""
        kill(self.process)

    def _line(self, deadline: Deadline) -> str | None:
        """Read the next line; return None at the end."""
        try:
            line = self.lines.get(timeout=deadline.left())
        except queue.Empty:
            raise self._failure(f"it did not come in {PATIENCE_S:.0f} seconds") from None
        return self._took(line)

    def _took(self, line: str | None) -> str | None:
        if line is None:
            self.lines.put(None)  # later reads find the end too
            return None
        self.printed.append(line)
        event = _event(line)
        if event is not None:
            self._take(event)
        return line

    def _take(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        name = str(event.get("sink") or event.get("view"))
        if event.get("event") == "committed" and event["rows"]:
            self.rows[name] = self.rows.get(name, 0) + event["rows"]
            self.commits[name] = self.commits.get(name, 0) + 1

    def _failure(self, why: str) -> AssertionError:
        return AssertionError(f"{why}\n{''.join(self.printed[-_SHOWN:])}\n{''.join(self.errors[-_SHOWN:])}")


def late(event: Mapping[str, Any]) -> bool:
    """Return whether an event says that a sink waits for a slow machine; the sink retries."""
    return bool(event.get("error", {}).get("code") == ONLY_LATE)


def start(*arguments: str, folder: Path, environment: Mapping[str, str] | None = None) -> Running:
    """Start the command line with JSON output in a folder, in a new process group."""
    return launch("-m", "sinkql", "--output", "json", *arguments, folder=folder, environment=environment)


def launch(*arguments: str, folder: Path, environment: Mapping[str, str] | None = None) -> Running:
    """Start Python with these arguments in a folder, in a new process group."""
    return launch_program(sys.executable, *arguments, folder=folder, environment=environment)


def launch_program(*command: str, folder: Path, environment: Mapping[str, str] | None = None) -> Running:
    """Start a program in a folder, in a new process group."""
    running = Running(_popen(command, folder, environment))
    process = running.process
    for stream, take, at_end in (
        (process.stdout, running.lines.put, lambda: running.lines.put(None)),
        (process.stderr, running.errors.append, lambda: None),
    ):
        threading.Thread(target=_pump, args=(stream, take, at_end), daemon=True).start()
    return running


def run(
    *arguments: str, folder: Path, environment: Mapping[str, str] | None = None, text: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end, as a user would; return its output and exit code."""
    command = [sys.executable, "-m", "sinkql", *arguments]
    process = _popen(command, folder, environment, stdin=text is not None)
    try:
        told, errors = process.communicate(text, PATIENCE_S)
    except subprocess.TimeoutExpired as late:
        kill(process)
        try:
            told, errors = process.communicate(timeout=_AFTER_KILL_S)
        except subprocess.TimeoutExpired:  # another process that has the pipes still runs
            told, errors = str(late.stdout), str(late.stderr)
        raise AssertionError(f"{arguments} did not end\n{told}\n{errors}") from late
    return subprocess.CompletedProcess(command, process.wait(), told, errors)


def kill(process: Process) -> None:
    """Kill a process and all others of its group; a JVM has another group, and ends soon after."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)


def _popen(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None, *, stdin: bool = False
) -> Process:
    variables = os.environ | dict(environment or {})
    if tuple(command[: len(_SINKQL)]) == _SINKQL and can_fork(variables):
        return ForkedProcess(command[len(_SINKQL) :], folder, variables, stdin=stdin)
    return subprocess.Popen(
        command,
        cwd=folder,
        env=variables,
        stdin=subprocess.PIPE if stdin else None,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )


def _event(line: str) -> dict[str, Any] | None:
    with suppress(ValueError):
        found = json.loads(line)
        if isinstance(found, dict):
            return found
    return None


def _pump(stream: Any, take: Callable[[str], object], at_end: Callable[[], None]) -> None:
    try:
        for line in stream:
            take(line)
    finally:
        at_end()
