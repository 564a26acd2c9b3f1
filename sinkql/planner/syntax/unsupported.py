"""Explain a node of sqlglot's tree that is not translated, with an alternative."""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp

from sinkql.connector_api.types import later_type, type_hint
from sinkql.errors import NoFormError, SinkqlError, Span, UnknownNameError
from sinkql.planner import types


def unsupported(node: Any, span: Span, part: str | None = None) -> SinkqlError:
    """Return the error for a node that is not translated, or for an unsupported part of a node."""
    special = _REASONS.get(type(node))
    if special is not None:
        hint = special[2] if len(special) > 2 else _HINTS.get(special[0])
        return SinkqlError(special[0], special[1], span, hint=hint)
    shown = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).lower()
    return NoFormError("SQ2215", f"this expression is not supported: {shown}{f' with {part}' if part else ''}", span)


def unknown_type(written: str, span: Span) -> SinkqlError:
    """Return the error for a type that a cast cannot have."""
    later = later_type(written)
    if later is not None:
        return SinkqlError("SQ2935", f'type "{written}" is not supported yet', span, hint=later)
    hint = _character_hint(written) or type_hint(written, types.is_type_name, "Use a Postgres type, as in value::text.")
    shown = written if written.startswith('"') else f'"{written}"'
    return UnknownNameError("SQ2223", f"type {shown} is not supported", span, hint=hint)


def _character_hint(written: str) -> str | None:
    """Return an alternative to a type that Postgres pads with blanks, or cuts to one character."""
    match = re.fullmatch(r'("?)(char|character|bpchar)\1\s*(?:\(\s*(\d+)\s*\))?', " ".join(written.lower().split()))
    if match is None:
        return None
    length = match[3]
    if length is not None:
        varchar = f"varchar({length})"
        return f"Write {varchar}, which has no blanks at its end." if types.is_type_name(varchar) else "Write text."
    return "Write text." if match[2] == "bpchar" else f"Write varchar(1): {match[0]} is one character."


_HINTS = {"SQ2217": "Use a time column of the source."}
_REASONS: dict[type, tuple[str, ...]] = {
    exp.SimilarTo: ("SQ2214", "SIMILAR TO is not supported", "Use LIKE or ~."),
    exp.Overlaps: ("SQ2214", "OVERLAPS is not supported", "Compare the start and end times."),
    **{
        node: ("SQ2214", f"operator {sign} is not supported", "Compare lower() and upper() of the ranges.")
        for node, sign in ((exp.Adjacent, "-|-"), (exp.ExtendsLeft, "&<"), (exp.ExtendsRight, "&>"))
    },
    exp.CurrentTimestamp: (
        "SQ2217",
        "current_timestamp is volatile, which views do not allow",
    ),
    exp.CurrentDate: (
        "SQ2217",
        "current_date is volatile, which views do not allow",
    ),
    exp.CurrentTime: (
        "SQ2217",
        "current_time is volatile, which views do not allow",
    ),
    exp.Localtime: (
        "SQ2217",
        "localtime is volatile, which views do not allow",
    ),
    exp.Localtimestamp: (
        "SQ2217",
        "localtimestamp is volatile, which views do not allow",
    ),
    exp.HexString: ("SQ2215", "hex strings are not supported yet", r"Write bytes as '\x6162'::bytea."),
    exp.BitString: ("SQ2215", "bit strings are not supported yet", "Write the bits as an integer."),
    exp.Placeholder: (
        "SQ2215",
        "a variable has no value",
        "Set it on the command line: sinkql exec -v name=value.",
    ),
    exp.Parameter: ("SQ2215", "a parameter has no value", "Write the value, or :name and sinkql exec -v name=value."),
    exp.Star: ("SQ2215", "* is not allowed here"),
}
