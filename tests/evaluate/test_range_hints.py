"""The hint of an out-of-range error names a type that is wide enough."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

from expressions import vectors
from sinkql import evaluate
from sinkql.errors import SinkqlError
from sinkql.logical.numeric_type import RANGES

_OPERATOR, _CAST = r"Cast an operand to (\w+)\.", r"(?:A (?!i)|An (?=i))\w+ is from \S+ to \d+: cast to (\w+) instead\."


def _value(text: str, types: dict[str, str], row: tuple[Any, ...]) -> Any:
    function = evaluate.function_of(vectors.expression(text, types), list(types))
    assert function is not None, text
    return function(row)


def _advice(text: str, types: dict[str, str], row: tuple[Any, ...], form: str) -> str | None:
    """Return the type that the hint names; None without an error or a wider type."""
    try:
        _value(text, types, row)
    except SinkqlError as error:
        return error.hint and re.sub(form, r"\1", error.hint)
    return None


def _ends(type_: str) -> tuple[int, ...]:
    return RANGES[type_][0], 1, RANGES[type_][-2], RANGES[type_][-1]


def test_an_operand_that_is_cast_as_the_hint_says_gives_the_result() -> None:
    followed = 0
    for type_, sign in product(RANGES, "+-*"):
        types = {"x": type_, "y": type_}
        for x, y in product(_ends(type_), _ends(type_)):
            wider = _advice(f"x {sign} y", types, (x, y), _OPERATOR)
            if wider is not None:
                expected = {"+": x + y, "-": x - y, "*": x * y}[sign]
                assert _value(f"x::{wider} {sign} y", types, (x, y)) == expected
                followed += 1
    assert followed > 30


def test_a_value_that_is_cast_as_the_hint_says_is_kept() -> None:
    followed = 0
    for source, target in product((*RANGES, "numeric(20,0)", "double precision", "real"), RANGES):
        for value in (-3, *(_ends(source) if source in RANGES else (2**40, 2**70, -(2**80)))):
            if source == "numeric(20,0)" and abs(value) > 2**40:
                continue
            given = float(value) if source in ("real", "double precision") else value
            wider = _advice(f"x::{target}", {"x": source}, (given,), _CAST)
            if wider is not None:
                assert _value(f"x::{wider}", {"x": source}, (given,)) == value
                followed += 1
    assert followed > 20


def test_below_zero_an_unsigned_integer_is_no_bigint_operand_but_a_cast() -> None:
    assert _advice("(x - 3)::uint2", {"x": "uint2"}, (2,), _CAST) == "bigint"
