"""The process that runs the catalog's sinks while the shell is open: started, listened to, ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from sinkql.planner.name import short_name

COMMAND = (sys.executable, "-m", "sinkql")


@dataclass(slots=True)
class Job:
    """Hold what the events told of one sink."""

    state: str = "starting"
    rows: int = 0
    commits: int = 0
    said: str | None = None
    """The error that was told last: the same one again is not told."""


@dataclass(slots=True)
class Background:
    """Run `sinkql up` for a catalog file; `tell` gets a line for each thing a user should know."""

    catalog: Path
    tell: Callable[[str], None]
    command: tuple[str, ...] = COMMAND
    told: bool = False
    jobs: dict[str, Job] = field(default_factory=dict)
    activity: str | None = None
    """What goes on before sinks run, such as the start of Spark."""
    since: float = 0.0
    _process: subprocess.Popen[str] | None = None
    _listener: threading.Thread | None = None
    _ending: bool = False
    _errors: list[str] = field(default_factory=list)

    @property
    def pid(self) -> int | None:
        """Return the process's id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Start the process unless it runs."""
        if self.pid is not None:
            return
        self._ending = False
        self.activity, self.since = "starting", time.monotonic()
        self._process = subprocess.Popen(
            [*self.command, "--catalog", str(self.catalog), "--output", "json", "up"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Ctrl-C at the terminal is for the statement, not for the sinks
            start_new_session=True,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        errors = threading.Thread(target=self._collect, args=(self._process.stderr,), daemon=True)
        errors.start()
        self._listener = threading.Thread(target=self._listen, args=(self._process, errors), daemon=True)
        self._listener.start()

    def stop(self) -> None:
        """Ask the process to end after the running batches; `wait` waits for it."""
        if self._process is not None and self.pid is not None:
            self._ending = True
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

    def summary(self) -> str:
        """Return a line on what runs, empty if nothing does."""
        if self.pid is None:
            return ""
        if self.activity is not None:
            return f"{self.activity}: {time.monotonic() - self.since:.0f} s"
        states: dict[str, int] = {}
        for job in self.jobs.values():
            states[job.state] = states.get(job.state, 0) + 1
        listed = ", ".join(f"{count} {'sink' if count == 1 else 'sinks'} {state}" for state, count in states.items())
        rows = sum(job.rows for job in self.jobs.values())
        return f"{listed}; {rows:,} rows committed" if listed else "no sinks to run"

    # --- what the process says ---------------------------------------------------------------------------------------

    def _collect(self, stream: IO[str]) -> None:
        for line in stream:
            self._errors = [*self._errors[-20:], line.rstrip()]

    def _listen(self, process: subprocess.Popen[str], errors: threading.Thread) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            event = _event(line)
            if event is not None:
                self.take(event)
        code = process.wait()
        errors.join()
        self.activity = None
        if code != 0 and not self._ending:
            self._told_end(code)

    def _told_end(self, code: int) -> None:
        found = [error for error in (_event(line) for line in self._errors) if error is not None and "error" in error]
        reason = _error(found[-1]["error"]) if found else (self._errors[-1] if self._errors else f"exit code {code}")
        self.tell(f"the process that runs the sinks ended: {reason}\nhint: Run \\start; it starts them again.")

    def take(self, event: dict[str, Any]) -> None:
        """Take in one event, and tell of it what is new."""
        sink = event.get("sink")
        job = self.jobs.setdefault(sink, Job()) if sink is not None else Job()
        name = f"sink {short_name(sink)}" if sink is not None else ""
        match event.get("event"):
            case "spark starting":
                self.activity, self.since = f"starting Spark for cluster {event.get('cluster')}", time.monotonic()
                self.tell(f"{self.activity} …")
            case "spark started":
                self.activity = None
            case "started":
                job.state, self.activity = "running", None
            case "committed":
                self._committed(event, job, name)
            case "rebuilding":
                job.state = "rebuilding"
                self.tell(f"{name} reads its sources again: {_error(event.get('error'))}")
            case "stalled":
                job.state = "stalled"
                self._tell_error(job, f"{name} is stalled", event.get("error"))
            case "stopped":
                job.state = str(event.get("why", "stopped"))
                if event.get("error") is not None:
                    self._tell_error(job, f"{name} ended", event["error"])
                elif not self._ending:
                    self.tell(f"{name} ended: {job.state}")
            case _:
                pass

    def _committed(self, event: dict[str, Any], job: Job, name: str) -> None:
        rows = int(event.get("rows", 0))
        first = job.rows == 0 and rows > 0  # the commit that only makes the table is no news
        recovered = job.said is not None
        job.state, job.said = "running", None
        job.rows += rows
        job.commits += 1
        if first:
            self.tell(f"{name} committed its first {rows:,} {'row' if rows == 1 else 'rows'}")
        elif recovered:
            self.tell(f"{name} commits again")

    def _tell_error(self, job: Job, text: str, error: Any) -> None:
        said = _error(error)
        if job.said != said:
            self.tell(f"{text}: {said}")
        job.said = said


def _event(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _error(error: Any) -> str:
    """Return an error's code, message and hint; `error` is what `sinkql.errors.as_data` gave."""
    if not isinstance(error, dict):
        return str(error)
    hint = f"\nhint: {error['hint']}" if error.get("hint") else ""
    return f"{error.get('code', '')}: {error.get('message', '')}{hint}"
