"""An expression that follows the hint for an unsupported operator plans."""

from __future__ import annotations

import re
from itertools import product

from expressions import vectors
from sinkql.errors import SinkqlError
from sinkql.logical.expression import allow_deep_trees

allow_deep_trees()
_TYPES = ("boolean", "integer", "uint2", "uint8", "numeric(38,10)", "double precision", "date", "time", "timestamptz",
          "interval", "text", "bytea", "uuid", "jsonb", "integer[]", "text list", "map[text=>integer]")  # fmt: skip
_FORMS = ("x + y", "x / y", "x % y", "x & y", "x < y", "x IS NOT DISTINCT FROM y", "x BETWEEN y AND y", "x || y")
_ONE = ("-x", "~x", "x << 2", "NOT x", "x AND true")


def _error(text: str, types: dict[str, str]) -> SinkqlError | None:
    try:
        vectors.expression(text, types)
    except SinkqlError as error:
        return error
    return None


def _followed(text: str, types: dict[str, str], hint: str) -> str | None:
    """Return the expression rewritten as the hint says; None for a hint of a different form."""
    columns = r"\b[xy]\b"
    if cast := re.fullmatch(r"Cast the operands, as in value(::\w+)\.", hint):
        return re.sub(columns, rf"\g<0>{cast[1]}", text)
    if hint == "Use an element of it, as x[1].":
        return re.sub(columns, lambda name: f"{name[0]}[1]" if re.search("list|]", types[name[0]]) else name[0], text)
    if hint == "Use a value of it, as m -> 'key'.":
        return re.sub(columns, lambda name: f"({name[0]} -> 'k')" if "map" in types[name[0]] else name[0], text)
    if test := re.fullmatch(r"Compare it, as in value (.+)\.", hint):
        return text.replace("x", f"(x {test[1]})")
    return None


def test_a_hint_followed_plans() -> None:
    followed, wrong = 0, []
    cases = [*product(_FORMS, _TYPES, _TYPES), *product(_ONE, _TYPES, ("integer",))]
    for text, one, other in cases:
        types = {"x": one, "y": other}
        error = _error(text, types)
        mended = _followed(text, types, error.hint) if error is not None and error.hint else None
        if mended is not None:
            followed += 1
            after = _error(mended, types)
            wrong += [] if after is None else [f"{text} of {types}: {mended}: {after.message}"]
    assert not wrong
    assert followed > 300
