"""Sums and averages of views and of state are exact over inserts and deletes, compared with Python's fractions."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sinkql.testing
from sinkql.runtime.state import arithmetic
from sinkql.runtime.state.arithmetic import SumOverflowError

_EXACT = Context(prec=200)
_COLUMNS = {
    "s": "smallint", "i": "integer", "b": "bigint", "p": "numeric(5,2)", "q": "numeric(18,9)", "n": "numeric",
    "w": "numeric(38,0)", "x": "numeric(10,10)",
}  # fmt: skip
_DIGITS = {"s": (4, 0), "i": (9, 0), "b": (18, 0), "p": (3, 2), "q": (9, 9), "n": (18, 10), "w": (20, 0), "x": (0, 10)}
"""Digits before and after the decimal point for each column; a sum of a few values always fits."""


def _script() -> str:
    columns = ", ".join(f"{name} {type_}" for name, type_ in _COLUMNS.items())
    calls = [f"sum({name}) AS sum_{name}, avg({name}) AS avg_{name}" for name in _COLUMNS]
    return (
        f"CREATE TABLE t (id bigint PRIMARY KEY, g integer, {columns});"
        f"CREATE VIEW grouped AS SELECT g, {', '.join(calls)} FROM t GROUP BY g;"
        f"CREATE VIEW total AS SELECT {', '.join(calls)} FROM t;"
    )


def _number(chance: random.Random, name: str) -> Decimal | int | None:
    if chance.random() < 0.1:
        return None
    before, after = _DIGITS[name]
    scale = chance.randint(0, after)
    most = 10 ** (before + scale) - 1
    digits = chance.choice((chance.randint(0, most), chance.randint(0, 10**scale - 1), most, min(5, most), 0))
    value = digits * chance.choice((1, -1))
    return Decimal(value).scaleb(-scale, _EXACT) if _COLUMNS[name].startswith("numeric") else value


def _expected(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in _COLUMNS:
        values = [row[name] for row in rows if row[name] is not None]
        total = sum(map(Fraction, values), Fraction())
        found[f"sum_{name}"] = total if values else None
        found[f"avg_{name}"] = _rounded(total / len(values), 10) if values else None
    return found


def _rounded(value: Fraction, places: int) -> Fraction:
    """Round half away from zero."""
    whole = (2 * abs(value) * 10**places + 1) // 2
    return Fraction(whole if value >= 0 else -whole, 10**places)


def _found(row: dict[str, Any]) -> dict[str, Any]:
    return {name: None if value is None else Fraction(value) for name, value in row.items() if name != "g"}


def test_sums_and_averages_are_those_of_fractions_while_rows_come_and_go() -> None:
    chance = random.Random(4)
    pipeline = sinkql.testing.loads(_script())
    rows: dict[int, dict[str, Any]] = {}
    for batch in range(12):
        gone = chance.sample(sorted(rows), len(rows) // 3) if batch != 8 else sorted(rows)
        for id_ in gone:
            pipeline.delete("t", rows.pop(id_))
        for id_ in range(batch * 100, batch * 100 + chance.choice((1, 7, 30))):
            rows[id_] = {"id": id_, "g": chance.randrange(4)} | {name: _number(chance, name) for name in _COLUMNS}
            pipeline.insert("t", rows[id_])
        found = {row["g"]: _found(row) for row in pipeline.rows("grouped")}
        assert found == {g: _expected([row for row in rows.values() if row["g"] == g]) for g in found}
        assert found.keys() == {row["g"] for row in rows.values()}
        assert [_found(row) for row in pipeline.rows("total")] == [_expected(rows.values())]
    assert any(value and value.denominator > 10**9 for row in found.values() for value in row.values())


def _sums(values: Sequence[int], groups: Sequence[int], type_: pa.DataType) -> Callable[[], pa.Array]:
    scale = type_.scale if pa.types.is_decimal(type_) else 0
    array = pa.array([Decimal(each).scaleb(-scale, _EXACT) if scale else each for each in values], type_)
    return lambda: arithmetic.total(array, np.array(groups, np.int64), 3)


@pytest.mark.parametrize("type_", [pa.int64(), pa.decimal128(38, 0), pa.decimal128(38, 10), pa.decimal128(38, 38)])
def test_a_sum_that_its_type_has_no_room_for_is_an_error_and_no_other(type_: pa.DataType) -> None:
    chance = random.Random(str(type_))
    least, most = (-(2**63), 2**63 - 1) if type_ == pa.int64() else (1 - 10**38, 10**38 - 1)
    scale = type_.scale if pa.types.is_decimal(type_) else 0
    outcomes = set()
    for _ in range(300):
        numbers = [
            chance.choice((chance.randint(least, most), chance.randint(-9, 9), least, most, most // 2))
            for _ in range(chance.randrange(6))
        ]
        groups = [chance.randrange(3) for _ in numbers]
        expected = [sum(each for each, at in zip(numbers, groups, strict=True) if at == group) for group in range(3)]
        fits = all(least <= each <= most for each in expected)
        outcomes.add(fits)
        if not fits:
            with pytest.raises(SumOverflowError):
                _sums(numbers, groups, type_)()
            continue
        found = _sums(numbers, groups, type_)()
        assert [int(Decimal(each).scaleb(scale, _EXACT)) for each in found.to_pylist()] == expected
    assert outcomes == {True, False}
