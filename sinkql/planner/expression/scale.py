"""A numeric function and its arguments → how many digits after the point Postgres shows of its results.

It is known where it follows from the function and from the scales of what it takes. Of a quotient, a power and an
average it follows from the values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

Scales = Sequence[int | None]
"""The scales of arguments, None where one is not known."""

_OF_SECONDS = {"second": 6, "epoch": 6, "milliseconds": 3}
CHOICES = ("coalesce(any…)", "greatest(any…)", "least(any…)")
"""Functions whose result is one of their arguments."""
_WHOLE = ("sign(numeric)", "ceil(numeric)", "floor(numeric)", "div(numeric,numeric)", "factorial(bigint)")


def widest(scales: Scales) -> int | None:
    """Return the greatest scale; None where there are none, or one is not known."""
    return _of_all(max, scales)


def _of_all(what: Callable[[Sequence[int]], int], scales: Scales) -> int | None:
    known = [each for each in scales if each is not None]
    return what(known) if known and len(known) == len(scales) else None


_RULES: dict[str, Callable[[Scales], int | None]] = {
    **{f"{sign}(numeric,numeric)": widest for sign in "+-%"},
    "*(numeric,numeric)": partial(_of_all, sum),
    **{name: lambda _: 0 for name in _WHOLE},
    **dict.fromkeys(("-(numeric)", "abs(numeric)", "nullif(any,any)"), lambda scales: scales[0]),
    **dict.fromkeys(CHOICES, widest),
}


def of_call(function: str, scales: Scales, constants: Sequence[object]) -> int | None:
    """Return the scale of a function's results, by its id; None where it is not known.

    `constants` are the values of arguments that are literals, None of others.
    """
    if function in ("round(numeric,integer)", "trunc(numeric,integer)"):
        digits = constants[1]
        return max(digits, 0) if isinstance(digits, int) else None
    if function.startswith("EXTRACT("):
        return 0 if function == "EXTRACT(text,date)" else _OF_SECONDS.get(str(constants[0]), 0)
    rule = _RULES.get(function)
    return rule(scales) if rule is not None else None
