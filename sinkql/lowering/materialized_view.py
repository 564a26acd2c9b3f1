"""Decide which materialized views are jobs, and which ones a job reads from their logs or inlines.

`decide_job` has the rule that makes a view a job. A view has a job if its facts have a view id. Its readers then read
its log, at the same tick as their other inputs, so that a row is the batch result for one state of the sources below. A
view is inlined if it shares a source with another input, and the source cannot be read up to a tick.

Also decides which inputs of a job are read at ticks: those whose sources other materialized view jobs read as well. Two
views of one source are separate jobs, whose batches end at the same ticks. A job that reads both, or one of them and
the source, reads them at one state of the source. Jobs that share no source need no ticks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from itertools import islice

from sinkql import ast, logical
from sinkql.connector_api.source_options import on_error
from sinkql.errors import SinkqlError, Span
from sinkql.planner.item.view import has_own_job
from sinkql.planner.name import short_name

VIEW_ID, IN_LINE = "view_id", "in_line"
"""Facts: under which id a view is a job; the ids of views that a sink keeps inlined."""
USUAL_INTERVAL = timedelta(seconds=10)
CLOCK = "$clock"


def view_id(name: str, catalog: logical.CatalogReader) -> str | None:
    """Return the id of a materialized view's job, None for other items."""
    entry = catalog.entry(name)
    fact = entry.facts.get(VIEW_ID) if entry is not None and entry.kind == "MATERIALIZED VIEW" else None
    return str(fact) if fact is not None else None


def get_view_id(name: str, catalog: logical.CatalogReader) -> str:
    """Return the id of a materialized view's job; raise LookupError for other items."""
    id_ = view_id(name, catalog)
    if id_ is None:
        raise LookupError(name)
    return id_


def view_jobs(catalog: logical.CatalogReader) -> tuple[str, ...]:
    """Return the full names of the materialized views that have a job."""
    return tuple(name for name in catalog.names("MATERIALIZED VIEW") if view_id(name, catalog) is not None)


def inputs_of(name: str, catalog: logical.CatalogReader) -> tuple[str, ...]:
    """Return the items that a sink or a view reads directly."""
    item = catalog.item(name)
    match item:
        case logical.Sink():
            return (item.relation,)
        case logical.View():
            return view_reads(item.relation)
        case _:
            return ()


def view_reads(relation: logical.Relation) -> tuple[str, ...]:
    """Return the distinct items that a relation reads."""
    items: dict[str, None] = {}
    for node in _relations(relation):
        if isinstance(node, logical.Get) and node.item != logical.ONE.item:
            items.setdefault(node.item)
    return tuple(items)


def _relations(relation: logical.Relation) -> Iterable[logical.Relation]:
    yield relation
    for below in logical.inputs_of(relation):
        yield from _relations(below)


