"""Which materialized views a job reads from their logs, and which it computes itself.

A view is a job of its own where its facts have an id for it. Whoever reads it reads its log then, at the tick at which
its other inputs are (`sinkql.lowering.materialized_view`), so that a row is the batch evaluation of one state of the
sources below. A view is put in line that has a source in common with another input which cannot be read up to a tick.

A job → the materialized views that it computes itself, and why: what EXPLAIN says of them.

Which inputs of a job are read at ticks: those whose sources other jobs of materialized views read as well.

Two views of one source are jobs that read it each for itself. Their batches end at the same ticks, so that whoever
reads both, or one of them and the source, reads them where they are of one state of it. Jobs that share nothing do
without.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from itertools import islice

from sinkql import logical
from sinkql.connector_api.source_options import on_error
from sinkql.errors import SinkqlError, Span
from sinkql.planner.name import short_name

VIEW_ID, IN_LINE = "view_id", "in_line"
"""Facts: under which id a view is a job; the ids of views that a sink goes on to compute itself."""
USUAL_INTERVAL = timedelta(seconds=10)
CLOCK = "$clock"


def view_id(name: str, catalog: logical.CatalogReader) -> str | None:
    """Return the id under which an item is a job that keeps a log; None of others."""
    entry = catalog.entry(name)
    found = entry.facts.get(VIEW_ID) if entry is not None and entry.kind == "MATERIALIZED VIEW" else None
    return str(found) if found is not None else None


def view_jobs(catalog: logical.CatalogReader) -> tuple[str, ...]:
    """Return the full names of the views that are jobs of their own."""
    return tuple(name for name in catalog.names("MATERIALIZED VIEW") if view_id(name, catalog) is not None)


def inputs_of(name: str, catalog: logical.CatalogReader) -> tuple[str, ...]:
    """Return the items that a sink or a view reads by itself."""
    item = catalog.item(name)
    match item:
        case logical.Sink():
            return (item.relation,)
        case logical.View():
            return view_reads(item.relation)
        case _:
            return ()


def view_reads(relation: logical.Relation) -> tuple[str, ...]:
    """Return the items that a relation reads, each once."""
    found: dict[str, None] = {}
    for each in _relations(relation):
        if isinstance(each, logical.Get) and each.item != logical.ONE.item:
            found.setdefault(each.item)
    return tuple(found)


def _relations(relation: logical.Relation) -> Iterable[logical.Relation]:
    yield relation
    for below in logical.inputs_of(relation):
        yield from _relations(below)


@dataclass(frozen=True)
class ViewLogs:
    """The logs that a job reads whose relations are `names`; views with one of the ids `apart` are not among them.

    A job that does not read the `whole` of its inputs, from their beginnings, begins at no tick.
    """

    catalog: logical.CatalogReader
    names: tuple[str, ...]
    apart: Collection[str] = ()
    timed: bool = False
    whole: bool = True
    _sources: dict[str, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def read(self) -> frozenset[str]:
        """Return the full names of the views that are read from their logs."""
        return self._found[0]

    @cached_property
    def in_line(self) -> dict[str, str]:
        """Return the views that are computed by the job though they have a log, and why: what else is read."""
        return self._found[1]

    @cached_property
    def inputs(self) -> dict[str, frozenset[str]]:
        """Return what the job reads by itself, and which sources are below each."""
        return self._leaves(self.in_line)

    @cached_property
    def _found(self) -> tuple[frozenset[str], dict[str, str]]:
        inside: dict[str, str] = {}
        while True:
            leaves = self._leaves(inside)
            shared = {
                name: min(common)
                for name, own in leaves.items()
                if view_id(name, self.catalog) is not None
                and (common := {each for other, those in leaves.items() if other != name for each in own & those})
                and (common := {each for each in common if not (self.whole and reads_at_ticks(each, self.catalog))})
            }
            if not shared:
                logs = frozenset(name for name in leaves if view_id(name, self.catalog) is not None)
                return logs, inside
            inside |= shared

    def _leaves(self, inside: Collection[str]) -> dict[str, frozenset[str]]:
        """Return what the job reads, and which sources are below it."""
        found: dict[str, frozenset[str]] = {CLOCK: frozenset({CLOCK})} if self.timed else {}
        waiting = list(self.names)
        while waiting:
            name = waiting.pop()
            item = self.catalog.item(name)
            if not isinstance(item, logical.View) or self._logged(name, inside):
                found[name] = self.sources(name)
            else:
                if _timed(item.relation):
                    found[CLOCK] = frozenset({CLOCK})
                waiting += view_reads(item.relation)
        return found

    def _logged(self, name: str, inside: Collection[str]) -> bool:
        known = view_id(name, self.catalog)
        if known is None or known in self.apart or name in inside:
            return False
        return loggable(name, self.catalog)

    def sources(self, name: str) -> frozenset[str]:
        """Return the sources of an item, however far below, and the clock."""
        if name not in self._sources:
            item = self.catalog.item(name)
            if not isinstance(item, logical.View):
                return frozenset({name})
            own = frozenset({CLOCK} if _timed(item.relation) else ())
            self._sources[name] = own.union(*(self.sources(each) for each in view_reads(item.relation)))
        return self._sources[name]


def logs_of(name: str, catalog: logical.CatalogReader) -> ViewLogs:
    """Return the logs that a sink or a view of the catalog reads."""
    entry, item = catalog.entry(name), catalog.item(name)
    facts = entry.facts if entry is not None else {}
    timed = isinstance(item, logical.View) and _timed(item.relation)
    whole = not isinstance(item, logical.Sink) or item.snapshot
    return ViewLogs(catalog, inputs_of(name, catalog), facts.get(IN_LINE, ()), timed, whole)


def reads_at_ticks(source: str, catalog: logical.CatalogReader) -> bool:
    """Tell whether a source can be read up to a tick: how far one job has read it means the same to others."""
    if source == CLOCK:
        return True
    item = catalog.item(source)
    return isinstance(item, logical.Source) and item.common


def _timed(relation: logical.Relation) -> bool:
    return any(isinstance(each, logical.Bound) for each in _relations(relation))


def loggable(name: str, catalog: logical.CatalogReader) -> bool:
    """Tell whether a log can stand for a view: not where the order of its rows counts, or where letters are kept."""
    item = catalog.item(name)
    assert isinstance(item, logical.View)
    if item.shape.change is logical.Change.APPEND and is_stateless(name, catalog):
        return False
    return keeps_dead_letters(name, catalog) is None


def keeps_dead_letters(name: str, catalog: logical.CatalogReader) -> str | None:
    """Return a source below a view whose rows that fail are kept as dead letters; None where there is none."""
    for each in sorted(ViewLogs(catalog, ()).sources(name) - {CLOCK}):
        source = catalog.item(each)
        if isinstance(source, logical.Source) and on_error(source.options) == "dead letter":
            return each
    return None


def is_stateless(name: str, catalog: logical.CatalogReader) -> bool:
    """Tell whether nothing is kept to compute a relation: its rows are a source's, some of them, in other words."""
    item = catalog.item(name)
    if not isinstance(item, logical.View):
        return True
    alone = (logical.Get, logical.Project, logical.Filter, logical.Union)
    return all(isinstance(each, alone) for each in _relations(item.relation)) and all(
        is_stateless(each, catalog) for each in view_reads(item.relation)
    )


