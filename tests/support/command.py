"""The command line as a process of its own, and its JSON lines as they come."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.patience import PATIENCE_S


@dataclass(slots=True)
class Running:
    """Hold a running command; `rows` and `commits` count what its sinks committed so far."""

    process: subprocess.Popen[str]
    lines: queue.Queue[str | None] = field(default_factory=queue.Queue)
    events: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    commits: dict[str, int] = field(default_factory=dict)
    printed: list[str] = field(default_factory=list)

    def wait_for(self, what: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return the next event for which `what` holds; fails if the command ends, or nothing comes for long."""
        while True:
            try:
                line = self.lines.get(timeout=PATIENCE_S)
            except queue.Empty:
                raise AssertionError(f"nothing came\n{''.join(self.errors)}\n{self.events}") from None
            if line is None:
                raise AssertionError(f"ended with {self.process.wait()}\n{''.join(self.errors)}\n{self.events}")
            self.printed.append(line)
            try:
                event: dict[str, Any] = json.loads(line)
            except ValueError:
                continue
            self._take(event)
            if what(event):
                return event

    def wait_for_rows(self, wanted: Mapping[str, int]) -> None:
        """Wait until the sinks have committed so many rows."""
        while any(self.rows.get(sink, 0) < rows for sink, rows in wanted.items()):
            self.wait_for(lambda event: event.get("event") == "committed")

    def wait_for_commit(self, sink: str, number: int) -> None:
        """Wait until the sink has made so many commits with rows."""
        while self.commits.get(sink, 0) < number:
            self.wait_for(lambda event: event.get("event") == "committed")

    def _take(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        if event.get("event") == "committed" and event["rows"]:
            self.rows[event["sink"]] = self.rows.get(event["sink"], 0) + event["rows"]
            self.commits[event["sink"]] = self.commits.get(event["sink"], 0) + 1

    def interrupt(self, number: signal.Signals = signal.SIGINT) -> int:
        """Ask the command to stop, as Ctrl-C does, and return its exit code."""
        self.process.send_signal(number)
        return self.end()

    def end(self) -> int:
        """Wait for the command's end and return its exit code."""
        return self.process.wait(timeout=PATIENCE_S)

    def kill(self) -> None:
        """End the command and all that it started, at once."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def start(*arguments: str, folder: Path, environment: Mapping[str, str] | None = None) -> Running:
    """Start the command line with JSON output in a folder, in a process group of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "sinkql", "--output", "json", *arguments],
        cwd=folder,
        env=os.environ | dict(environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    running = Running(process)
    for stream, take, at_end in (
        (process.stdout, running.lines.put, lambda: running.lines.put(None)),
        (process.stderr, running.errors.append, lambda: None),
    ):
        threading.Thread(target=_pump, args=(stream, take, at_end), daemon=True).start()
    return running


def _pump(stream: Any, take: Callable[[str], object], at_end: Callable[[], None]) -> None:
    for line in stream:
        take(line)
    at_end()


def run(
    *arguments: str, folder: Path, environment: Mapping[str, str] | None = None, text: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end, as a user would, and return its output and exit code."""
    return subprocess.run(
        [sys.executable, "-m", "sinkql", *arguments],
        cwd=folder,
        env=os.environ | dict(environment or {}),
        capture_output=True,
        text=True,
        input=text,
        timeout=PATIENCE_S,
        check=False,
    )
