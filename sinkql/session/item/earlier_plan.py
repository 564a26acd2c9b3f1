"""A sink whose rows come about in another way from now on → the plans that its table was written by before.

Its job follows these plans: whoever runs it finds one of them in the table's marker, and continues from there.
"""

from __future__ import annotations

from sinkql import logical, physical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.replan import Definitions
from sinkql.errors import SinkqlError, Span
from sinkql.lowering.job import lower
from sinkql.planner.name import short_name


def facts_of_follower(facts: logical.Facts, before: physical.Job, after: physical.Job) -> logical.Facts:
    """Return a sink's facts with the plan it had `before` as its last earlier one; the same ones if the plan stays."""
    if before.plan == after.plan:
        return facts
    plans = [plan for plan in facts.get("plans", ()) if plan != before.plan]
    return {**facts, "plans": [*plans, before.plan]}


def followers(changed: str, before: MemoryCatalog, after: MemoryCatalog, span: Span) -> Definitions:
    """Return new facts for the sinks of a changed item whose work is another one `after`.

    Raises SQ2985 for those that must start over.
    """
    changes = {}
    for name in sorted(after.all_users(changed)):
        entry = after.entry(name)
        if entry is None or entry.kind != "SINK":
            continue
        old, new = lower(name, before), lower(name, after)
        if old.plan == new.plan:
            continue
        if _anew(old, new):
            raise SinkqlError(
                "SQ2985",
                f'sink "{short_name(name, after)}" cannot follow another query yet',
                span,
                hint="Create another view, and another sink of it into a new table.",
            )
        changes[name] = (entry.statement, facts_of_follower(entry.facts, old, new))
    return changes


def _anew(old: physical.Job, new: physical.Job) -> bool:
    """Tell whether rows from before have a part in what is written, or the table has other columns."""
    keyed = new.write.mode == "upsert" or old.write.columns != new.write.columns
    return keyed or old.stateful() or new.stateful()
