"""Record the earlier plans of a sink whose job changes, so that it can continue in its table.

The job lists these plans. When the sink starts, it finds one of them in its checkpoint and continues from there.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from pathlib import Path

import msgspec

from sinkql import logical, physical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.operation import Check, conflict
from sinkql.catalog.replan import Definitions
from sinkql.errors import SinkqlError, Span
from sinkql.lowering.job import lower
from sinkql.physical.evolution import Evolution, InPlaceError, anew, evolution
from sinkql.planner.item.table import KIND as TABLE
from sinkql.planner.name import short_name
from sinkql.session.item.destination import check_shared_columns
from sinkql.table.file import TableFile, table_path
from sinkql.table.row import Codec


def facts_with_history(
    facts: logical.Facts, before: physical.Job, after: physical.Job, change: Evolution | None = None
) -> logical.Facts:
    """Return a sink's facts with the plan of `before` as the latest earlier plan. An equal plan adds nothing."""
    if before.plan == after.plan:
        return facts
    return {**facts, "plans": msgspec.json.decode(msgspec.json.encode(earlier_plans(before, change or Evolution())))}


def earlier_plans(before: physical.Job, change: Evolution) -> tuple[physical.Earlier, ...]:
    """Return the earlier plans of a job that results from the job `before` by a change."""
    earlier = [_extend_earlier(plan, change) for plan in before.follows if plan.plan != before.plan]
    again = change.again is not None
    return (*earlier, physical.Earlier(before.plan, dict(change.renamed), change.unread, again))


def _extend_earlier(earlier: physical.Earlier, change: Evolution) -> physical.Earlier:
    """Return an earlier plan whose recorded changes include one more change."""
    since = {old: None if new is None else change.renamed.get(new, new) for old, new in earlier.renamed.items()}
    unread = tuple(dict.fromkeys((*earlier.unread, *change.unread)))
    again = earlier.again or change.again is not None
    return physical.Earlier(earlier.plan, {**change.renamed, **since}, unread, again)


def dependent_plans(
    changed: Iterable[str],
    catalog: Catalog,
    after: MemoryCatalog,
    span: Span,
    *,
    moved: Container[str] = (),
) -> Definitions:
    """Return new facts for the sinks of changed items whose plan differs `after`.

    Raise SQ2985 if a sink must start over. Sinks in `moved` read another relation next, so they never raise it here.
    """
    changes = {}
    for name in sinks_of(changed, after):
        old, new = lower(name, catalog.plans), lower(name, after)
        if old.plan == new.plan:
            continue
        entry = logical.get_entry(after, name)
        try:
            change = _moved_evolution(old, new, catalog) if name in moved else migration(old, new, _folder(catalog))
            check_shared_columns(name, after, change, moved=moved)
        except InPlaceError as error:
            raise must_start_over_error(name, after, error, span) from None
        changes[name] = (entry.statement, facts_with_history(entry.facts, old, new, change))
    return changes


def _moved_evolution(old: physical.Job, new: physical.Job, catalog: Catalog) -> Evolution:
    """Return the evolution of a sink in `moved`; the change of its relation is checked separately."""
    if new.write.mode != "upsert":
        return Evolution()
    try:
        return migration(old, new, _folder(catalog))
    except InPlaceError as error:
        return Evolution(again=str(error))


def _folder(catalog: Catalog) -> Path:
    return catalog.database.folder


def stored_plan(changed: Iterable[str], before: MemoryCatalog, after: MemoryCatalog) -> Check:
    """Return a check that raises SQ5210 if the sinks' plans before or after the change differ from those here.

    The earlier plans were derived from these plans. A retried transaction must not use them in a changed catalog.
    """
    names = tuple(changed)
    expected = _plans(names, before, after)

    def check(before: MemoryCatalog, after: MemoryCatalog) -> None:
        for name, plans in _plans(names, before, after).items():
            if expected.get(name) != plans:
                raise conflict(f'what sink "{short_name(name, after)}" reads was changed')

    return check


def _plans(
    changed: Iterable[str], before: MemoryCatalog, after: MemoryCatalog
) -> dict[str, tuple[str | None, str | None]]:
    """Return the plans before and after of the changed sinks and of the sinks that read a changed item."""
    sinks = {name for name in changed if (entry := after.entry(name)) is not None and entry.kind == "SINK"}
    return {name: (_plan(name, before), _plan(name, after)) for name in sorted({*sinks, *sinks_of(changed, after)})}


def _plan(sink: str, plans: MemoryCatalog) -> str | None:
    return lower(sink, plans).plan if plans.entry(sink) is not None else None


def must_start_over_error(sink: str, after: MemoryCatalog, why: InPlaceError, span: Span) -> SinkqlError:
    """Return the error for a sink that cannot continue in its table."""
    return SinkqlError(
        "SQ2985",
        f'sink "{short_name(sink, after)}" does not support this change: {why}',
        span,
        hint="Create another view and another sink that writes it to a new table.",
    )


def migration(old: physical.Job, new: physical.Job, folder: Path, *, same: bool = False) -> Evolution:
    """Return how a sink's table changes to fit another job: in place or by a full refresh.

    Raise InPlaceError if neither is possible. With `same`, an in-place change must keep the meaning of all columns.
    """
    try:
        return in_place(old, new, folder, same=same)
    except InPlaceError as error:
        change = anew(old, new, str(error))
        if new.write.options.get("existing_rows") == "keep":
            raise InPlaceError(
                f"{error}, and its table has rows that it did not write (EXISTING ROWS = KEEP)"
            ) from None
        return change


def in_place(old: physical.Job, new: physical.Job, folder: Path, *, same: bool = False) -> Evolution:
    """Return how a sink's table changes in place to fit another job. Raise InPlaceError if it cannot.

    With `same`, all existing columns must keep their meaning.
    """
    change = evolution(old, new, same=same)
    if new.write.mode == "upsert" or new.write.change == "retract":
        _check_reread(old, new)
    old_columns = {read.source: {column.name for column in read.columns} for read in old.reads()}
    reads = {read.source: read for read in new.reads()}
    for source, column in change.unread:
        read = reads[source]
        if read.connector != TABLE or (column in old_columns.get(source, ()) and not _is_unused(read, column, folder)):
            raise InPlaceError(f'rows of "{short_name(read.name)}" that it has read may have a value in "{column}"')
    return change


def _check_reread(old: physical.Job, new: physical.Job) -> None:
    """Raise InPlaceError if a wider type could change values of rows that a sink has read from a source."""
    old_types = {(read.source, column.name): column.type for read in old.reads() for column in read.columns}
    for read in new.reads():
        for column in read.columns:
            if read.connector != TABLE and old_types.get((read.source, column.name), column.type) != column.type:
                name = short_name(read.name)
                raise InPlaceError(f'rows of "{name}" that it has read may differ with "{column.name}" {column.type}')


def _is_unused(read: physical.Read, column: str, folder: Path) -> bool:
    """Return whether no row of a table ever had a value in a column or in a later one."""
    names = [attribute.name for attribute in read.columns]
    file = TableFile(table_path(folder, read.options["table_id"], read.name), Codec([]))
    return file.width() <= names.index(column)


def sinks_of(changed: Iterable[str], after: MemoryCatalog) -> Iterator[str]:
    """Yield the sinks that read one of the items directly or through views."""
    names = {name for item in changed for name in after.all_users(item)}
    return (name for name in sorted(names) if (entry := after.entry(name)) is not None and entry.kind == "SINK")
