"""Run ALTER SOURCE … SKIP, which accepts a reported loss, and REPLAY ERRORS, which replays dead letters."""

from __future__ import annotations

import json
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
from sinkql.machine import clock
from sinkql.planner.name import short_name
from sinkql.session.result import Result, Workspace
from sinkql.session.sink.run import status
from sinkql.statement.operation import AcceptLoss, ReplayRecords
from sinkql.storage.key_value import KeyValueStore

_TAG = "ALTER SOURCE"


def skip(operation: AcceptLoss, workspace: Workspace) -> Result:
    """Accept the losses that a source or its sinks reported, and start the failed sinks.

    Return a notice if no loss was reported.
    """
    statement, entry = operation.statement, operation.entry
    losses = _accept_capture_loss(entry, workspace) + _accept_sink_losses(entry, workspace)
    name = short_name(entry.name, workspace.catalog.reader())
    if not losses:
        notice = Notice("SQ2354", f'source "{name}" has reported no loss, so nothing is skipped', statement.name.span)
        return Result(_TAG, (notice,), names=(entry.name,), skipped=True)
    skipped = tuple(Notice("SQ2353", f"skipped: {loss}", statement.name.span) for loss in dict.fromkeys(losses))
    return Result(_TAG, skipped, names=(entry.name,))


def _accept_capture_loss(entry: logical.Entry, workspace: Workspace) -> list[str]:
    """Accept the loss that the capture of a source reports."""
    source_id = entry.facts.get("source_id")
    if source_id is None:
        return []
    notes = _capture_store(workspace.catalog, source_id)
    capture_status = messages.status(notes)
    error = capture_status.trouble.error if capture_status is not None and capture_status.trouble is not None else None
    if error is None or not error_codes[error["code"]].of_loss:
        return []
    messages.send(notes, "skip", messages.LossAcceptance(error["code"]))
    for _, job in _reads_of(entry, workspace):
        workspace.catalog.control.resume(job.sink_id)
    return [from_data(error).message]


def _accept_sink_losses(entry: logical.Entry, workspace: Workspace) -> list[str]:
    """Accept the losses of a source that sinks report, at each sink's position."""
    catalog, losses = workspace.catalog, []
    offsets = catalog.control.offsets()
    for read, job in _reads_of(entry, workspace):
        columns, rows = status(catalog, (job.sink,))
        values = dict(zip(columns, rows[0], strict=True)) if rows else {}
        code, _, message = (values.get("error") or "").partition(": ")
        positions: dict[str, Any] = json.loads(offsets.get(job.sink_id, "{}"))
        if not _is_loss(code) or _is_of_other_source(message, read, job):
            continue
        if "source_id" in read.options:
            reader = messages.reader_name(job.sink_id, read.options["table"]["id"])
            messages.send(
                _capture_store(catalog, read.options["source_id"]), f"skip/{reader}", messages.LossAcceptance(code)
            )
        else:
            accepting.accept_loss(workspace.context(job).notes, read.source, positions.get(read.source, {}))
        catalog.control.resume(job.sink_id)
        losses.append(message)
    return losses


def _capture_store(catalog: Catalog, source_id: str) -> KeyValueStore:
    return open_notes(catalog.database, source_id, source_folder(catalog.database.folder, source_id))


def _is_loss(code: str) -> bool:
    try:
        return error_codes[code].of_loss
    except LookupError:
        return False


def _is_of_other_source(message: str, read: physical.Read, job: physical.Job) -> bool:
    """Return whether a loss belongs to another source of the sink. The message may have an old name of the source."""
    names = {other_read.name for other_read in job.reads()} - {read.name}
    return f'"{read.name}"' not in message and any(f'"{name}"' in message for name in names)


def _reads_of(entry: logical.Entry, workspace: Workspace) -> list[tuple[physical.Read, physical.Job]]:
    """Return the sinks' jobs that read a source or one of its tables, with the reads."""
    catalog, source_id = workspace.catalog, entry.facts.get("source_id")
    readers = []
    for name in catalog.plans.planned("SINK"):
        try:
            job = lower(name, catalog.plans)
        except SinkqlError:
            continue  # the sink cannot run
        for read in job.reads():
            is_match = read.options.get("source_id") == source_id if source_id is not None else read.name == entry.name
            if is_match:
                readers.append((read, job))
    return readers


