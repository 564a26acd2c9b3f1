"""Python evaluates the vectors as Postgres does, with an error wherever Postgres raises one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from evaluate import wire
from expressions import compare, vectors
from sinkql import evaluate, logical
from sinkql.errors import SinkqlError
from sinkql.evaluate.expression import FORMS
from sinkql.logical.function import FUNCTIONS
from sinkql.logical.type import parse_type

_ERROR = {"error": True}
_KINDS = ("query", "group")


def plain() -> Iterator[tuple[dict[str, Any], logical.Relation, Any]]:
    """Yield the vectors of single rows that Python evaluates, with their plans and functions."""
    for vector in vectors.load():
        if vector["status"] != "exact" or vector.get("mode") in _KINDS:
            continue
        plan = vectors.planned(vector)
        if isinstance(plan, SinkqlError):
            continue
        run = evaluate.rows_of(plan.relation, vectors.table(vector["columns"]))
        if run is not None:
            yield vector, plan.relation, run


def outcomes(vector: dict[str, Any], relation: logical.Relation, run: Any) -> Iterator[tuple[str, str]]:
    """Yield for each row `right`, `wrong` or `unsure` (left to an engine), and a description."""
    types = [parse_type(type_) for type_ in vector["columns"].values()]
    type_ = relation.shape.columns[-1].type.name
    may_raise = set(vector.get("may_error", ()))
    for number, (row, expected) in enumerate(zip(vector["rows"], vector["expected"], strict=True)):
        about = f"{vector['id']} {vector['sql']} over {row}: expected {expected!r}"
        try:
            values = tuple(map(wire.value, row, types))
        except ValueError:
            continue  # a time before Python's first year
        try:
            ((*_, found),) = run(lambda _, values=values: [values])
        except evaluate.NotEvaluableError:
            yield "unsure", about
        except SinkqlError as error:
            yield "right" if expected == _ERROR or number in may_raise else "wrong", f"{about}, raised {error.message}"
        else:
            equal = expected != _ERROR and compare.equal(wire.shown(found), expected, type_, vector.get("compare"))
            yield "right" if equal else "wrong", f"{about}, got {found!r}"


def test_vectors_give_what_postgres_gives() -> None:
    found = [outcome for each in plain() for outcome in outcomes(*each)]
    wrong = [about for kind, about in found if kind == "wrong"]
    assert not wrong, "\n".join(wrong)
    counts = Counter(kind for kind, _ in found)
    assert counts["right"] > 3_000
    assert counts["unsure"] < counts["right"] / 10


def test_all_that_is_evaluated_is_in_the_list_of_functions() -> None:
    assert set(FORMS) <= set(FUNCTIONS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i = 0 OR 1 / i > 0", [True, True, None]),
        ("i <> 0 AND 1 / i > 0", [False, True, None]),
        ("CASE WHEN i = 0 THEN 0 ELSE 1 / i END", [0, 1, None]),
        ("i IN (0, 1 / i)", [True, True, None]),
        ("i BETWEEN 1 AND 1 / i", [False, True, None]),
    ],
)
def test_operands_that_are_not_asked_for_raise_nothing(text: str, expected: list[Any]) -> None:
    function = evaluate.function_of(vectors.expression(text, {"i": "integer"}), ["i"])
    assert function is not None
    assert [function((value,)) for value in (0, 1, None)] == expected


@pytest.mark.parametrize("name", ["ceil", "trunc", "round"])
def test_zero_keeps_its_sign(name: str) -> None:
    function = evaluate.function_of(vectors.expression(f"{name}(d)", {"d": "double precision"}), ["d"])
    assert function is not None
    assert [str(function((value,))) for value in (-0.25, -0.0, 0.25)] == [
        "-0.0",
        "-0.0",
        "1.0" if name == "ceil" else "0.0",
    ]


def test_an_error_has_the_place_of_what_failed() -> None:
    text = "SELECT 1 + 10 / i AS x FROM t"
    run = evaluate.rows_of(vectors.query(text, tables := vectors.table({"i": "integer"})).relation, tables)
    assert run is not None
    with pytest.raises(SinkqlError) as raised:
        list(run(lambda _: [(0,)]))
    span = raised.value.span
    assert span is not None
    assert (raised.value.code, text[span.start : span.end]) == ("SQ3201", "10 / i")
