"""SUBSCRIBE → a view's rows, and then its changes as its job commits them, without an end."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sinkql import ast, logical
from sinkql.catalog.catalog import Catalog
from sinkql.connector_api.options import bind, option_field
from sinkql.connector_api.types import python_values
from sinkql.connectors.view.log import Entry
from sinkql.errors import Notice, SinkqlError, Span
from sinkql.logical.type import BIGINT, BOOLEAN
from sinkql.planner.name import RELATION_KINDS, find, short_name, sql_name
from sinkql.session.result import Result, Workspace
from sinkql.session.row.view_contents import ViewContents, plan_now, view_contents

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[Any, ...]
_LOOK_SECONDS, _PIN_SECONDS = 0.05, 60.0


@dataclass(frozen=True, slots=True)
class SubscribeOptions:
    """The options of SUBSCRIBE."""

    snapshot: bool = option_field("whether to print the present rows first", default=True)
    progress: bool = option_field("whether to print which times are complete", default=False)


def subscribe(statement: ast.Subscribe, workspace: Workspace) -> Result:
    """Return a result whose `stream` follows a view; raises SQ2963 for what cannot be followed."""
    options = bind(statement.options, SubscribeOptions, owner="SUBSCRIBE", span=statement.span)
    parts = {"ENVELOPE or WITHIN": statement.output, "AS OF": statement.as_of, "UP TO": statement.up_to}
    for what, part in parts.items():
        if part is not None:
            raise _refused(f"SUBSCRIBE with {what} is not supported yet", statement.span, "Leave it out.")
    if isinstance(statement.relation, ast.Query):
        hint = "Create a materialized view of the query WITH (COMMIT INTERVAL = '1s'), and subscribe to that."
        raise _refused("SUBSCRIBE to a query is not supported yet", statement.span, hint)
    catalog = workspace.catalog
    entry = find(catalog.plans, statement.relation, *RELATION_KINDS)
    kept = view_contents(entry.name, catalog)
    if kept is None:
        short, kind = short_name(entry.name, catalog.plans), entry.kind.lower()
        message = f'{kind} "{short}" keeps no changes to subscribe to'
        raise _refused(message, statement.relation.span, _hint(entry, catalog))
    progressed = ("mz_progressed",) if options.progress else ()
    types = (BIGINT, *([BOOLEAN] if options.progress else []), BIGINT, *(each.type for each in kept.view.shape.columns))
    columns = ("mz_timestamp", *progressed, "mz_diff", *(each.name for each in kept.view.shape.columns))
    control = catalog.control
    following = _Following(kept, plan_now(kept, catalog), options, lambda: control.desired(kept.id) != "dropped")
    notices = () if control.held(kept.id) else (_not_running(kept, catalog),)
    return Result("SUBSCRIBE", notices, columns=columns, types=types, stream=following.rows())


def _not_running(kept: ViewContents, catalog: Catalog) -> Notice:
    name = short_name(kept.view.name, catalog.plans)
    return Notice("SQ2656", f'materialized view "{name}" does not run now', hint="Changes come once sinkql up runs it.")


def _hint(entry: logical.Entry, catalog: Catalog) -> str:
    """Return how to come to a view that keeps changes of an item."""
    name = sql_name(entry.name, catalog.plans)
    if entry.kind == "MATERIALIZED VIEW":
        return f"Run ALTER MATERIALIZED VIEW {name} SET (COMMIT INTERVAL = '1s'), and subscribe then."
    made = sql_name(f"{entry.name}_changes", catalog.plans)
    return (
        f"Run CREATE MATERIALIZED VIEW {made} WITH (COMMIT INTERVAL = '1s') AS SELECT * FROM {name}, "
        "and subscribe to that."
    )


def _refused(message: str, span: Span, hint: str) -> SinkqlError:
    return SinkqlError("SQ2963", message, span, hint=hint)


@dataclass(frozen=True, slots=True)
class _Following:
    """Follow a view whose job has a plan; times are those of its commits, in milliseconds since 1970."""

    kept: ViewContents
    plan: str
    options: SubscribeOptions
    there: Callable[[], bool]
    """Tells whether the view still is a job."""

    def rows(self) -> Iterator[Row]:
        """Yield rows as they come; raises SQ2657 where the view is gone, or has other columns."""
        log, reader = self.kept.log, f"subscribe-{uuid.uuid4().hex}"
        try:
            number, entry = self._first(reader)
            if self.options.progress:
                yield self._progress(entry.at)
            if self.options.snapshot:
                for table in self.kept.rows(entry):
                    yield from self._changes(entry, table)
            if self.options.progress:
                yield self._progress(entry.at + 1)
            pinned_at = time.monotonic()
            while last := log.last():
                before = number
                while number < last:
                    number += 1
                    found = self._same(log.entry(number))
                    for table in self.kept.changes(found):
                        yield from self._changes(found, table)
                    if self.options.progress:
                        yield self._progress(found.at + 1)
                if number > before or time.monotonic() > pinned_at + _PIN_SECONDS:
                    log.pin(reader, number, passing=True)
                    pinned_at = time.monotonic()
                if last == log.last():
                    time.sleep(_LOOK_SECONDS)
            raise self._over("was dropped")
        except FileNotFoundError:  # of a run that a drop takes away
            raise self._over("was dropped") from None
        finally:
            log.pins.forget(reader)

    def _same(self, entry: Entry | None) -> Entry:
        """Return an entry if its changes are of the columns that are followed."""
        if entry is None:
            gone = not self.kept.log.last()
            raise self._over("was dropped" if gone else "no longer has the changes that come next")
        known = tuple((each.name, each.type) for each in self.kept.columns)
        if entry.runs and entry.columns != known:
            raise self._over("has other columns now")
        return entry

    def _over(self, why: str) -> SinkqlError:
        message = f'materialized view "{short_name(self.kept.view.name)}" {why}'
        return SinkqlError("SQ2657", message, hint="Subscribe again, to what is there now.")

    def _first(self, reader: str) -> tuple[int, Entry]:
        """Wait until the view has run, and have its newest entry kept."""
        while self.there():
            newest = self.kept.ready(self.plan)
            if newest is not None:
                self.kept.log.pin(reader, newest[0], passing=True)
                if self.kept.log.entry(newest[0]) is not None:
                    return newest
            time.sleep(_LOOK_SECONDS)
        raise self._over("was dropped")

    def _changes(self, entry: Entry, table: pa.Table) -> Iterator[Row]:
        *columns, diffs = map(python_values, table.columns)
        progressed = (False,) if self.options.progress else ()
        for diff, *values in zip(diffs, *columns, strict=True):
            yield (entry.at, *progressed, diff, *values)

    def _progress(self, at: int) -> Row:
        return (at, True, None, *(None for _ in self.kept.columns))
