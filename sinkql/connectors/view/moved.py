"""A view whose cluster gets STATE, or that goes to one with it → its log goes on there, from the catalog's folder.

Entries keep their numbers and ids, so that readers go on in them; while some are there and others not, the file
`MOVING` tells them to wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from uuid import uuid4

from sinkql.connectors.view.log import MOVING, Run, ViewLog, entry_after, run_file
from sinkql.storage import files


def migrate_log(log: ViewLog) -> None:
    """Publish in a log in STATE what the catalog's folder has more of it, if anything."""
    before = log.before
    if before is None:
        return
    newest, last = log.newest(), before.newest()
    number = newest[0] if newest is not None else 0
    if last is not None and last[0] > number:
        same = before.entry(number)
        # else it went another way, and what is to come is computed from where it is
        if newest is None or (same is not None and same.id == newest[1].id):
            log.home.upload_bytes(MOVING, b"")
            _take_all(log, before, number)
    if log.moving:
        log.forget(MOVING)


def _take_all(log: ViewLog, before: ViewLog, number: int) -> None:
    _fence(before)
    last = before.newest()
    assert last is not None
    contents = list(last[1].kept)
    if not all(before.run_path(run).exists() for run in contents):
        return
    log.pins.take(before.pins)
    for path in (before.folder / "attached").rglob("*"):
        if path.is_file():
            log.home.write_small(path.relative_to(before.folder).as_posix(), path.read_bytes())
    _take(log, before, contents)
    for each in before.numbers():
        entry = before.entry(each) if each > number else None
        if entry is not None:
            _take(log, before, entry.runs)
            if not log.publish(each, entry):
                return


def _fence(before: ViewLog) -> None:
    """Claim the log that is left, so that nobody else goes on in it."""
    while (last := before.newest()) is not None:
        claim = uuid4().hex
        number, entry = entry_after(last, replace(last[1].marker, claim=claim), claim)
        if before.publish(number, entry):
            return


def _take(log: ViewLog, before: ViewLog, runs: Iterable[Run]) -> None:
    """Have the files of another log, as far as they are there: who reads what is gone reads the contents."""
    names = []
    for run in runs:
        path = log.run_path(run)
        if not path.exists() and before.run_path(run).exists():
            with before.run_path(run).open("rb") as data:
                files.create_new(path, data)
        if path.exists():
            names.append(run_file(run))
    log.home.ensure_uploaded(names)
