"""Backslash commands that show or change the state of the catalog and its sinks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from sinkql.errors import SinkqlError
from sinkql.machine import clock
from sinkql.planner.name import short_name
from sinkql.script.split import Command
from sinkql.shell.command import describe as describing
from sinkql.shell.screen.value import shown_rows, with_sizes
from sinkql.shell.shell import Shell

_KINDS = ("SECRET", "CONNECTION", "CLUSTER", "SOURCE", "TABLE", "VIEW", "MATERIALIZED VIEW", "SINK")
_SHOWN = ("name", "status", "rows", "skipped", "last commit", "behind", "lag", "error")
_IF_ANY = ("skipped", "behind", "error")
"""Columns that are left out if all their values are empty."""
_LOG = """
SELECT occurred_at, status, error, hint
FROM mz_internal.mz_sink_status_history
WHERE sink_id = '{}'
ORDER BY occurred_at
"""


def listing(shell: Shell, command: Command, _: str | None) -> None:
    """List the items of one kind."""
    pattern = command.arguments[0] if command.arguments else None
    shell.screen.rows(*describing.listing(shell.session, command.name, pattern))


def describe(shell: Shell, command: Command, _: str | None) -> None:
    """List all items, or describe the named items."""
    if not command.arguments or "*" in command.rest or "?" in command.rest:
        listing(shell, command, None)
        return
    for name in command.arguments:
        _describe(shell, name, with_plan=command.name == "d+")


def _describe(shell: Shell, name: str, *, with_plan: bool) -> None:
    description = describing.describe(shell.session, name if '"' in name else name.lower(), with_plan=with_plan)
    shell.screen.heading(description.title)
    columns, rows = description.columns
    if rows:
        shell.screen.rows(columns, rows)
    shell.screen.facts(description.facts)
    shell.screen.sql(description.sql)
    if description.plan:
        shell.screen.heading("plan")
        shell.screen.line(description.plan)


def conninfo(shell: Shell, command: Command, _: str | None) -> None:
    """Print the open catalog and the number of its items."""
    catalog = shell.session.catalog
    catalog.refresh()
    shell.screen.line(f"catalog: {catalog.database.address}")
    counts = [(kind, len(catalog.reader().names(kind))) for kind in _KINDS]
    listed = ", ".join(f"{count} {kind.lower()}{'' if count == 1 else 's'}" for kind, count in counts if count)
    shell.screen.line(f"items: {listed}")
    pid = shell.background.pid
    shell.screen.line(f"sinks run in the background (pid {pid})" if pid is not None else "no sinks run in this shell")


def jobs(shell: Shell, command: Command, _: str | None) -> None:
    """Show the status of the sinks."""
    columns, rows = shell.session.status(command.arguments)
    sinks = [_job(dict(zip(columns, row, strict=True))) for row in rows]
    names = tuple(name for name in _SHOWN if name not in _IF_ANY or any(row[name] for row in sinks))
    shell.screen.rows(names, [tuple(row[name] for name in names) for row in sinks])
    summary = shell.background.summary()
    if summary:
        shell.screen.line(summary)


def _job(row: dict[str, Any]) -> dict[str, Any]:
    hint = f"\nhint: {row['hint']}" if row.get("hint") else ""
    lag = row.get("lag_seconds")
    return {
        "name": row["name"],
        "status": row["status"],
        "rows": row["rows"],
        "skipped": row.get("skipped") or 0,
        "last commit": _ago(row.get("last_commit")),
        "behind": with_sizes(row.get("behind")),
        "lag": None if lag is None else f"{lag:.0f} s",
        "error": f"{row['error']}{hint}" if row.get("error") else None,
    }


def _ago(at: str | None) -> str | None:
    if at is None:
        return None
    time = datetime.fromisoformat(at)
    seconds = (clock.now() - (time if time.tzinfo is not None else time.replace(tzinfo=UTC))).total_seconds()
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit} ago"
    return f"{max(0.0, seconds):.0f} s ago"


def start(shell: Shell, command: Command, _: str | None) -> None:
    """Run the named sinks, or all."""
    sinks = shell.session.start(*command.arguments)
    if not sinks:
        raise SinkqlError("SQ4036", "no sink to run", hint="Create one; \\h CREATE SINK shows how.")
    shell.start_sinks()
    shell.screen.line(f"told to run: {_listed(shell, sinks)}")


def stop(shell: Shell, command: Command, _: str | None) -> None:
    """Stop the named sinks, or all, after their current batch."""
    sinks = shell.session.stop(*command.arguments)
    shell.screen.line(f"stopping: {_listed(shell, sinks)}" if sinks else "no sinks to stop")


def _listed(shell: Shell, names: Iterable[str]) -> str:
    return ", ".join(short_name(name, shell.session.catalog.plans) for name in names)


def log(shell: Shell, command: Command, _: str | None) -> None:
    """Show the history of a sink."""
    for sink in shell.session.sinks(command.arguments or None):
        entry = shell.session.catalog.plans.entry(sink)
        if entry is not None:
            (result,) = shell.session.execute(_LOG.format(entry.id))
            shell.screen.heading(f'sink "{_listed(shell, [sink])}"')
            shell.screen.rows(result.columns, shown_rows(result.rows, result.types))
