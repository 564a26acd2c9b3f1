"""Show the events of running sinks: a live table on a terminal, lines elsewhere, JSON lines on request."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, get_args

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sinkql.cli.output import Output, more, when_unread
from sinkql.connector_api.stream import FirstSnapshot
from sinkql.errors import as_data, for_terminal
from sinkql.machine import clock
from sinkql.planner.name import short_name
from sinkql.runtime.batch.events import (
    Event,
    JavaMissing,
    SinkCommitted,
    SinkCompacted,
    SinkElsewhere,
    SinkReached,
    SinkRecovering,
    SinkRereading,
    SinkSnapshotting,
    SinkStage,
    SinkStalled,
    SinkStarted,
    SinkStarting,
    SinkStopped,
    SparkRested,
    SparkStarted,
    SparkStarting,
    Stage,
)

_LINE_SECONDS = 10.0
_BAR_CELLS = 10


@dataclass(slots=True)
class _Row:
    """A sink, or a `view` with a separate job, in the table."""

    view: bool = False
    state: str = "starting"
    stage_at: float | None = None
    """The start of the stage that is the state; its seconds are shown."""
    snapshot: FirstSnapshot | None = None
    rows: int = 0
    rate: float = 0.0
    lag: float = 0.0
    failed: int = 0
    committed_at: float | None = None
    next_at: float | None = None
    rereading: bool = False
    snapshot_shown_at: float | None = None
    """When a line last showed the progress of the first snapshot."""
    shown: str | None = None
    """The last error shown: a retry that fails with the same error takes one line."""

    def shown_state(self, now: float) -> str:
        """Return the state; for a stage, with its duration."""
        if self.snapshot is not None and self.state in ("running", "first batch"):
            return f"snapshot: {_bar(self.snapshot)}"
        staged = self.stage_at is not None and self.state in get_args(Stage)
        return f"{self.state}: {now - (self.stage_at or now):.0f} s" if staged else self.state


@dataclass(slots=True)
class LiveProgress:
    """Shows events; `first_commit` is called once per sink, after its first commit, and its lines are printed.

    `goes_on` is true if a sink that moved to another cluster continues there in the same process.
    """

    output: Output
    first_commit: Callable[[str], list[str]]
    goes_on: bool = False
    sinks: dict[str, _Row] = field(default_factory=dict)
    starting: dict[str, float] = field(default_factory=dict)
    _live: Live | None = None
    _over: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> LiveProgress:
        if self.output.format == "text" and sys.stdout.isatty():
            self._live = Live(console=Console(), get_renderable=self._render, refresh_per_second=4, transient=True)
            self._live.start()
        when_unread(signal.SIGHUP, lambda: self._over)  # no other process would stop this one
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over = True
        if self._live is not None:
            with suppress(OSError):  # the terminal is closed
                self._live.stop()

    def __call__(self, event: Event) -> None:
        """Record an event and print it."""
        # A run without a reader is being stopped, and a log on a full disk ends no sink.
        with self._lock, suppress(OSError):
            self._take(event)

    def _take(self, event: Event) -> None:
        now = clock.monotonic()
        match event:
            case JavaMissing():
                self._say(
                    "no Java was found: sinks run in this process, and a batch that needs Spark waits (SQ4001)",
                    event="java missing",
                )
            case SparkStarting():
                self.starting[event.cluster] = now
                self._say(f"starting Spark for cluster {event.cluster}", event="spark starting", cluster=event.cluster)
            case SparkStarted():
                self.starting.pop(event.cluster, None)
                self._say(
                    f"Spark for cluster {event.cluster} is up after {event.seconds:.1f} s",
                    event="spark started",
                    cluster=event.cluster,
                    seconds=round(event.seconds, 1),
                )
            case SparkRested():
                self._say(
                    f"stopped Spark for cluster {event.cluster}: no batch needs it", event="spark stopped",
                    cluster=event.cluster,
                )  # fmt: skip
            case SinkElsewhere():
                row = self.sinks.setdefault(event.sink, _Row())
                row.state, row.view = "elsewhere", event.view
                self._say(
                    f"another process runs {self._called(event.sink)}; this process takes over when that one ends",
                    event="elsewhere",
                    **self._named(event.sink),
                )
            case SinkStarting():
                row = self.sinks.setdefault(event.sink, _Row())
                row.state, row.view = "starting", event.view
                self._say(
                    f"{self._called(event.sink)} is starting",
                    event="starting",
                    **self._named(event.sink),
                    cluster=event.cluster,
                )
            case SinkStage():
                row = self.sinks.setdefault(event.sink, _Row())
                row.state, row.stage_at = event.stage, now
                if self.output.format == "json":
                    self._say("", event="stage", **self._named(event.sink), stage=event.stage)
            case SinkStarted():
                self.sinks.setdefault(event.sink, _Row()).state = "running"
                self._say(
                    f"{self._called(event.sink)} is running",
                    event="started",
                    **self._named(event.sink),
                    epoch=event.epoch,
                )
            case SinkCommitted():
                self._committed(event, now)
            case SinkCompacted():
                self._compacted(event)
            case SinkRecovering():
                self.sinks.setdefault(event.sink, _Row()).state = "rebuilding"
                self._say(
                    f"{self._called(event.sink)} reads its sources again: {event.lost.message}",
                    event="rebuilding",
                    **self._named(event.sink),
                    error=as_data(event.lost),
                )
            case SinkRereading():
                self._rereading(event)
            case SinkSnapshotting():
                self._snapshotting(event, now)
            case SinkReached():
                if self.output.format == "json":
                    self._say("", event="reached", **self._named(event.sink), requests=event.requests)
            case SinkStalled():
                self._stalled(event)
            case SinkStopped():
                self._stopped(event)

    def _called(self, sink: str) -> str:
        """Return the name of a sink or view in lines."""
        return f"{'materialized view' if self._view(sink) else 'sink'} {short_name(sink)}"

    def _named(self, sink: str) -> dict[str, Any]:
        """Return the name of a sink or view in JSON."""
        return {"view" if self._view(sink) else "sink": sink}

    def _view(self, sink: str) -> bool:
        row = self.sinks.get(sink)
        return row is not None and row.view

    def _rereading(self, event: SinkRereading) -> None:
        row = self.sinks.setdefault(event.sink, _Row())
        first, row.rereading = not row.rereading, True
        row.state = f"rebuilding: {_counted(event.rows)} {'read' if event.step == 'reading' else 'compared'}"
        if first or self.output.format == "json":
            self._say(
                f"{self._called(event.sink)} computes its rows again; its table has the old rows until it is done",
                event="rereading",
                **self._named(event.sink),
                step=event.step,
                rows=event.rows,
            )

    def _snapshotting(self, event: SinkSnapshotting, now: float) -> None:
        """Show the progress of a first snapshot: always on a terminal, as an occasional line elsewhere."""
        row, snapshot = self.sinks.setdefault(event.sink, _Row()), event.snapshot
        row.snapshot = None if snapshot.done else snapshot
        before, row.snapshot_shown_at = row.snapshot_shown_at, now
        shown_recently = before is not None and now < before + _LINE_SECONDS and not snapshot.done
        if shown_recently and self.output.format == "text":
            row.snapshot_shown_at = before
            return
        self._say(
            f"{self._called(event.sink)} {_read_so_far(snapshot)}",
            live=False,
            event="snapshotting",
            **self._named(event.sink),
            **asdict(snapshot),
        )

    def _committed(self, event: SinkCommitted, now: float) -> None:
        row = self.sinks.setdefault(event.sink, _Row())
        first = row.committed_at is None
        row.state, row.rate, row.committed_at = "running", event.rows_per_second, now
        row.lag = event.lag.total_seconds()
        row.rows += event.rows
        row.failed += event.failed
        row.next_at = now if event.more else now + event.next_commit.total_seconds()
        row.shown, row.rereading = None, False
        self._say(
            f"{self._called(event.sink)} committed {_counted(event.rows)} "
            f"({event.rows_per_second:,.0f} rows/s){_failed_records(event)}",
            live=False,
            event="committed",
            **self._named(event.sink),
            rows=event.rows,
            read=event.read,
            failed=event.failed,
            dead_letters=event.dead_letters,
            bytes=event.bytes,
            snapshot=event.snapshot,
            rows_per_second=round(event.rows_per_second),
            lag_seconds=round(event.lag.total_seconds(), 3),
        )
        if first and self.output.format == "text":
            for line in self.first_commit(event.sink):
                self._print(line)

    def _compacted(self, event: SinkCompacted) -> None:
        done, called = event.compacted, self._called(event.sink)
        if done.problem is not None:
            text = f"{called} could not compact its table, and tries again later: {done.problem}"
        else:
            text = f"{called} compacted {done.files_before} files into {done.files_after}"
        self._say(text, live=False, event="compacted", **self._named(event.sink), **asdict(done))

    def _stalled(self, event: SinkStalled) -> None:
        row = self.sinks.setdefault(event.sink, _Row())
        row.state = "stalled"
        again = "" if event.retry_in is None else f"next try in {event.retry_in.total_seconds():.0f} s"
        if self.output.format == "json":
            click.echo(json.dumps({"event": "stalled", **self._named(event.sink), "error": as_data(event.error)}))
        else:
            shown_error = f"{event.error.code}: {event.error.message}"
            text = f"{self._called(event.sink)} is stalled"
            if row.shown == shown_error:
                text += f" as before ({event.error.code})" + (f", {again}" if again else "")
            else:
                text += f"\n{event.error.shown()}" + (f"\n{again}" if again else "")
            row.shown = shown_error
            self._print(text)

    def _stopped(self, event: SinkStopped) -> None:
        self.sinks.setdefault(event.sink, _Row()).state = event.ending
        called, named = self._called(event.sink), self._named(event.sink)
        if event.ending in ("dropped", "moved", "renamed"):
            del self.sinks[event.sink]
        error = as_data(event.error) if event.error is not None else None
        self._say(
            f"{called} ended: {event.ending}",
            event="stopped",
            **named,
            why=event.ending,
            error=error,
        )
        if self.output.format == "json":
            return
        if event.error is not None:
            self._print(event.error.shown())
            if self._live is not None and (line := more(event.error)):
                self._print(line)
        if event.ending == "moved" and not self.goes_on:
            self._print(f"It is in another cluster now: run sinkql up {short_name(event.sink)} to continue there.")

    def _say(self, text: str, *, live: bool = True, **data: Any) -> None:
        """Print an event's line; on a terminal the table replaces lines with `live` false."""
        if self.output.format == "json":
            click.echo(json.dumps({key: value for key, value in data.items() if value is not None}, default=str))
        elif self._live is None:
            click.echo(for_terminal(f"{clock.now().astimezone().strftime('%H:%M:%S')} {text}"))
        elif live and "ended" in text:
            self._print(text)

    def _print(self, text: str) -> None:
        if self._live is not None:
            self._live.console.print(Text(for_terminal(text)), soft_wrap=True)  # a line that users copy stays one line
        else:
            click.echo(for_terminal(text))

    def _render(self) -> Group | Table:
        now = clock.monotonic()
        table = Table(box=None, pad_edge=False, header_style="dim")
        sinks, starting = list(self.sinks.items()), list(self.starting.items())  # other threads add to both
        skips = any(row.failed for _, row in sinks)
        skipped = ("skipped",) if skips else ()
        for column in ("sink", "state", "rows", "rows/s", *skipped, "lag", "last commit", "next commit"):
            table.add_column(column, justify="left" if column in ("sink", "state") else "right", no_wrap=True)
        for name, row in sinks:
            last = "-" if row.committed_at is None else f"{now - row.committed_at:.0f} s ago"
            lag = "-" if row.committed_at is None else f"{row.lag:.0f} s"
            due = "-" if row.state != "running" else _due(row.next_at, now)
            table.add_row(
                for_terminal(short_name(name)),
                row.shown_state(now),
                f"{row.rows:,}",
                f"{row.rate:,.0f}",
                *((f"{row.failed:,}",) if skips else ()),
                lag,
                last,
                due,
            )
        waiting = [Text(f"starting Spark for cluster {name}: {now - at:.0f} s") for name, at in starting]
        return Group(*waiting, table) if sinks else Group(*waiting)


