"""ALTER SOURCE … SKIP → a loss that the source or its sinks reported is accepted, and no other one.

REPLAY ERRORS FROM a source → each of its sinks is asked to put the records in that decode by now.
"""

from __future__ import annotations

import json
import time
from typing import Any

from sinkql import ast, logical, physical
from sinkql.capture import messages
from sinkql.capture.log import source_folder
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.coordination.shared_store import open_notes
from sinkql.connector_api import requests as accepting
from sinkql.connector_api import requests as replaying
from sinkql.connector_api.source_options import can_reread_source, has_dead_letter_table, may_replay_late
from sinkql.errors import Notice, SinkqlError, error_codes, from_data
from sinkql.lowering.job import lower
from sinkql.planner.edit.rename import find_altered
from sinkql.planner.name import find, short_name
from sinkql.session.result import Result, Workspace
from sinkql.session.sink.run import status
from sinkql.storage.key_value import KeyValueStore

_TAG = "ALTER SOURCE"


def skip(statement: ast.Alter, workspace: Workspace) -> Result:
    """Let sinks go on without what a source has lost, as it or they reported; a notice where none of them did.

    Sinks that failed for it are to run again.
    """
    catalog = workspace.catalog
    catalog.refresh()
    entry, notices = find_altered(statement, catalog.reader())
    if entry is None:
        return Result(_TAG, notices, skipped=True)
    lost = _of_source(entry, workspace) + _of_sinks(entry, workspace)
    name = short_name(entry.name, catalog.reader())
    if not lost:
        notice = Notice("SQ2354", f'source "{name}" has reported no loss, so nothing is skipped', statement.name.span)
        return Result(_TAG, (notice,), names=(entry.name,), skipped=True)
    found = tuple(Notice("SQ2353", f"skipped: {each}", statement.name.span) for each in dict.fromkeys(lost))
    return Result(_TAG, found, names=(entry.name,))


def _of_source(entry: logical.Entry, workspace: Workspace) -> list[str]:
    """Accept what the capture of the source reports."""
    source_id = entry.facts.get("source_id")
    if source_id is None:
        return []
    notes = _notes(workspace.catalog, source_id)
    said = messages.status(notes)
    error = said.trouble.error if said is not None and said.trouble is not None else None
    if error is None or not error_codes[error["code"]].of_loss:
        return []
    messages.send(notes, "skip", messages.LossAcceptance(error["code"]))
    for _, job in _readers(entry, workspace):
        workspace.catalog.control.resume(job.sink_id)
    return [from_data(error).message]


def _of_sinks(entry: logical.Entry, workspace: Workspace) -> list[str]:
    """Accept what sinks report of the source: their own places, and not those of others."""
    catalog, lost = workspace.catalog, []
    offsets = catalog.control.offsets()
    for read, job in _readers(entry, workspace):
        columns, rows = status(catalog, (job.sink,))
        told = dict(zip(columns, rows[0], strict=True)) if rows else {}
        code, _, message = (told.get("error") or "").partition(": ")
        known: dict[str, Any] = json.loads(offsets.get(job.sink_id, "{}"))
        if not _of_loss(code) or _of_another(message, read, job):
            continue
        if "source_id" in read.options:
            reader = messages.reader_name(job.sink_id, read.options["table"]["id"])
            messages.send(_notes(catalog, read.options["source_id"]), f"skip/{reader}", messages.LossAcceptance(code))
        else:
            accepting.accept_loss(workspace.context(job).notes, read.source, known.get(read.source, {}))
        catalog.control.resume(job.sink_id)
        lost.append(message)
    return lost


def _notes(catalog: Catalog, source_id: str) -> KeyValueStore:
    return open_notes(catalog.database, source_id, source_folder(catalog.database.folder, source_id))


def _of_loss(code: str) -> bool:
    try:
        return error_codes[code].of_loss
    except LookupError:
        return False


def _of_another(message: str, read: physical.Read, job: physical.Job) -> bool:
    """Tell whether a loss is of another source that the sink reads; it may have had another name when it was told."""
    names = {each.name for each in job.reads()} - {read.name}
    return f'"{read.name}"' not in message and any(f'"{name}"' in message for name in names)


def _readers(entry: logical.Entry, workspace: Workspace) -> list[tuple[physical.Read, physical.Job]]:
    """Return the jobs of sinks that read a source, or one of its tables, and what they read of it."""
    catalog, source_id = workspace.catalog, entry.facts.get("source_id")
    found = []
    for name in catalog.plans.planned("SINK"):
        try:
            job = lower(name, catalog.plans)
        except SinkqlError:
            continue  # it cannot run, whatever its sources have
        for read in job.reads():
            mine = read.options.get("source_id") == source_id if source_id is not None else read.name == entry.name
            if mine:
                found.append((read, job))
    return found


_REPLAY_TAG = "REPLAY ERRORS"
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
        return Result(_REPLAY_TAG, (notice,), names=(source,), skipped=True)
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
    return Result(_REPLAY_TAG, tuple(notices), columns=_COLUMNS, rows=tuple(rows), names=(source,))


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
