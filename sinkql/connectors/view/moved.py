"""A view whose cluster gets STATE, or that goes to one with it → its log goes on there, from the catalog's folder.

Entries keep their numbers and ids, so that readers go on in them.
"""

from __future__ import annotations

from collections.abc import Iterable

from sinkql import durable
from sinkql.connectors.view.log import Run, ViewLog, run_file


def go_on(log: ViewLog) -> None:
    """Publish in a log in STATE what the catalog's folder has more of it, if anything."""
    before = log.before
    newest, last = log.newest(), before.newest() if before is not None else None
    number = newest[0] if newest is not None else 0
    if before is None or last is None or last[0] <= number:
        return
    same = before.entry(number)
    if newest is not None and (same is None or same.id != newest[1].id):
        return  # it went another way
    contents = [run for kept in last[1].contents.values() for run in kept]
    if not all(before.run_path(run).exists() for run in contents):
        return
    log.pins.take(before.pins)
    _take(log, before, contents)
    for each in before.numbers():
        entry = before.entry(each) if each > number else None
        if entry is not None:
            _take(log, before, entry.runs)
            if not log.publish(each, entry):
                return


def _take(log: ViewLog, before: ViewLog, runs: Iterable[Run]) -> None:
    """Have the files of another log, as far as they are there: who reads what is gone reads the contents."""
    names = []
    for run in runs:
        path = log.run_path(run)
        if not path.exists() and before.run_path(run).exists():
            with before.run_path(run).open("rb") as data:
                durable.create(path, data)
            names.append(run_file(run))
    log.home.keep(names)
