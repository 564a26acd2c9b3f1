"""ALTER SOURCE … SKIP → a loss that the source or its sinks reported is accepted, and no other one."""

from __future__ import annotations

import json
from typing import Any

from sinkql import ast, logical, physical
from sinkql.capture import messages
from sinkql.capture.log import source_folder
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.coordination.shared_store import open_notes
from sinkql.connector_api import skip as accepting
from sinkql.errors import Notice, SinkqlError, error_codes, from_data
from sinkql.lowering.job import lower
from sinkql.planner.edit.rename import find_altered
from sinkql.planner.name import short_name
from sinkql.session.result import Result
from sinkql.session.sink.run import status
from sinkql.session.workspace import Workspace
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