@dataclass(frozen=True)
class ViewLogs:
    """The logs that a job with the relations `names` reads, without views whose ids are in `apart`.

    A job that does not read the `whole` of its inputs, from their start, starts at no tick.
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
        return self._logs_and_inlined[0]

    @cached_property
    def in_line(self) -> dict[str, str]:
        """Return the views with a log that the job inlines, with the shared source that is the reason."""
        return self._logs_and_inlined[1]

    @cached_property
    def inputs(self) -> dict[str, frozenset[str]]:
        """Return the inputs that the job reads directly, with the sources below each."""
        return self._leaves(self.in_line)

    @cached_property
    def _logs_and_inlined(self) -> tuple[frozenset[str], dict[str, str]]:
        inside: dict[str, str] = {}
        while True:
            leaves = self._leaves(inside)
            shared = {
                name: min(common)
                for name, sources in leaves.items()
                if view_id(name, self.catalog) is not None
                and (
                    common := {
                        source for other, others in leaves.items() if other != name for source in sources & others
                    }
                )
                and (
                    common := {source for source in common if not (self.whole and reads_at_ticks(source, self.catalog))}
                )
            }
            if not shared:
                logs = frozenset(name for name in leaves if view_id(name, self.catalog) is not None)
                return logs, inside
            inside |= shared

    def _leaves(self, inside: Collection[str]) -> dict[str, frozenset[str]]:
        """Return the inputs of the job, with the sources below each."""
        leaves: dict[str, frozenset[str]] = {CLOCK: frozenset({CLOCK})} if self.timed else {}
        waiting = list(self.names)
        while waiting:
            name = waiting.pop()
            item = self.catalog.item(name)
            if not isinstance(item, logical.View) or self._reads_log(name, inside):
                leaves[name] = self.sources(name)
            else:
                if _timed(item.relation):
                    leaves[CLOCK] = frozenset({CLOCK})
                waiting += view_reads(item.relation)
        return leaves

    def _reads_log(self, name: str, inside: Collection[str]) -> bool:
        id_ = view_id(name, self.catalog)
        if id_ is None or id_ in self.apart or name in inside:
            return False
        return loggable(name, self.catalog)

    def sources(self, name: str) -> frozenset[str]:
        """Return all sources below an item, and the clock."""
        if name not in self._sources:
            item = self.catalog.item(name)
            if not isinstance(item, logical.View):
                return frozenset({name})
            clock = frozenset({CLOCK} if _timed(item.relation) else ())
            self._sources[name] = clock.union(*(self.sources(read) for read in view_reads(item.relation)))
        return self._sources[name]


def logs_of(name: str, catalog: logical.CatalogReader) -> ViewLogs:
    """Return the logs that a sink or a view of the catalog reads."""
    entry, item = catalog.entry(name), catalog.item(name)
    facts = entry.facts if entry is not None else {}
    timed = isinstance(item, logical.View) and _timed(item.relation)
    whole = not isinstance(item, logical.Sink) or item.snapshot
    return ViewLogs(catalog, inputs_of(name, catalog), facts.get(IN_LINE, ()), timed, whole)


def reads_at_ticks(source: str, catalog: logical.CatalogReader) -> bool:
    """Return whether a source can be read up to a tick: its positions mean the same to all jobs."""
    if source == CLOCK:
        return True
    item = catalog.item(source)
    return isinstance(item, logical.Source) and item.common


def _timed(relation: logical.Relation) -> bool:
    return any(isinstance(relation, logical.Bound) for relation in _relations(relation))


@dataclass(frozen=True, slots=True)
class JobDecision:
    """Whether a job computes a materialized view for all readers or each reader inlines it, and the reason."""

    is_job: bool
    reason: str


def decide_job(name: str, catalog: logical.CatalogReader, *, new_reader: bool = False) -> JobDecision:
    """Decide whether a materialized view is a job. The first rule that applies decides:

    1. It is a job if its options ask for one: COMMIT INTERVAL, RETAIN HISTORY.
    2. It is inlined if it cannot have a log: see `loggable`.
    3. It is a job if it has an index.
    4. It stays a job if it has become one, even if its readers are dropped.
    5. It is inlined if it keeps no state, because computing it again costs less than a log.
    6. It becomes a job when a second sink or view job is created that reads it (`new_reader`).
    7. Otherwise it is inlined.
    """
    entry = catalog.entry(name)
    if entry is not None and isinstance(entry.statement, ast.CreateView) and has_own_job(entry.statement):
        return JobDecision(True, "its options ask for one")
    obstacle = _log_obstacle(name, catalog)
    if obstacle is not None:
        return JobDecision(False, obstacle)
    dependents = (catalog.entry(dependent) for dependent in catalog.dependents(name))
    if any(dependent is not None and dependent.kind == "INDEX" for dependent in dependents):
        return JobDecision(True, "an index on it needs one")
    if view_id(name, catalog) is not None:
        return JobDecision(True, "it became one for a second reader or an index, and stays one")
    if is_stateless(name, catalog):
        return JobDecision(False, _STATELESS)
    readers = readers_of(name, catalog)
    if new_reader and readers:
        return JobDecision(True, "several jobs read it")
    if len(readers) > 1:
        return JobDecision(False, "it becomes a job with its next sink")
    return JobDecision(False, f"only {_item_text(readers[0], catalog)} reads it" if readers else "no job reads it yet")


_STATELESS = "it keeps no state"


def loggable(name: str, catalog: logical.CatalogReader) -> bool:
    """Return whether a view can have a log: not if the order of its rows counts, or if it has dead letters."""
    return _log_obstacle(name, catalog) is None


def _log_obstacle(name: str, catalog: logical.CatalogReader) -> str | None:
    """Return why a view cannot have a log."""
    item = logical.get_item(catalog, name, logical.View)
    if item.shape.change is logical.Change.APPEND and is_stateless(name, catalog):
        return _STATELESS
    source = keeps_dead_letters(name, catalog)
    return (
        None if source is None else f"failed records of {_item_text(source, catalog)} become dead letters of one sink"
    )


def keeps_dead_letters(name: str, catalog: logical.CatalogReader) -> str | None:
    """Return a source below a view whose failed rows become dead letters, None if all have other modes."""
    for source_name in sorted(ViewLogs(catalog, ()).sources(name) - {CLOCK}):
        source = catalog.item(source_name)
        if isinstance(source, logical.Source) and on_error(source.options) == "dead letter":
            return source_name
    return None


def is_stateless(name: str, catalog: logical.CatalogReader) -> bool:
    """Return whether a relation needs no state: it filters, projects and combines rows of sources."""
    item = catalog.item(name)
    if not isinstance(item, logical.View):
        return True
    alone = (logical.Get, logical.Project, logical.Filter, logical.Union)
    return all(isinstance(relation, alone) for relation in _relations(item.relation)) and all(
        is_stateless(read, catalog) for read in view_reads(item.relation)
    )


def readers_of(name: str, catalog: logical.CatalogReader) -> list[str]:
    """Return the sinks and materialized view jobs that compute a view or read its log."""
    return list(each_reader(name, catalog))


def each_reader(name: str, catalog: logical.CatalogReader) -> Iterator[str]:
    """Yield the readers one by one: a source may have many."""
    waiting, seen = [name], {name}
    while waiting:
        for dependent in catalog.dependents(waiting.pop()):
            if dependent in seen:
                continue
            seen.add(dependent)
            item = catalog.item(dependent)
            if isinstance(item, logical.Sink) or view_id(dependent, catalog) is not None:
                yield dependent
            elif isinstance(item, logical.View):
                waiting.append(dependent)


def sinks_above(name: str, catalog: logical.CatalogReader) -> list[logical.Sink]:
    """Return the sinks that depend on a view, directly or through other views."""
    sinks, waiting, seen = [], [name], {name}
    while waiting:
        for dependent in catalog.dependents(waiting.pop()):
            if dependent in seen:
                continue
            seen.add(dependent)
            waiting.append(dependent)
            item = catalog.item(dependent)
            if isinstance(item, logical.Sink):
                sinks.append(item)
    return sinks


def interval_of(view: logical.View, catalog: logical.CatalogReader) -> timedelta:
    """Return the commit interval of a view's job: its option, else the shortest of its sinks, else 10 seconds."""
    if view.commit_interval is not None:
        return view.commit_interval
    return min((sink.commit_interval for sink in sinks_above(view.name, catalog)), default=USUAL_INTERVAL)


