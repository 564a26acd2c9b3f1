"""A sink whose rows come about in another way from now on → the plans that its table was written by before.

Its job follows these plans: whoever runs it finds one of them in the table's marker, and continues from there.
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


def facts_of_follower(
    facts: logical.Facts, before: physical.Job, after: physical.Job, change: Evolution | None = None
) -> logical.Facts:
    """Return a sink's facts with the plan it had `before` as its last earlier one; the same ones if the plan stays."""
    if before.plan == after.plan:
        return facts
    return {**facts, "plans": msgspec.json.decode(msgspec.json.encode(earlier_plans(before, change or Evolution())))}


def earlier_plans(before: physical.Job, change: Evolution) -> tuple[physical.Earlier, ...]:
    """Return the plans that a sink's job follows which comes of the job `before` by a change."""
    earlier = [_since(each, change) for each in before.follows if each.plan != before.plan]
    again = change.again is not None
    return (*earlier, physical.Earlier(before.plan, dict(change.renamed), change.unread, again))


def _since(earlier: physical.Earlier, change: Evolution) -> physical.Earlier:
    """Return what has changed since an earlier plan, with one change more."""
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
    """Return new facts for the sinks of changed items whose work is another one `after`.

    Raises SQ2985 for a sink that must start over, unless it is one of `moved`: they read something else afterwards.
    """
    changes = {}
    for name in sinks_of(changed, after):
        old, new = lower(name, catalog.plans), lower(name, after)
        if old.plan == new.plan:
            continue
        entry = after.entry(name)
        assert entry is not None
        try:
            change = _moving(old, new, catalog) if name in moved else migration(old, new, _folder(catalog))
            check_shared_columns(name, after, change, moved=moved)
        except InPlaceError as error:
            raise must_start_over(name, after, error, span) from None
        changes[name] = (entry.statement, facts_of_follower(entry.facts, old, new, change))
    return changes


def _moving(old: physical.Job, new: physical.Job, catalog: Catalog) -> Evolution:
    """Return how the table of a sink changes that reads something else in a moment: that is judged then."""
    if new.write.mode != "upsert":
        return Evolution()
    try:
        return migration(old, new, _folder(catalog))
    except InPlaceError as error:
        return Evolution(again=str(error))


def _folder(catalog: Catalog) -> Path:
    return catalog.database.folder


def stored_plan(changed: Iterable[str], before: MemoryCatalog, after: MemoryCatalog) -> Check:
    """Return what raises SQ5210 where a change gives sinks of changed items other plans than here, or they had others.

    What they follow was found out of these: a transaction that is repeated must not go by it in another catalog.
    """
    names = tuple(changed)
    found = _plans(names, before, after)

    def check(before: MemoryCatalog, after: MemoryCatalog) -> None:
        for name, plans in _plans(names, before, after).items():
            if found.get(name) != plans:
                raise conflict(f'what sink "{short_name(name, after)}" reads was changed')

    return check


def _plans(
    changed: Iterable[str], before: MemoryCatalog, after: MemoryCatalog
) -> dict[str, tuple[str | None, str | None]]:
    """Return the plans before and after of changed sinks and of those that read a changed item."""
    own = {name for name in changed if (entry := after.entry(name)) is not None and entry.kind == "SINK"}
    return {name: (_plan(name, before), _plan(name, after)) for name in sorted({*own, *sinks_of(changed, after)})}


def _plan(sink: str, plans: MemoryCatalog) -> str | None:
    return lower(sink, plans).plan if plans.entry(sink) is not None else None


def must_start_over(sink: str, after: MemoryCatalog, why: InPlaceError, span: Span) -> SinkqlError:
    """Return the error for a sink that cannot go on in its table."""
    return SinkqlError(
        "SQ2985",
        f'sink "{short_name(sink, after)}" does not support this change: {why}',
        span,
        hint="Create another view, and another sink of it into a new table.",
    )


def migration(old: physical.Job, new: physical.Job, folder: Path, *, same: bool = False) -> Evolution:
    """Return how a sink's table becomes that of another job: in place, or with all of its rows computed again.

    Raises InPlaceError where neither goes. With `same`, all columns that are there must mean the same in place.
    """
    try:
        return in_place(old, new, folder, same=same)
    except InPlaceError as error:
        found = anew(old, new, str(error))
        if new.write.options.get("existing_rows") == "keep":
            raise InPlaceError(f"{error}, and rows of others are in its table (EXISTING ROWS = KEEP)") from None
        return found


def in_place(old: physical.Job, new: physical.Job, folder: Path, *, same: bool = False) -> Evolution:
    """Return how a sink's table becomes that of another job; raises InPlaceError where it must start over.

    With `same`, all columns that are there must mean the same.
    """
    change = evolution(old, new, same=same)
    if new.write.mode == "upsert" or new.write.change == "retract":
        _check_reread(old, new)
    had = {read.source: {column.name for column in read.columns} for read in old.reads()}
    reads = {read.source: read for read in new.reads()}
    for source, column in change.unread:
        read = reads[source]
        if read.connector != TABLE or (column in had.get(source, ()) and not _unused(read, column, folder)):
            raise InPlaceError(f'rows of "{short_name(read.name)}" that were read may have a value in "{column}"')
    return change


def _check_reread(old: physical.Job, new: physical.Job) -> None:
    """Raise InPlaceError for a source other than a table that would read old rows with other values by wider types."""
    had = {(read.source, column.name): column.type for read in old.reads() for column in read.columns}
    for read in new.reads():
        for column in read.columns:
            if read.connector != TABLE and had.get((read.source, column.name), column.type) != column.type:
                name = short_name(read.name)
                raise InPlaceError(f'rows of "{name}" that were read may be others with "{column.name}" {column.type}')


def _unused(read: physical.Read, column: str, folder: Path) -> bool:
    """Tell whether no row of a table ever had a value in a column, or in one behind it."""
    names = [each.name for each in read.columns]
    file = TableFile(table_path(folder, read.options["table_id"], read.name), Codec([]))
    return file.width() <= names.index(column)


def sinks_of(changed: Iterable[str], after: MemoryCatalog) -> Iterator[str]:
    """Yield the sinks that read one of some items, through views or not."""
    names = {name for each in changed for name in after.all_users(each)}
    return (name for name in sorted(names) if (entry := after.entry(name)) is not None and entry.kind == "SINK")
