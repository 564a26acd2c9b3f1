"""A view that is replaced → which plans its sinks' tables were written by, so that they go on in them."""

from __future__ import annotations

from sinkql import ast, logical, physical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.codegen import lower
from sinkql.errors import SinkqlError, Span
from sinkql.planner.name import short_name


def following(before: MemoryCatalog, after: MemoryCatalog, span: Span) -> dict[str, tuple[ast.Create, logical.Facts]]:
    """Return the facts of the sinks that do another work `after`; SQ2985 for those that would have to begin anew."""
    changes: dict[str, tuple[ast.Create, logical.Facts]] = {}
    for name in after.names("SINK"):
        old, new, entry = lower(name, before), lower(name, after), after.entry(name)
        assert entry is not None
        if old.plan == new.plan:
            continue
        if _anew(old, new):
            raise SinkqlError(
                "SQ2985",
                f'sink "{short_name(name, after)}" cannot follow another query yet',
                span,
                hint="Make another view, and another sink of it into a new table.",
            )
        plans = [plan for plan in entry.facts.get("plans", ()) if plan != old.plan]
        changes[name] = (entry.statement, {**entry.facts, "plans": [*plans, old.plan]})
    return changes


def _anew(old: physical.Job, new: physical.Job) -> bool:
    """Tell whether rows from before have a part in what is written, or the table has other columns."""
    keyed = new.write.mode == "upsert" or old.write.columns != new.write.columns
    return keyed or old.stateful() or new.stateful()
