"""Variance and bit aggregates stay right when rows are deleted."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from views.changing import changes
from views.harness import Relation, View, Views

_RELATIONS = (Relation("t", {"g": "integer", "x": "integer", "n": "numeric(12,2)"}),)
_NAMES = ("variance", "var_samp", "var_pop", "stddev", "stddev_samp", "stddev_pop")
_ROUNDED = "CAST({name}({value}){filter} AS numeric(30,6)) AS {alias}"


def _calls(value: str, filter_: str = "") -> str:
    return ", ".join(_ROUNDED.format(name=each, value=value, filter=filter_, alias=each) for each in _NAMES)


_VIEWS = {
    "of_integers": View(f"SELECT g, {_calls('x')} FROM t GROUP BY g"),
    "of_numerics": View(
        f"SELECT {_calls('n', ' FILTER (WHERE x > 0)')} FROM t",
        f"SELECT {_calls('CAST(n AS double)', ' FILTER (WHERE x > 0)')} FROM t",
    ),
    "of_many_digits": View(
        f"SELECT g, {_calls('CAST(n * 100000.125 AS numeric(38,10))')} FROM t GROUP BY g",
        f"SELECT g, {_calls('CAST(n AS double) * 100000.125')} FROM t GROUP BY g",
    ),
    "bits": View(
        "SELECT g, bit_and(x) AS a, bit_or(x) FILTER (WHERE n > 0) AS o, bit_xor(x) AS x,"
        " bit_xor(DISTINCT x) AS d FROM t GROUP BY g"
    ),
}


def _row(random_: random.Random) -> tuple[Any, ...]:
    return (
        random_.choice([0, 1, None]),
        random_.choice([-2_000_000_007, -7, -1, 1, 6, 2_000_000_000, None]),
        random_.choice([-1, 250, 3_000_000]) if random_.randrange(4) else None,
    )


def test_variance_and_bits_are_those_of_the_rows_that_are_there(tmp_path: Path) -> None:
    views = Views(tmp_path, _RELATIONS, _VIEWS)
    random_ = random.Random(11)
    views.batch({"t": []})
    for _ in range(4):
        views.batch(changes(views, random_, {"t": _row}))
    views.batch({"t": [(row, -count) for row, count in views.content.rows["t"].items()]})
    assert all(views.checked[name] > 3 for name in _VIEWS), views.checked
    views.close()
