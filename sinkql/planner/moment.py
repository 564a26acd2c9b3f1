"""now() and its like in a statement that runs once → the time of the statement, as a literal."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlglot import exp

from sinkql.errors import Span
from sinkql.planner import types
from sinkql.planner.expressions_literal import literal
from sinkql.planner.expressions_typed import Typed

_NODES: dict[type, str] = {
    exp.CurrentTimestamp: "now",
    exp.CurrentDate: "current_date",
    exp.Localtimestamp: "localtimestamp",
}
_TYPES = {
    "now": types.TIMESTAMPTZ,
    "statement_timestamp": types.TIMESTAMPTZ,
    "transaction_timestamp": types.TIMESTAMPTZ,
    "clock_timestamp": types.TIMESTAMPTZ,
    "current_date": types.DATE,
    "localtimestamp": types.TIMESTAMP,
}


def moment(node: Any, now: datetime | None, span: Span) -> Typed | None:
    """Return what a call of a clock gives at `now` (UTC); None for any other node, and where there is no now."""
    if now is None:
        return None
    name = _NODES.get(type(node))
    if isinstance(node, exp.Anonymous) and isinstance(node.this, str) and not node.expressions:
        name = node.this.lower()
    type_ = _TYPES.get(name or "")
    if type_ is None:
        return None
    text = f"{now:%Y-%m-%d}" if type_ == types.DATE else f"{now:%Y-%m-%d %H:%M:%S.%f}"
    return literal(text, type_, span)