def inlined_views(name: str, catalog: logical.CatalogReader) -> list[str]:
    """Return lines on the materialized views that the job of a sink or a view computes itself, and why."""
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
            lines.append(f"computes materialized view {short_name(view)}: {_inline_text(view, kind, logs)}")
    return lines


def _inline_text(view: str, kind: str, logs: ViewLogs) -> str:
    catalog = logs.catalog
    obstacle = _log_obstacle(view, catalog)
    if obstacle is not None:
        return obstacle
    if view_id(view, catalog) is None:
        return decide_job(view, catalog).reason
    if (common := logs.in_line.get(view)) is not None:
        what = _item_text(common, catalog)
        return f"{what} is also below another input of this {kind}, and the view's log would be at another position"
    return f"this {kind} had already started when the view became a job"


def check_index(index: logical.Index, span: Span, catalog: logical.CatalogReader) -> None:
    """Raise SQ2372 for an index of a view that cannot have a job."""
    obstacle = _log_obstacle(index.relation, catalog)
    if obstacle is not None:
        raise SinkqlError(
            "SQ2372",
            f'materialized view "{short_name(index.relation, catalog)}" cannot have an index: {obstacle}',
            span,
            hint="Join the view without the index. Each reader of the view then computes it.",
        )


def _item_text(name: str, catalog: logical.CatalogReader) -> str:
    entry = logical.get_entry(catalog, name)
    return f"{entry.kind.lower()} {short_name(name)}"


