"""A type that a column cannot have → the sentence with one that it can have, and whether the dialect has it."""

from __future__ import annotations

import re
from collections.abc import Callable

from sinkql.errors import nearest
from sinkql.logical.range import SUBTYPES

_WORDS = 20
_NAMES = (
    "boolean", "smallint", "integer", "int", "bigint", "uint2", "uint4", "uint8", "real", "double precision",
    "numeric", "decimal", "date", "time", "timestamp", "timestamptz", "text", "varchar", "bytea", "uuid", "jsonb",
    "interval", *SUBTYPES,
)  # fmt: skip

_LATER = (
    (r'"?record"?|record ?\(.*', "Use record(a integer, b text), with names and types of your own."),
    (r'"?map"?|map ?\[.*\]', "Use map[text => integer], or another type of values."),
    (r".*\]|.* list|list ?\[.*", "Use jsonb."),
    (r"interval [a-z]+( to [a-z]+)?|interval ?\(.*", "Use interval."),
    ("(int4|int8|num|ts|tstz|date)multirange", "Use two columns, one for each end."),
    (r"timetz( ?\(.*\))?|time( ?\(.*\))? with time zone", "Use time, or a timestamptz."),
    (r"time ?\(.*\)( without time zone)?", "Use time."),
    (r"timestamptz ?\(.*\)|timestamp ?\(.*\) with time zone", "Use timestamptz."),
    (r"timestamp ?\(.*\)( without time zone)?", "Use timestamp."),
    ("regclass|regproc|regtype|mz_aclitem|aclitem|int2vector", "Use text."),
)
"""Types of the dialect that columns cannot have yet, and what to use instead."""


def later_type(text: str) -> str | None:
    """Return what to use instead of a type of the dialect that is not supported yet; None for any other text."""
    flat = " ".join(text.lower().split())
    return next((hint for pattern, hint in _LATER if re.fullmatch(pattern, flat)), None)


def type_hint(text: str, known: Callable[[str], bool], others: str) -> str:
    """Return what to write instead of a type's text; `known` tells types, `others` is the sentence if nothing fits."""
    words = re.findall(r"\w+(?:\s*\([^)]*\))?|\S", text.lower())[:_WORDS]
    for count in range(len(words) - 1, 0, -1):
        before, after = " ".join(words[:count]), words[count:]
        if known(before) and not any(known(" ".join(after[start:])) for start in range(1, len(after))):
            return f"Leave out {' '.join(after)}."
        if known(before):
            return f'Write "," after {before}: {after[0]} is the next column.'
    first = re.match(r"\w+", words[0]) if words else None
    name = first[0] if first else ""
    if name.endswith("serial"):
        return "Write bigint, and give the values yourself."
    from sinkql.parser.hint.other_dialects import habits  # the file of habits is read only where there is a mistake

    instead = habits().type.get(name)
    if instead is not None:
        return f"Write {_with_digits(instead, words[0])}."
    near = nearest(name, _NAMES)
    return f"Did you mean {near}?" if near else others


def _with_digits(instead: str, written: str) -> str:
    """Return a type with the digits or the length that are written behind the other's name."""
    digits = re.search(r"\((\d+)(?:\s*,\s*(\d+))?\)", written)
    if digits is None:
        return instead
    if instead == "text" and digits[2] is None:
        return f"varchar({digits[1]})"
    return f"numeric({digits[1]}, {digits[2] or 0})" if instead.startswith("numeric") else instead
