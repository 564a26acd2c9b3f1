"""EXPLAIN shows an expression as SQL with the same meaning: planned again, it gives the same tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from expressions import vectors
from sinkql import logical
from sinkql.errors import SinkqlError
from sinkql.explain import sql
from sinkql.logical.expression import allow_deep_trees, children, walk, with_children, without_spans
from sinkql.logical.type import parse_type


def _expressions(relation: logical.Relation) -> Iterator[tuple[logical.Expression, tuple[logical.Column, ...]]]:
    """Yield the expressions of a relation that a user can write, each with the columns of its inputs."""
    below = logical.inputs_of(relation)
    given = (column for each in below for column in each.shape.columns)
    columns = tuple(replace(each, name=_plain(each.name)) for each in given)
    yield from ((_renamed(each), columns) for each in logical.expressions_of(relation) if _written(each))
    for each in below:
        yield from _expressions(each)


def _plain(name: str) -> str:
    """Return a name that a user can write; generated names begin with $."""
    return name.replace("$", "own_")


def _renamed(expression: logical.Expression) -> logical.Expression:
    if isinstance(expression, logical.Reference):
        return logical.Reference(_plain(expression.name), expression.type, expression.nullable)
    return with_children(expression, tuple(map(_renamed, children(expression))))


def _written(expression: logical.Expression) -> bool:
    """Return whether users write all of it, that is, no part comes from an aggregate or a subquery."""
    return not any(map(_own, walk(expression)))


def _own(node: logical.Expression) -> bool:
    match node:
        case logical.Call():
            first = node.arguments[0] if node.arguments else None
            counted = isinstance(first, logical.Reference) and first.name.startswith("$")
            return node.function.startswith("$") or (node.function == "nullif(any,any)" and counted)
        case logical.Reference():
            return node.name.startswith("$q")
        case logical.Cast():
            return node.operand.type == node.type
        case _:
            return False


@pytest.mark.parametrize("group", sorted({vector["group"] for vector in vectors.load()}))
def test_an_expression_of_a_vector_planned_again_from_its_text_is_the_same_tree(group: str) -> None:
    wrong = []
    for vector in vectors.load():
        plan = vectors.planned(vector) if vector["group"] == group else None
        if plan is None or isinstance(plan, SinkqlError):
            continue
        for expression, columns in _expressions(plan.relation):
            text = sql(expression)
            again = _planned(text, columns)
            if again != expression:
                wrong.append(f"{vector['id']} {vector['sql']}: {text} is {again!r}, not {without_spans(expression)!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "at + make_interval(months => a, days => b)",
        "at + make_interval(hours => a, mins => b)",
        "make_interval(days => a, secs => b::double precision)",
        "(a * INTERVAL '1 month 2 days 03:04:05')::text",
    ],
)
def test_a_computed_interval_is_shown_as_sql_that_can_be_planned(text: str) -> None:
    columns = {"a": "integer", "b": "integer", "at": "timestamp"}
    tree = vectors.expression(text, columns)
    shown = sql(tree)
    assert "make_interval(" in shown or "* INTERVAL" in shown
    assert vectors.expression(shown, columns).type == tree.type


def _planned(text: str, columns: tuple[logical.Column, ...]) -> logical.Expression | SinkqlError:
    try:
        return vectors.over(text, columns)
    except SinkqlError as error:
        return error


allow_deep_trees()  # as the first query does, but before hypothesis checks that tests do not change Python
_COLUMNS = {
    "a": "integer", "b": "integer", "k": "bigint", "n": "numeric(38,10)", "f": "double precision", "s": "text",
    "p": "boolean", "x": "timestamp", "d": "date", "j": "jsonb", "At": "text", "l": "integer[]", "m": "integer list",
    "z": "integer[] list", "i": "interval", "u": "uint2", "r": "real",
}  # fmt: skip
_LEAVES = {
    "whole": ("a", "b", "1", "(-2)", "0"),
    "number": ("n", "f", "k", "1.5", "(-0.25)"),
    "text": ("s", '"At"', "'it''s'", "''", "(j ->> 'k')", "(j -> 'q' -> 0 ->> 'r')"),
    "items": ("l", "m", "'{1,NULL}'::integer[]", "'{}'::integer list", "NULL::integer list"),
    "nested": ("z", "'{{1},{2,3}}'::integer[] list", "'{{1}}'::integer list[]", "NULL::integer list list"),
    "span": ("i", "(x - x)", "INTERVAL '1 day'", "INTERVAL '-1 month 01:02:03.5'"),
    "truth": ("p", "true", "(d > '2024-01-01')", "(x - x < INTERVAL '1 day')", "(j ? 'k')"),
}
# `{whole}` and the like stand for an expression of that kind; all expressions are in brackets
_NODES = {
    "whole": (
        "({whole} + {whole})", "({whole} - {whole})", "({whole} * {whole})", "({whole} / {whole})",
        "({whole} & {whole})",
        "({whole} | {whole})", "({whole} # {whole})", "(-{whole})", "(~{whole})", "({whole} << 2)", "length({text})",
        "(CASE WHEN {truth} THEN {whole} ELSE {whole} END)", "({truth})::integer", "coalesce({whole}, {whole})",
        "({items})[{whole}]", "cardinality({items})", "array_length({items}, 1)", "({number})::smallint::integer",
    ),
    "items": ("({nested})[{whole}]", "ARRAY[{whole}, {whole}]", "coalesce({items}, {items})"),
    "nested": ("coalesce({nested}, {nested})",),
    "span": ("coalesce({span}, {span})", "(CASE WHEN {truth} THEN {span} END)"),
    "number": (
        "({number} + {whole})", "({whole} - {number})", "({number} * {number})", "({number} / {number})", "(-{number})",
        "abs({number})", "({number})::double precision", "extract(year FROM x)", "({text})::numeric(12,2)",
        "(u + {whole})", "(u & {whole}::uint2)", "(r * {number})", "({number})::real",
    ),
    "text": ("({text} || {text})", "upper({text})", "({whole})::text", "substring({text} FROM {whole} FOR 2)"),
    "truth": (
        "({whole} < {whole})", "({number} = {number})", "({text} <> {text})", "({truth} AND {truth})",
        "({truth} OR {truth})", "(NOT {truth})", "({whole} BETWEEN {whole} AND {whole})", "({text} IN ('a', {text}))",
        "({text} LIKE 'a%')", "({whole} IS NULL)", "({truth} IS NOT TRUE)", "({truth} = {truth})",
        "({whole} IS DISTINCT FROM {whole})", "({text} ~ '^a')",
        "({whole} = ANY ({items}))", "({items} IS NULL)", "({span} < {span})", "(x + {span} > x)", "({span} IS NULL)",
    ),
}  # fmt: skip


@st.composite
def _texts(draw: st.DrawFn, kind: str = "whole", depth: int = 4) -> str:
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from(_LEAVES[kind]))
    template = draw(st.sampled_from(_NODES[kind]))
    return re.sub(r"\{(\w+)\}", lambda match: draw(_texts(match[1], depth - 1)), template)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.sampled_from(sorted(_NODES)).flatmap(_texts))
def test_an_expression_needs_no_more_brackets_than_it_is_shown_with(text: str) -> None:
    columns = tuple(logical.Column(name, parse_type(type_)) for name, type_ in _COLUMNS.items())
    expression = _planned(text, columns)
    assume(not isinstance(expression, SinkqlError))  # for example, operands that cannot be compared
    assert not isinstance(expression, SinkqlError)
    assert _planned(sql(expression), columns) == expression, sql(expression)
