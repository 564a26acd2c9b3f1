"""A node of sqlglot's tree that is not translated → the error that says so, and the way out."""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp

from sinkql.connector.type_hint import type_hint
from sinkql.errors import SinkqlError, Span
from sinkql.planner import types


def unsupported(node: Any, span: Span, part: str | None = None) -> SinkqlError:
    """Make the error for a node that is not translated, or for a part of one that is."""
    special = _REASONS.get(type(node))
    if special is not None:
        hint = special[2] if len(special) > 2 else _HINTS.get(special[0])
        return SinkqlError(special[0], special[1], span, hint=hint)
    shown = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).lower()
    return SinkqlError("SQ2215", f"this expression is not supported: {shown}{f' with {part}' if part else ''}", span)


def unknown_type(written: str, span: Span) -> SinkqlError:
    """Make the error for a type that a cast cannot have."""
    hint = type_hint(written, types.known, "Use a type of Postgres, as in value::text.")
    return SinkqlError("SQ2223", f'type "{written}" is not supported', span, hint=hint)


_HINTS = {"SQ2217": "Let the source carry the time as a column."}
_REASONS: dict[type, tuple[str, ...]] = {
    exp.Window: ("SQ2922", "window functions are not supported yet"),
    exp.Subquery: ("SQ2926", "subqueries in expressions are not supported yet"),
    exp.Select: ("SQ2926", "subqueries in expressions are not supported yet"),
    exp.Exists: ("SQ2926", "subqueries in expressions are not supported yet"),
    exp.WithinGroup: ("SQ2932", "ordered-set aggregates are not supported yet"),
    exp.SimilarTo: ("SQ2214", "SIMILAR TO has no exact form", "Use LIKE or ~."),
    exp.Overlaps: ("SQ2214", "OVERLAPS has no exact form", "Compare the ends."),
    exp.CurrentTimestamp: ("SQ2217", "current_timestamp is volatile: a view's rows are a function of its inputs' rows"),
    exp.CurrentDate: ("SQ2217", "current_date is volatile: a view's rows are a function of its inputs' rows"),
    exp.CurrentTime: ("SQ2217", "current_time is volatile: a view's rows are a function of its inputs' rows"),
    exp.Localtime: ("SQ2217", "localtime is volatile: a view's rows are a function of its inputs' rows"),
    exp.Localtimestamp: ("SQ2217", "localtimestamp is volatile: a view's rows are a function of its inputs' rows"),
    exp.Array: ("SQ2214", "arrays are not supported yet outside of = ANY(ARRAY[…])"),
    exp.Tuple: ("SQ2214", "rows are not supported here"),
    exp.Placeholder: (
        "SQ2215",
        "a variable has no value",
        "Give it one on the command line: sinkql exec -v name=value.",
    ),
    exp.Parameter: ("SQ2215", "a parameter has no value", "Write the value, or :name and sinkql exec -v name=value."),
    exp.Star: ("SQ2215", "* does not stand for a value here"),
}
