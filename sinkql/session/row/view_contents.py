"""Read the rows and changes of materialized view jobs from their logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sinkql import logical, physical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.overlay import OverlayCatalog
from sinkql.connectors.view.log import Entry, ViewLog, expired_log_error, view_log
from sinkql.errors import Notice
from sinkql.lowering.job import lower
from sinkql.lowering.materialized_view import inputs_of, view_id, view_reads
from sinkql.machine.randomness import new_id
from sinkql.planner.name import short_name
from sinkql.session.item.connector_access import CatalogAccess

if TYPE_CHECKING:
    import pyarrow as pa


_TIME_FORMAT = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True, slots=True)
class ViewContents:
    """The log of a view. Its newest entry has the present rows if the entry has the present plan."""

    view: logical.View
    log: ViewLog
    id: str

    @property
    def columns(self) -> tuple[physical.Column, ...]:
        """Return the view's columns."""
        return tuple(physical.Column(column.name, column.type, column.nullable) for column in self.view.shape.columns)

    def ready(self, plan: str) -> tuple[int, Entry] | None:
        """Return the newest entry with its number, None if it has another plan."""
        newest = self.log.newest()
        return newest if newest is not None and newest[1].marker.plan == plan else None

    @contextmanager
    def pinned(self, plan: str) -> Iterator[tuple[int, Entry, str] | None]:
        """Pin the newest entry for the block. Yield its number, the entry and the reader's name; None without one."""
        reader = f"query-{new_id()}"
        try:
            while (newest := self.ready(plan)) is not None:
                self.log.set_position(reader, newest[0], passing=True)
                if self.log.entry(newest[0]) is not None:
                    yield (*newest, reader)
                    return
            yield None
        finally:
            self.log.positions.forget(reader)

    def rows(self, entry: Entry) -> Iterator[pa.Table]:
        """Yield the rows at an entry with `$diff`, in small batches."""
        from sinkql.connectors.view.rows import (  # loads numpy and pyarrow
            check_present,
            consolidate,
            consolidated_parts,
            in_batches,
            read_runs,
            schema_of,
        )

        schema = schema_of(self.columns)
        for runs in entry.contents.values():
            self.log.fetch_runs(runs)
            changes = read_runs(self.log.stored_runs(runs), schema)
            for part in consolidated_parts(in_batches(changes), schema, self.log.spill):
                yield from in_batches(check_present(consolidate(part), self.view.name))

    def changes(self, entry: Entry) -> Iterator[pa.Table]:
        """Yield the changes of an entry with `$diff`, in small batches."""
        from sinkql.connectors.view.rows import in_batches, read_runs, schema_of  # loads pyarrow

        self.log.fetch_runs(entry.runs)
        for run in entry.runs:
            yield from in_batches(read_runs(self.log.stored_runs([run]), schema_of(self.columns)))


def view_contents(name: str, catalog: Catalog) -> ViewContents | None:
    """Return the contents of a materialized view job; None for other items."""
    item = catalog.plans.item(name)
    id_ = view_id(name, catalog.plans)
    if not isinstance(item, logical.View) or id_ is None:
        return None
    state, access = lower(name, catalog.plans).state, CatalogAccess(catalog)
    return ViewContents(item, view_log(id_, catalog.database.folder, state, access.job_store), id_)


@dataclass(frozen=True, slots=True)
class ViewSnapshot:
    """The view contents and log entries that a query reads, by the full names of the views."""

    views: Mapping[str, tuple[ViewContents, Entry]]

    def tables(self, name: str) -> Iterator[pa.Table]:
        """Yield a view's rows in small batches. The first one is empty and has the schema."""
        from sinkql.connectors.view.rows import expand, schema_of  # loads pyarrow

        contents, entry = self.views[name]
        yield expand(schema_of(contents.columns).empty_table())
        try:
            yield from map(expand, contents.rows(entry))
        except FileNotFoundError:
            raise expired_log_error(name, hint="Run the query again.") from None

    def notices(self) -> list[Notice]:
        """Return a notice with the time of each view's rows."""
        return [
            Notice("SQ2649", f'the rows of materialized view "{short_name(name)}" are from {common_time(entry)} UTC')
            for name, (_, entry) in self.views.items()
        ]


@contextmanager
def snapshot_of_views(relation: logical.Relation, catalog: Catalog) -> Iterator[ViewSnapshot]:
    """Pin the contents of the views that a query reads for the block. Views without contents are computed."""
    views: dict[str, tuple[ViewContents, Entry]] = {}
    with ExitStack() as stack:
        waiting, seen = list(view_reads(relation)), set[str]()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            contents = view_contents(name, catalog)
            pinned = None
            if contents is not None:
                pinned = stack.enter_context(contents.pinned(present_plan(contents, catalog)))
            if contents is not None and pinned is not None:
                views[name] = (contents, pinned[1])
            else:
                waiting += inputs_of(name, catalog.plans)
        yield ViewSnapshot(views)


def present_plan(contents: ViewContents, catalog: Catalog) -> str:
    """Return the present plan of a view's job."""
    return lower(contents.view.name, catalog.plans).plan


def common_time(entry: Entry) -> str:
    """Return the time of an entry as text."""
    return datetime.fromtimestamp(entry.at / 1000, UTC).strftime(_TIME_FORMAT)


class WithContents(OverlayCatalog[logical.CatalogReader]):
    """A `CatalogReader` in which the views of a snapshot are sources, so that queries read their rows."""

    def __init__(self, plans: logical.CatalogReader, snapshot: ViewSnapshot) -> None:
        super().__init__(plans)
        self._items = {name: _as_source(contents.view) for name, (contents, _) in snapshot.views.items()}

    def overlaid(self, full_name: str) -> logical.Item | None:
        return self._items.get(full_name)


def _as_source(view: logical.View) -> logical.Source:
    return logical.Source(view.name, physical.VIEW, {}, view.shape)
