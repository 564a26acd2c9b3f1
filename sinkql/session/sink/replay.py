"""REPLAY ERRORS FROM a source → each of its sinks is asked to put the records in that decode by now."""

from __future__ import annotations

import time

from sinkql import ast, logical, physical
from sinkql.connector_api import requests as replaying
from sinkql.connector_api.on_error import can_reread_source, has_dead_letter_table, may_replay_late
from sinkql.errors import Notice, SinkqlError
from sinkql.lowering.job import lower
from sinkql.planner.name import find, short_name
from sinkql.session.result import Result
from sinkql.session.workspace import Workspace

_TAG = "REPLAY ERRORS"
_WAIT_SECONDS = 120.0
_POLL_SECONDS = 0.2
_COLUMNS = ("sink", "replayed", "left")
_Row = tuple[str, int | None, int | None]


def replay(statement: ast.ReplayErrors, workspace: Workspace, *, wait_seconds: float = _WAIT_SECONDS) -> Result:
    """Ask the sinks of a source, and wait for those that run; a sink that does not does it when it is started.

    Raises SQ3394 where a sink cannot put a record in so that its table is right, and what kept a sink from it.
    """
    catalog = workspace.catalog
    catalog.refresh()
    entry = find(catalog.plans, statement.name, "SOURCE")
    source = entry.name
    found = _sinks(entry, workspace)
    for job, read in found:
        _check(job, read, statement)
    if not found:
        shown = short_name(source)
        notice = Notice(
            "SQ2355",
            f'no sink keeps records of source "{shown}" that do not decode',
            statement.name.span,
            hint=f"ALTER SOURCE {shown} SET (ON ERROR = DEAD LETTER) has them kept.",
        )
        return Result(_TAG, (notice,), names=(source,), skipped=True)
    asked = [(job, read, replaying.request_replay(workspace.context(job).notes, read.source)) for job, read in found]
    until = time.monotonic() + wait_seconds
    rows: list[_Row] = []
    notices: list[Notice] = []
    for job, read, id_ in asked:
        answer = _wait(job, read, id_, until, workspace)
        name = short_name(job.sink)
        if answer is None:
            when = "once it can" if catalog.control.held(job.sink_id) else "when it is started"
            notices.append(Notice("SQ2355", f'sink "{name}" puts the records in {when}', statement.name.span))
            rows.append((name, None, None))
            continue
        answer.check()
        rows.append((name, answer.replayed, answer.left))
    return Result(_TAG, tuple(notices), columns=_COLUMNS, rows=tuple(rows), names=(source,))


def _sinks(source: logical.Entry, workspace: Workspace) -> list[tuple[physical.Job, physical.Read]]:
    """Return the jobs that keep records of a source, or of one of its tables, and how they read it."""
    found, id_ = [], source.facts.get("source_id")
    for name in workspace.catalog.plans.planned("SINK"):
        try:
            job = lower(name, workspace.catalog.plans)
        except SinkqlError:
            continue  # it cannot run, whatever is kept
        for read in job.reads():
            mine = read.name == source.name or (id_ is not None and read.options.get("source_id") == id_)
            if mine and has_dead_letter_table(read):
                found.append((job, read))
    return found


def _check(job: physical.Job, read: physical.Read, statement: ast.ReplayErrors) -> None:
    if "source_id" in read.options:
        why = f'source "{short_name(read.name)}" gives changes of rows, which may have changed again since'
        hint = "Correct the rows in the server; their changes come by themselves."
    elif job.write.final:
        why = f'what sink "{short_name(job.sink)}" has written stays, and its records that do not decode with it'
        hint = "Read them with a source of their own, and create a sink of that."
    elif not may_replay_late(job, read) and not can_reread_source(job, read):
        why = f'sink "{short_name(job.sink)}" cannot take a record late, and cannot compute its rows again'
        hint = "Create another sink of the source, into a new table."
    else:
        return
    raise SinkqlError("SQ3394", f"records cannot be replayed: {why}", statement.name.span, hint=hint)


def _wait(
    job: physical.Job, read: physical.Read, id_: str, until: float, workspace: Workspace
) -> replaying.ReplayResult | None:
    """Return the sink's answer; None where it does not run, or takes too long."""
    while True:
        waits = workspace.catalog.control.held(job.sink_id) and time.monotonic() < until
        answer = replaying.replay_result(workspace.context(job).notes, read.source, id_)
        if answer is not None or not waits:
            return answer
        time.sleep(_POLL_SECONDS)
