"""Materialized views that are jobs of their own → their rows, and their changes, without computing them once more."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sinkql import logical, physical
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.overlay import OverlayCatalog
from sinkql.connectors.view.log import Entry, ViewLog, kept_log, log_expired
from sinkql.errors import Notice
from sinkql.lowering.job import lower
from sinkql.lowering.materialized_view import inputs_of, view_id, view_reads
from sinkql.planner.name import short_name
from sinkql.session.item.connector_access import CatalogAccess

if TYPE_CHECKING:
    import pyarrow as pa


_MOMENT = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True, slots=True)
class ViewContents:
    """A view's log, whose newest entry has the rows of the view as it is defined now."""

    view: logical.View
    log: ViewLog
    id: str

    @property
    def columns(self) -> tuple[physical.Column, ...]:
        """Return the view's columns."""
        return tuple(physical.Column(each.name, str(each.type), each.nullable) for each in self.view.shape.columns)

    def ready(self, plan: str) -> tuple[int, Entry] | None:
        """Return the newest entry, if it is of a plan."""
        newest = self.log.newest()
        return newest if newest is not None and newest[1].marker.plan == plan else None

    @contextmanager
    def pinned(self, plan: str) -> Iterator[tuple[int, Entry, str] | None]:
        """Have the newest entry kept for the block, which gets its number and the reader's name; None without one."""
        reader = f"query-{uuid.uuid4().hex}"
        try:
            while (newest := self.ready(plan)) is not None:
                self.log.pin(reader, newest[0], passing=True)
                if self.log.entry(newest[0]) is not None:
                    yield (*newest, reader)
                    return
            yield None
        finally:
            self.log.pins.forget(reader)

    def rows(self, entry: Entry) -> Iterator[pa.Table]:
        """Yield the rows at an entry with `$diff`, not many at once."""
        from sinkql.connectors.view.rows import (
            check_present,
            consolidate,
            consolidated_parts,
            in_batches,
            read_runs,
            schema_of,
        )

        schema = schema_of(self.columns)
        for kept in entry.contents.values():
            self.log.bring(kept)
            changes = read_runs(self.log.stored(kept), schema)
            for part in consolidated_parts(in_batches(changes), schema, self.log.spill):
                yield from in_batches(check_present(consolidate(part), self.view.name))

    def changes(self, entry: Entry) -> Iterator[pa.Table]:
        """Yield the changes of an entry with `$diff`, not many at once."""
        from sinkql.connectors.view.rows import in_batches, read_runs, schema_of

        self.log.bring(entry.runs)
        for run in entry.runs:
            yield from in_batches(read_runs(self.log.stored([run]), schema_of(self.columns)))


def view_contents(name: str, catalog: Catalog) -> ViewContents | None:
    """Return the log of a view of the catalog; None of what is no view, or has none."""
    item = catalog.plans.item(name)
    known = view_id(name, catalog.plans)
    if not isinstance(item, logical.View) or known is None:
        return None
    state, access = lower(name, catalog.plans).state, CatalogAccess(catalog)
    return ViewContents(item, kept_log(known, catalog.database.folder, state, access.job_store), known)


@dataclass(frozen=True, slots=True)
class ViewSnapshot:
    """The views that a query reads by their contents: by full name the log, and the entry."""

    views: Mapping[str, tuple[ViewContents, Entry]]

    def tables(self, name: str) -> Iterator[pa.Table]:
        """Yield a view's rows, not many at once; one at least, which may be empty."""
        from sinkql.connectors.view.rows import expand, schema_of

        kept, entry = self.views[name]
        yield expand(schema_of(kept.columns).empty_table())
        try:
            yield from map(expand, kept.rows(entry))
        except FileNotFoundError:
            raise log_expired(name, hint="Run the query again.") from None

    def notices(self) -> list[Notice]:
        """Say of when the rows are."""
        return [
            Notice(
                "SQ2649", f'the rows of materialized view "{short_name(name)}" are those of {common_time(entry)} UTC'
            )
            for name, (_, entry) in self.views.items()
        ]


@contextmanager
def at_one_moment(relation: logical.Relation, catalog: Catalog) -> Iterator[ViewSnapshot]:
    """Have the contents of the views that a query reads kept for the block; those that have not run are computed."""
    found: dict[str, tuple[ViewContents, Entry]] = {}
    with ExitStack() as stack:
        waiting, seen = list(view_reads(relation)), set[str]()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            kept = view_contents(name, catalog)
            pinned = stack.enter_context(kept.pinned(plan_now(kept, catalog))) if kept is not None else None
            if kept is not None and pinned is not None:
                found[name] = (kept, pinned[1])
            else:
                waiting += inputs_of(name, catalog.plans)
        yield ViewSnapshot(found)


def plan_now(kept: ViewContents, catalog: Catalog) -> str:
    """Return the plan of a view's job as the catalog has it."""
    return lower(kept.view.name, catalog.plans).plan


def common_time(entry: Entry) -> str:
    """Return when an entry was made, for people."""
    return datetime.fromtimestamp(entry.at / 1000, UTC).strftime(_MOMENT)


class WithContents(OverlayCatalog[logical.CatalogReader]):
    """A catalog in which the views `shown` are read, and not computed; a `CatalogReader`."""

    def __init__(self, plans: logical.CatalogReader, shown: ViewSnapshot) -> None:
        super().__init__(plans)
        self._items = {name: _as_source(kept.view) for name, (kept, _) in shown.views.items()}

    def overlaid(self, full_name: str) -> logical.Item | None:
        return self._items.get(full_name)


def _as_source(view: logical.View) -> logical.Source:
    return logical.Source(view.name, physical.VIEW, {}, view.shape)
