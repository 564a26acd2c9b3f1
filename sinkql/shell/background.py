"""The process that runs the catalog's sinks while the shell is open.

Its messages appear above the prompt; while a statement runs, they wait for the next prompt.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sinkql.catalog.address import Address
from sinkql.machine import clock
from sinkql.planner.name import short_name
from sinkql.session.sink.process import COMMAND, SinkProcess, reported_error


@dataclass(slots=True)
class SinkState:
    """The state of one sink, or of a `view` with a separate job, from its events."""

    view: bool = False
    state: str = "starting"
    rows: int = 0
    commits: int = 0
    shown_error: str | None = None
    """The last error shown: a repeated error is not shown again."""


@dataclass(slots=True)
class Background:
    """Runs `sinkql up` for a catalog; `tell` receives a line for each message to the user."""

    catalog: Address
    tell: Callable[[str], None]
    command: tuple[str, ...] = COMMAND
    notified: bool = False
    jobs: dict[str, SinkState] = field(default_factory=dict)
    activity: str | None = None
    """The activity before sinks run, for instance the start of Spark."""
    since: float = 0.0
    _running: SinkProcess = field(init=False)

    def __post_init__(self) -> None:
        self._running = SinkProcess(self.catalog, self.take, self._ended, command=self.command)

    @property
    def pid(self) -> int | None:
        """Return the process's id while it runs."""
        return self._running.pid

    def start(self) -> None:
        """Start the process unless it runs."""
        if self.pid is None:
            self.activity, self.since = "starting", clock.monotonic()
            self._running.start()

    def stop(self) -> None:
        """Ask the process to end after the running batches; `wait` waits for it."""
        self._running.stop()

    def wait(self) -> None:
        """Wait until the process has ended."""
        self._running.wait()

    def listened(self) -> None:
        """Wait until all events of the ended process are recorded."""
        self._running.wait_for_events()

    def kill(self) -> None:
        """End the process and its children immediately; its sinks continue from their last commit at the next start."""
        self._running.kill()

    def summary(self) -> str:
        """Return a line about the running sinks, empty without a process."""
        if self.pid is None:
            return ""
        if self.activity is not None:
            return f"{self.activity}: {clock.monotonic() - self.since:.0f} s"
        states = Counter(("view" if job.view else "sink", job.state) for job in self.jobs.values())
        listed = ", ".join(f"{n} {kind if n == 1 else f'{kind}s'} {state}" for (kind, state), n in states.items())
        rows = sum(job.rows for job in self.jobs.values() if not job.view)
        return f"{listed}; {rows:,} rows committed" if listed else "no sinks to run"

    # --- events of the process ---------------------------------------------------------------------------------------

    def _ended(self, code: int, errors: Sequence[str]) -> None:
        self.activity = None
        if code == 0 or self._running.is_stopping:
            return
        error = reported_error(errors)
        reason = _error(error) if error is not None else (errors[-1] if errors else f"exit code {code}")
        self.tell(f"the process that runs the sinks ended: {reason}\nhint: Run \\start to start them again.")

    def take(self, event: dict[str, Any]) -> None:
        """Record one event, and show the news in it."""
        view, called = "view" in event, event.get("view") or event.get("sink")
        job = self.jobs.setdefault(called, SinkState(view)) if called is not None else SinkState()
        name = f"{'materialized view' if view else 'sink'} {short_name(called)}" if called is not None else ""
        match event.get("event"):
            case "spark starting":
                self.activity, self.since = f"starting Spark for cluster {event.get('cluster')}", clock.monotonic()
                self.tell(f"{self.activity} …")
            case "spark started":
                self.activity = None
            case "java missing":
                self.tell("no Java was found: a batch that needs Spark waits")
            case "stage":
                job.state = str(event.get("stage"))
            case "started":
                job.state, self.activity = "running", None
            case "committed":
                self._committed(event, job, name)
            case "rebuilding":
                job.state = "rebuilding"
                self.tell(f"{name} reads its sources again: {_error(event.get('error'))}")
            case "rereading":
                if job.state != "rebuilding":
                    self.tell(f"{name} computes its rows again; its table has the old rows until it is done")
                job.state = "rebuilding"
            case "stalled":
                job.state = "stalled"
                self._tell_error(job, f"{name} is stalled", event.get("error"))
            case "stopped":
                job.state = str(event.get("why", "stopped"))
                if event.get("error") is not None:
                    self._tell_error(job, f"{name} ended", event["error"])
                elif not self._running.is_stopping:
                    self.tell(f"{name} ended: {job.state}")
            case _:
                pass

    def _committed(self, event: dict[str, Any], job: SinkState, name: str) -> None:
        rows = int(event.get("rows", 0))
        first = job.rows == 0 and rows > 0  # the commit that only creates the table is not news
        recovered = job.shown_error is not None
        job.state, job.shown_error = "running", None
        job.rows += rows
        job.commits += 1
        if first:
            self.tell(f"{name} committed its first {rows:,} {'row' if rows == 1 else 'rows'}")
        elif recovered:
            self.tell(f"{name} commits again")

    def _tell_error(self, job: SinkState, text: str, error: Any) -> None:
        message = _error(error)
        if job.shown_error != message:
            self.tell(f"{text}: {message}")
        job.shown_error = message


def _error(error: Any) -> str:
    """Return an error's code, message and hint; `error` is a result of `sinkql.errors.as_data`."""
    if not isinstance(error, dict):
        return str(error)
    hint = f"\nhint: {error['hint']}" if error.get("hint") else ""
    return f"{error.get('code', '')}: {error.get('message', '')}{hint}"


@dataclass(slots=True)
class Notices:
    """Prints lines through `show`, from any thread."""

    show: Callable[[str], None]
    _waiting: list[str] = field(default_factory=list)
    _asking: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, text: str) -> None:
        """Show a line now if the prompt is open, otherwise before the next prompt."""
        with self._lock:
            if self._asking:
                self.show(text)
            else:
                self._waiting.append(text)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Show the waiting lines, and then each line immediately."""
        with self._lock:
            for text in self._waiting:
                self.show(text)
            self._waiting.clear()
            self._asking = True
        try:
            yield
        finally:
            with self._lock:
                self._asking = False
