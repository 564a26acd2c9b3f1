"""Compute the number of fraction digits that Postgres shows for the result of a numeric function.

It is known if it follows from the function and the scales of its arguments. For a quotient, a power and an average it
depends on the values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

Scales = Sequence[int | None]
"""The scales of arguments, None if a scale is unknown."""

_OF_SECONDS = {"second": 6, "epoch": 6, "milliseconds": 3}
CHOICES = ("coalesce(any…)", "greatest(any…)", "least(any…)")
"""Functions that return one of their arguments."""
_WHOLE = ("sign(numeric)", "ceil(numeric)", "floor(numeric)", "div(numeric,numeric)", "factorial(bigint)")


def widest(scales: Scales) -> int | None:
    """Return the greatest scale, None if there are no scales or one is unknown."""
    return _combine(max, scales)


def _combine(what: Callable[[Sequence[int]], int], scales: Scales) -> int | None:
    numbers = [scale for scale in scales if scale is not None]
    return what(numbers) if numbers and len(numbers) == len(scales) else None


_RULES: dict[str, Callable[[Scales], int | None]] = {
    **{f"{sign}(numeric,numeric)": widest for sign in "+-%"},
    "*(numeric,numeric)": partial(_combine, sum),
    **{name: lambda _: 0 for name in _WHOLE},
    **dict.fromkeys(("-(numeric)", "abs(numeric)", "nullif(any,any)"), lambda scales: scales[0]),
    **dict.fromkeys(CHOICES, widest),
}


def of_call(function: str, scales: Scales, constants: Sequence[object]) -> int | None:
    """Return the scale of a function's result, by the function's id, None if unknown.

    `constants` are the values of literal arguments, None for other arguments.
    """
    if function in ("round(numeric,integer)", "trunc(numeric,integer)"):
        digits = constants[1]
        return max(digits, 0) if isinstance(digits, int) else None
    if function.startswith("EXTRACT("):
        return 0 if function == "EXTRACT(text,date)" else _OF_SECONDS.get(str(constants[0]), 0)
    rule = _RULES.get(function)
    return rule(scales) if rule is not None else None
