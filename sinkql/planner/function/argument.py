"""Check the arguments of a call: their number, their types, and which of them must be constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sinkql.errors import SinkqlError, Span, one_of
from sinkql.logical import Type
from sinkql.logical.function import FUNCTIONS
from sinkql.planner import types
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.typed_expression import Typed

_ANY_NUMBER = 99
_MAX_SHOWN = 4
Handler = Callable[[str, tuple[Typed, ...], Span], Typed]


def arity(name: str, arguments: Sequence[Typed], span: Span, least: int, most: int) -> None:
    """Raise SQ2211 for a wrong number of arguments."""
    if not least <= len(arguments) <= most:
        wanted = f"{least} or more" if most == _ANY_NUMBER else str(least) if least == most else f"{least} to {most}"
        noun = "argument" if wanted == "1" else "arguments"
        hint = _hint(name)
        raise SinkqlError("SQ2211", f"{name}() takes {wanted} {noun}, found {len(arguments)}", span, hint=hint)


def _hint(name: str) -> str | None:
    """Return the overloads of a function as a hint, None if it has too many or is not in the list of functions."""
    forms = [function for function in FUNCTIONS if function.startswith(f"{name}(") and "…" not in function]
    return f"Use {one_of([form.replace(',', ', ') for form in forms])}." if 0 < len(forms) <= _MAX_SHOWN else None


def typed(name: str, value: Typed, wanted: Type) -> Typed:
    """Return an argument as the type that the function takes; raise SQ2211 for any other type."""
    if not types.is_implicit(value.type, wanted):
        raise SinkqlError("SQ2211", f"{name}() takes {wanted.name} here, found {value.type.name}", value.span)
    return coerced(value, wanted)


def constant_text(name: str, value: Typed, what: str) -> str:
    """Return a constant string argument; raise SQ2214 if it is computed."""
    if not isinstance(value.constant, str):
        shown = f"{name}()" if name[0].isalpha() else name
        raise SinkqlError("SQ2214", f"the {what} of {shown} must be a constant", value.span)
    return value.constant