def timeline_of(name: str, catalog: logical.CatalogReader) -> dict[str, tuple[str, ...]]:
    """Return the inputs of a sink or a view that are read at ticks, with the sources below each that are.

    All names are the names in offsets.
    """
    return _timeline(logs_of(name, catalog), catalog, name if view_id(name, catalog) is not None else None)


def timeline_of_sink(logs: ViewLogs, catalog: logical.CatalogReader) -> dict[str, tuple[str, ...]]:
    """Return the inputs read at ticks of a sink that need not be in the catalog, and that reads these logs."""
    return _timeline(logs, catalog, None)


def _timeline(logs: ViewLogs, catalog: logical.CatalogReader, view: str | None) -> dict[str, tuple[str, ...]]:
    """Return the inputs read at ticks of a `view` with a job, or of a sink."""
    if view is None and (not logs.read or len(logs.inputs) < 2):
        return {}
    repeated = _repeated_sources(logs)
    below = frozenset().union(*logs.inputs.values())
    shared = {
        source
        for source in below
        if reads_at_ticks(source, catalog) and (source in repeated or _shared(source, catalog, view))
    }
    inputs = {name: sources & shared for name, sources in logs.inputs.items() if sources & shared}
    if view is None and (len(inputs) < 2 or not inputs.keys() & logs.read):
        return {}
    return {
        _offset_name(name, catalog): tuple(sorted(_offset_name(source, catalog) for source in sources))
        for name, sources in sorted(inputs.items())
    }


def _repeated_sources(logs: ViewLogs) -> frozenset[str]:
    """Return the sources that are below several inputs."""
    inputs = list(logs.inputs.values())
    return frozenset(
        source for place, sources in enumerate(inputs) for other in inputs[:place] for source in sources & other
    )


def _shared(source: str, catalog: logical.CatalogReader, view: str | None) -> bool:
    """Return whether several view jobs read a source, or one job reads it through several inputs.

    The clock of a view is shared if a job above reads it through several inputs.
    """
    if source == CLOCK:
        return view is not None and _twice_above(readers_of(view, catalog), source, catalog)
    views = (reader for reader in each_reader(source, catalog) if view_id(reader, catalog) is not None)
    if len(list(islice(views, 2))) > 1:
        return True
    return _twice_above(readers_of(source, catalog), source, catalog)


def _twice_above(readers: list[str], source: str, catalog: logical.CatalogReader) -> bool:
    """Return whether one of these jobs, or a job above them, reads a source through several inputs."""
    waiting, seen = list(readers), set(readers)
    while waiting:
        reader = waiting.pop()
        if source in _repeated_sources(logs_of(reader, catalog)):
            return True
        if view_id(reader, catalog) is not None:
            above = [reader for reader in readers_of(reader, catalog) if reader not in seen]
            seen.update(above)
            waiting += above
    return False


def _offset_name(name: str, catalog: logical.CatalogReader) -> str:
    """Return the name of an input in offsets."""
    entry = catalog.entry(name)
    identity = view_id(name, catalog) or (entry.facts.get("identity") if entry is not None else None)
    return str(identity or name)