_REPLAY_TAG = "REPLAY ERRORS"
_WAIT_SECONDS = 120.0
_POLL_SECONDS = 0.2
_COLUMNS = ("sink", "replayed", "left")
_Row = tuple[str, int | None, int | None]


def replay(operation: ReplayRecords, workspace: Workspace, *, wait_seconds: float = _WAIT_SECONDS) -> Result:
    """Ask the sinks of a source to replay their dead letters, and wait for the running sinks.

    A stopped sink replays them when it starts. Raise SQ3394 if a sink cannot replay, and the error of a failed replay.
    """
    catalog, statement, entry = workspace.catalog, operation.statement, operation.entry
    source = entry.name
    readers = _dead_letter_sinks(entry, workspace)
    for job, read in readers:
        _check_replay(job, read, statement)
    if not readers:
        shown_name = short_name(source)
        notice = Notice(
            "SQ2355",
            f'no sink keeps records of source "{shown_name}" that do not decode',
            statement.name.span,
            hint=f"ALTER SOURCE {shown_name} SET (ON ERROR = DEAD LETTER) stores them.",
        )
        return Result(_REPLAY_TAG, (notice,), names=(source,), skipped=True)
    requests = [
        (job, read, replaying.request_replay(workspace.context(job).notes, read.source)) for job, read in readers
    ]
    until = clock.monotonic() + wait_seconds
    rows: list[_Row] = []
    notices: list[Notice] = []
    for job, read, id_ in requests:
        answer = _wait_for_answer(job, read, id_, until, workspace)
        name = short_name(job.sink)
        if answer is None:
            when = "when it can" if catalog.control.is_held(job.sink_id) else "when it is started"
            notices.append(Notice("SQ2355", f'sink "{name}" replays the records {when}', statement.name.span))
            rows.append((name, None, None))
            continue
        answer.check()
        rows.append((name, answer.replayed, answer.left))
    return Result(_REPLAY_TAG, tuple(notices), columns=_COLUMNS, rows=tuple(rows), names=(source,))


def _dead_letter_sinks(source: logical.Entry, workspace: Workspace) -> list[tuple[physical.Job, physical.Read]]:
    """Return the jobs with dead letters of a source or one of its tables, with the reads."""
    sinks, id_ = [], source.facts.get("source_id")
    for name in workspace.catalog.plans.planned("SINK"):
        try:
            job = lower(name, workspace.catalog.plans)
        except SinkqlError:
            continue  # the sink cannot run
        for read in job.reads():
            is_match = read.name == source.name or (id_ is not None and read.options.get("source_id") == id_)
            if is_match and has_dead_letter_table(read):
                sinks.append((job, read))
    return sinks


def _check_replay(job: physical.Job, read: physical.Read, statement: ast.ReplayErrors) -> None:
    if "source_id" in read.options:
        reason = f'source "{short_name(read.name)}" sends changes of rows, and the rows may have changed again since'
        hint = "Correct the rows on the server. The capture then reads the changes."
    elif job.write.final:
        reason = f'sink "{short_name(job.sink)}" cannot change its output, including its dead letters'
        hint = "Create another source that reads the dead letters, and a sink of that source."
    elif not may_replay_late(job, read) and not can_reread_source(job, read):
        reason = f'sink "{short_name(job.sink)}" can neither add late records nor compute its rows again'
        hint = "Create another sink of the source with a new table."
    else:
        return
    raise SinkqlError("SQ3394", f"records cannot be replayed: {reason}", statement.name.span, hint=hint)


def _wait_for_answer(
    job: physical.Job, read: physical.Read, id_: str, until: float, workspace: Workspace
) -> replaying.ReplayResult | None:
    """Return the answer of a sink, None if it does not run or the time is over."""
    while True:
        is_waiting = workspace.catalog.control.is_held(job.sink_id) and clock.monotonic() < until
        answer = replaying.replay_result(workspace.context(job).notes, read.source, id_)
        if answer is not None or not is_waiting:
            return answer
        clock.sleep(_POLL_SECONDS)
