"""Run SUBSCRIBE, which returns the rows of a view and then each committed change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sinkql import logical
from sinkql.catalog.catalog import Catalog
from sinkql.connector_api.types import python_values
from sinkql.connectors.view.log import Entry
from sinkql.errors import Notice, SinkqlError
from sinkql.logical.type import BIGINT, BOOLEAN
from sinkql.machine import clock
from sinkql.machine.randomness import new_id
from sinkql.planner.name import short_name, sql_name
from sinkql.session.result import Result, Workspace
from sinkql.session.row.view_contents import ViewContents, present_plan, view_contents
from sinkql.statement.operation import FollowRelation, SubscribeOptions

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[Any, ...]
_POLL_SECONDS, _PIN_SECONDS = 0.05, 60.0


def subscribe(operation: FollowRelation, workspace: Workspace) -> Result:
    """Return a result whose `stream` follows a view. Raise SQ2963 for a relation that stores no changes."""
    catalog, entry, options = workspace.catalog, operation.entry, operation.options
    contents = view_contents(entry.name, catalog)
    if contents is None:
        name, kind = short_name(entry.name, catalog.plans), entry.kind.lower()
        raise SinkqlError(
            "SQ2963",
            f'{kind} "{name}" stores no changes to subscribe to',
            operation.relation.span,
            hint=_hint(entry, catalog),
        )
    progress_columns = ("mz_progressed",) if options.progress else ()
    types = (
        BIGINT,
        *([BOOLEAN] if options.progress else []),
        BIGINT,
        *(column.type for column in contents.view.shape.columns),
    )
    columns = ("mz_timestamp", *progress_columns, "mz_diff", *(column.name for column in contents.view.shape.columns))
    control = catalog.control
    subscription = _Subscription(
        contents, present_plan(contents, catalog), options, lambda: control.desired(contents.id) != "dropped"
    )
    notices = () if control.is_held(contents.id) else (_not_running_notice(contents, catalog),)
    return Result("SUBSCRIBE", notices, columns=columns, types=types, stream=subscription.rows())


def _not_running_notice(contents: ViewContents, catalog: Catalog) -> Notice:
    name = short_name(contents.view.name, catalog.plans)
    return Notice("SQ2656", f'materialized view "{name}" is not running', hint="Run sinkql up to receive its changes.")


def _hint(entry: logical.Entry, catalog: Catalog) -> str:
    """Return the hint for a view that stores the changes of an item."""
    name = sql_name(entry.name, catalog.plans)
    if entry.kind == "MATERIALIZED VIEW":
        return f"Run ALTER MATERIALIZED VIEW {name} SET (COMMIT INTERVAL = '1s'), and subscribe again."
    view = sql_name(f"{entry.name}_changes", catalog.plans)
    return (
        f"Run CREATE MATERIALIZED VIEW {view} WITH (COMMIT INTERVAL = '1s') AS SELECT * FROM {name}, "
        "and subscribe to the new view."
    )


@dataclass(frozen=True, slots=True)
class _Subscription:
    """A subscription to a view with one plan. Times are commit times in milliseconds since 1970."""

    contents: ViewContents
    plan: str
    options: SubscribeOptions
    is_present: Callable[[], bool]
    """Return whether the view still is a job."""

    def rows(self) -> Iterator[Row]:
        """Yield rows as they arrive. Raise SQ2657 if the view is dropped or has other columns."""
        log, reader = self.contents.log, f"subscribe-{new_id()}"
        try:
            number, entry = self._wait_for_first(reader)
            if self.options.progress:
                yield self._progress(entry.at)
            if self.options.snapshot:
                for table in self.contents.rows(entry):
                    yield from self._changes(entry, table)
            if self.options.progress:
                yield self._progress(entry.at + 1)
            pinned_at = clock.monotonic()
            while last := log.last():
                before = number
                while number < last:
                    number += 1
                    followed = self._check_columns(log.entry(number))
                    for table in self.contents.changes(followed):
                        yield from self._changes(followed, table)
                    if self.options.progress:
                        yield self._progress(followed.at + 1)
                if number > before or clock.monotonic() > pinned_at + _PIN_SECONDS:
                    log.set_position(reader, number, passing=True)
                    pinned_at = clock.monotonic()
                if last == log.last():
                    clock.sleep(_POLL_SECONDS)
            raise self._ended_error("was dropped")
        except FileNotFoundError:  # a drop deletes the runs
            raise self._ended_error("was dropped") from None
        finally:
            log.positions.forget(reader)

    def _check_columns(self, entry: Entry | None) -> Entry:
        """Return an entry, which must exist and have the columns of the subscription."""
        if entry is None:
            is_dropped = not self.contents.log.last()
            raise self._ended_error("was dropped" if is_dropped else "no longer has the next changes")
        columns = tuple((column.name, str(column.type)) for column in self.contents.columns)
        if entry.runs and entry.columns != columns:
            raise self._ended_error("has other columns now")
        return entry

    def _ended_error(self, reason: str) -> SinkqlError:
        message = f'materialized view "{short_name(self.contents.view.name)}" {reason}'
        return SinkqlError("SQ2657", message, hint="Subscribe again.")

    def _wait_for_first(self, reader: str) -> tuple[int, Entry]:
        """Wait until the view has run, and pin its newest entry."""
        while self.is_present():
            newest = self.contents.ready(self.plan)
            if newest is not None:
                self.contents.log.set_position(reader, newest[0], passing=True)
                if self.contents.log.entry(newest[0]) is not None:
                    return newest
            clock.sleep(_POLL_SECONDS)
        raise self._ended_error("was dropped")

    def _changes(self, entry: Entry, table: pa.Table) -> Iterator[Row]:
        *columns, diffs = map(python_values, table.columns)
        progressed = (False,) if self.options.progress else ()
        for diff, *values in zip(diffs, *columns, strict=True):
            yield (entry.at, *progressed, diff, *values)

    def _progress(self, at: int) -> Row:
        return (at, True, None, *(None for _ in self.contents.columns))
