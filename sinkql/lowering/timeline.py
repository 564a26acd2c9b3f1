"""Which inputs of a job are read at ticks: those whose sources other jobs of materialized views read as well.

Two views of one source are jobs that read it each for itself. Their batches end at the same ticks, so that whoever
reads both, or one of them and the source, reads them where they are of one state of it. Jobs that share nothing do
without.
"""

from __future__ import annotations

from itertools import islice

from sinkql import logical
from sinkql.lowering.materialized_view import CLOCK, ViewLogs, each_reader, logs_of, readers_of, reads_at_ticks, view_id


def timeline_of(name: str, catalog: logical.CatalogReader) -> dict[str, tuple[str, ...]]:
    """Return the inputs of a sink, or of a view, that are read at ticks, with the sources below each that are.

    By the names that offsets have.
    """
    return _timeline(logs_of(name, catalog), catalog, name if view_id(name, catalog) is not None else None)


def timeline_of_sink(logs: ViewLogs, catalog: logical.CatalogReader) -> dict[str, tuple[str, ...]]:
    """Return those of a sink that need not be in the catalog, which reads these logs."""
    return _timeline(logs, catalog, None)


def _timeline(logs: ViewLogs, catalog: logical.CatalogReader, view: str | None) -> dict[str, tuple[str, ...]]:
    """Return those of a `view` that is a job, or of a sink."""
    if view is None and (not logs.read or len(logs.inputs) < 2):
        return {}
    twice = _twice(logs)
    below = frozenset().union(*logs.inputs.values())
    shared = {
        each for each in below if reads_at_ticks(each, catalog) and (each in twice or _shared(each, catalog, view))
    }
    found = {name: own & shared for name, own in logs.inputs.items() if own & shared}
    if view is None and (len(found) < 2 or not found.keys() & logs.read):
        return {}
    return {
        _known_as(name, catalog): tuple(sorted(_known_as(source, catalog) for source in sources))
        for name, sources in sorted(found.items())
    }


def _twice(logs: ViewLogs) -> frozenset[str]:
    """Return the sources that are below several inputs."""
    found = list(logs.inputs.values())
    return frozenset(each for place, own in enumerate(found) for other in found[:place] for each in own & other)


def _shared(source: str, catalog: logical.CatalogReader, view: str | None) -> bool:
    """Tell whether several views are jobs that read a source, or a job reads it in several ways.

    The clock of a view is shared where a job above reads it in several ways.
    """
    if source == CLOCK:
        return view is not None and _twice_above(readers_of(view, catalog), source, catalog)
    views = (each for each in each_reader(source, catalog) if view_id(each, catalog) is not None)
    if len(list(islice(views, 2))) > 1:
        return True
    return _twice_above(readers_of(source, catalog), source, catalog)


def _twice_above(readers: list[str], source: str, catalog: logical.CatalogReader) -> bool:
    """Tell whether one of some jobs, or of those above, reads a source in several ways."""
    waiting, seen = list(readers), set(readers)
    while waiting:
        reader = waiting.pop()
        if source in _twice(logs_of(reader, catalog)):
            return True
        if view_id(reader, catalog) is not None:
            above = [each for each in readers_of(reader, catalog) if each not in seen]
            seen.update(above)
            waiting += above
    return False


def _known_as(name: str, catalog: logical.CatalogReader) -> str:
    """Return the name that offsets have of an input."""
    entry = catalog.entry(name)
    found = view_id(name, catalog) or (entry.facts.get("identity") if entry is not None else None)
    return str(found or name)