def readers_of(name: str, catalog: logical.CatalogReader) -> list[str]:
    """Return the sinks, and the views that are jobs of their own, whose jobs compute a view or read its log."""
    return list(each_reader(name, catalog))


def each_reader(name: str, catalog: logical.CatalogReader) -> Iterator[str]:
    """Yield them one after the other: a source may have many."""
    waiting, seen = [name], {name}
    while waiting:
        for each in catalog.dependents(waiting.pop()):
            if each in seen:
                continue
            seen.add(each)
            item = catalog.item(each)
            if isinstance(item, logical.Sink) or view_id(each, catalog) is not None:
                yield each
            elif isinstance(item, logical.View):
                waiting.append(each)


def sinks_above(name: str, catalog: logical.CatalogReader) -> list[logical.Sink]:
    """Return the sinks that depend on a view, through others or not."""
    found, waiting, seen = [], [name], {name}
    while waiting:
        for each in catalog.dependents(waiting.pop()):
            if each in seen:
                continue
            seen.add(each)
            waiting.append(each)
            item = catalog.item(each)
            if isinstance(item, logical.Sink):
                found.append(item)
    return found


def interval_of(view: logical.View, catalog: logical.CatalogReader) -> timedelta:
    """Return how often a view's job commits: as it says, else as the most frequent of its sinks, else each 10 s."""
    if view.commit_interval is not None:
        return view.commit_interval
    return min((each.commit_interval for each in sinks_above(view.name, catalog)), default=USUAL_INTERVAL)


_LATER = "it becomes a job of its own with its next sink"


def inlined_views(name: str, catalog: logical.CatalogReader) -> list[str]:
    """Return lines that say which materialized views the job of a sink, or of a view, computes itself, and why."""
    kind = "sink" if isinstance(catalog.item(name), logical.Sink) else "view"
    logs, lines, waiting, seen = logs_of(name, catalog), [], list(inputs_of(name, catalog)), set[str]()
    while waiting:
        view = waiting.pop(0)
        item = catalog.item(view)
        if view in seen or not isinstance(item, logical.View) or view in logs.read:
            continue
        seen.add(view)
        waiting += view_reads(item.relation)
        if item.materialized:
            lines.append(f"computes materialized view {short_name(view)}: {_why(view, kind, logs)}")
    return lines


def _why(view: str, kind: str, logs: ViewLogs) -> str:
    catalog = logs.catalog
    if view_id(view, catalog) is None or not loggable(view, catalog):
        return inline_reason(view, catalog)
    if (common := logs.in_line.get(view)) is not None:
        what = _called(common, catalog)
        return f"{what} is below another input of this {kind}, too, and a log would be at another point"
    return f"this {kind} had begun when a second reader came"


def check_index(index: logical.Index, span: Span, catalog: logical.CatalogReader) -> None:
    """Raise SQ2372 for an index of a view that cannot be a job of its own."""
    if loggable(index.relation, catalog):
        return
    raise SinkqlError(
        "SQ2372",
        f'materialized view "{short_name(index.relation, catalog)}" cannot have an index: '
        f"{inline_reason(index.relation, catalog)}",
        span,
        hint="Join the view without one: whoever reads it computes it.",
    )


def inline_reason(view: str, catalog: logical.CatalogReader) -> str:
    """Return why nobody reads a log of a materialized view."""
    letters, readers = keeps_dead_letters(view, catalog), readers_of(view, catalog)
    if letters is not None:
        return f"rows of {_called(letters, catalog)} that fail become dead letters of a sink"
    if is_stateless(view, catalog):
        return "nothing is kept for it"
    return f"only {_called(readers[0], catalog)} reads it" if len(readers) == 1 else _LATER


def _called(name: str, catalog: logical.CatalogReader) -> str:
    entry = catalog.entry(name)
    assert entry is not None
    return f"{entry.kind.lower()} {short_name(name)}"


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
