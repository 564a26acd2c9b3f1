"""SUBSCRIBE → a view's rows, and then its changes as its job commits them, without an end."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sinkql import ast
from sinkql.connectors.view.log import Entry
from sinkql.errors import SinkqlError, Span
from sinkql.extension.options import bind, described
from sinkql.extension.rows import python_values
from sinkql.logical.type import BIGINT, BOOLEAN
from sinkql.planner.name import RELATION_KINDS, find, short_name
from sinkql.session.result import Result
from sinkql.session.row.contents import Kept, kept_view, plan_now
from sinkql.session.workspace import Workspace

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[Any, ...]
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class SubscribeOptions:
    """The options of SUBSCRIBE."""

    snapshot: bool = described("whether the rows that are there come first", default=True)
    progress: bool = described("whether it is told which times are complete", default=False)


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
    name = find(catalog.plans, statement.relation, *RELATION_KINDS).name
    kept = kept_view(name, catalog)
    if kept is None:
        short = short_name(name, catalog.plans)
        raise _refused(
            f'"{short}" keeps no changes to subscribe to',
            statement.relation.span,
            "Subscribe to a materialized view that was created WITH (COMMIT INTERVAL = '1s'), or that has two sinks.",
        )
    progressed = ("mz_progressed",) if options.progress else ()
    types = (BIGINT, *([BOOLEAN] if options.progress else []), BIGINT, *(each.type for each in kept.view.shape.columns))
    columns = ("mz_timestamp", *progressed, "mz_diff", *(each.name for each in kept.view.shape.columns))
    following = _Following(kept, plan_now(kept, catalog), options)
    return Result("SUBSCRIBE", columns=columns, types=types, stream=following.rows())


def _refused(message: str, span: Span, hint: str) -> SinkqlError:
    return SinkqlError("SQ2963", message, span, hint=hint)


@dataclass(frozen=True, slots=True)
class _Following:
    """Follow a view whose job has a plan; times are those of its commits, in milliseconds since 1970."""

    kept: Kept
    plan: str
    options: SubscribeOptions

    def rows(self) -> Iterator[Row]:
        """Yield rows as they come; it ends where the view is gone."""
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
            while last := log.last():
                for next_ in range(number + 1, last + 1):
                    found = log.entry(next_)
                    if found is None:
                        return
                    for table in self.kept.changes(found):
                        yield from self._changes(found, table)
                    if self.options.progress:
                        yield self._progress(found.at + 1)
                    number = next_
                log.pin(reader, number, passing=True)
                if last == log.last():
                    time.sleep(_LOOK_SECONDS)
        finally:
            log.unpin(reader)

    def _first(self, reader: str) -> tuple[int, Entry]:
        """Wait until the view has run, and have its newest entry kept."""
        while True:
            newest = self.kept.ready(self.plan)
            if newest is not None:
                self.kept.log.pin(reader, newest[0], passing=True)
                if self.kept.log.entry(newest[0]) is not None:
                    return newest
            time.sleep(_LOOK_SECONDS)

    def _changes(self, entry: Entry, table: pa.Table) -> Iterator[Row]:
        *columns, diffs = map(python_values, table.columns)
        progressed = (False,) if self.options.progress else ()
        for diff, *values in zip(diffs, *columns, strict=True):
            yield (entry.at, *progressed, diff, *values)

    def _progress(self, at: int) -> Row:
        return (at, True, None, *(None for _ in self.kept.columns))