def _bar(snapshot: FirstSnapshot) -> str:
    """Return a bar and the estimated time; only the number of rows if the total is unknown."""
    left = f", {duration(snapshot.seconds_left)} left" if snapshot.seconds_left else ""
    share = snapshot.share
    if share is None:
        return f"{_counted(snapshot.rows)} read"
    full = int(share * _BAR_CELLS)
    return f"{'█' * full}{'░' * (_BAR_CELLS - full)} {share:.0%}{left}"


def _read_so_far(snapshot: FirstSnapshot) -> str:
    if snapshot.done:
        return f"has its first snapshot: {_counted(snapshot.rows)} in {_chunks(snapshot.chunks)}"
    if not snapshot.rows:
        return "reads its first snapshot"
    chunks = f" of about {snapshot.of_chunks:,}" if snapshot.of_chunks is not None else ""
    rows = f" of about {snapshot.of_rows:,}" if snapshot.of_rows is not None else ""
    share = f" ({snapshot.share:.0%})" if snapshot.share is not None else ""
    left = f", about {duration(snapshot.seconds_left)} left" if snapshot.seconds_left else ""
    return f"reads its first snapshot: chunk {snapshot.chunks:,}{chunks}, row {snapshot.rows:,}{rows}{share}{left}"


def _chunks(count: int) -> str:
    return "1 chunk" if count == 1 else f"{count:,} chunks"


def duration(seconds: float) -> str:
    """Return a duration in its one or two greatest units."""
    whole = round(seconds)
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (whole % 60, "s")]
    first = next((place for place, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count or len(parts) - 1 == first)


def _failed_records(event: SinkCommitted) -> str:
    """Return how many records did not decode, after a comma: dead letters, and records that were only skipped."""
    letters, skipped = event.dead_letters, event.failed - event.dead_letters
    stored = f", {_counted(letters, 'dead letter')}" if letters else ""
    return stored + (f", {_counted(skipped, 'record')} skipped" if skipped else "")


def _counted(count: int, noun: str = "row") -> str:
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"


def _due(at: float | None, now: float) -> str:
    """Return the time until the next commit; an overdue commit waits for input."""
    if at is None:
        return "-"
    return f"in {max(0, at - now):.0f} s" if at > now - 1 else "on input"
