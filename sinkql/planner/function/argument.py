"""The arguments of a call: how many, of which types, and which of them must be constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sinkql.errors import SinkqlError, Span, one_of
from sinkql.logical import Type
from sinkql.logical.function import FUNCTIONS
from sinkql.planner import types
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.typed_expression import Typed

_ANY_NUMBER = 99
_SHOWN = 4
Handler = Callable[[str, tuple[Typed, ...], Span], Typed]


def arity(name: str, arguments: Sequence[Typed], span: Span, least: int, most: int) -> None:
    """Refuse a wrong number of arguments (SQ2211)."""
    if not least <= len(arguments) <= most:
        wanted = f"{least} or more" if most == _ANY_NUMBER else str(least) if least == most else f"{least} to {most}"
        noun = "argument" if wanted == "1" else "arguments"
        hint = _hint(name)
        raise SinkqlError("SQ2211", f"{name}() takes {wanted} {noun}, found {len(arguments)}", span, hint=hint)


def _hint(name: str) -> str | None:
    """Return the forms of a function; None of one that the list of functions has not, or with too many."""
    forms = [each for each in FUNCTIONS if each.startswith(f"{name}(") and "…" not in each]
    return f"Use {one_of([each.replace(',', ', ') for each in forms])}." if 0 < len(forms) <= _SHOWN else None


def typed(name: str, value: Typed, wanted: Type) -> Typed:
    """Return an argument as the type that the function takes (SQ2211 if it is another)."""
    if not types.implicit(value.type, wanted):
        raise SinkqlError("SQ2211", f"{name}() takes {wanted.name} here, found {value.type.name}", value.span)
    return coerced(value, wanted)


def constant_text(name: str, value: Typed, what: str) -> str:
    """Return a constant string argument (SQ2214 if it is computed)."""
    if not isinstance(value.constant, str):
        shown = f"{name}()" if name[0].isalpha() else name
        raise SinkqlError("SQ2214", f"the {what} of {shown} must be a constant", value.span)
    return value.constant
