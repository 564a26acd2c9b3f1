"""A condition on the number of a window function → the first rows of each partition."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

from sinkql import logical
from sinkql.logical import Change, Expression
from sinkql.logical.expression import Call, Cast, Reference, walk
from sinkql.logical.expression import Literal as Constant
from sinkql.logical.function import call as function_call

_RANKS = ("row_number", "rank", "dense_rank")
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def as_top_n(relation: logical.Filter) -> logical.Relation:
    """Return a filter, as the first rows of partitions where it says so of a number just below.

    A projection between the two that passes the number on stays, above the rows.
    """
    below = relation.input
    if isinstance(below, logical.Project) and isinstance(below.input, logical.Window):
        named = {each.name: each.expression for each in below.outputs}
        number = _number_of(below.input)
        shown = [name for name, each in named.items() if isinstance(each, Reference) and each.name == number]
        if number is None or not shown:
            return relation
        window, name = below.input, shown[0]
    elif isinstance(below, logical.Window):
        window, name = below, _number_of(below) or ""
    else:
        return relation
    limits, others = _limits(relation.predicate, name)
    if not name or limits.last is None or limits.last < 1 or limits.first > limits.last:
        return relation
    found: logical.Relation = _rank(window, limits)
    if isinstance(below, logical.Project):
        found = logical.Project(found, below.outputs, replace(below.shape, keys=_kept(found, below)))
    if others:
        predicate = others[0] if len(others) == 1 else function_call("AND(boolean...)", others, relation.predicate.span)
        found = logical.Filter(found, predicate, found.shape)
    return found


def drop_row_number(project: logical.Project) -> logical.Project:
    """Return a projection over ranked rows, whose numbers are not shown where it does not use them.

    A row whose number alone is another one is no change then.
    """
    path: list[logical.Project | logical.Filter] = []
    below = project.input
    while isinstance(below, logical.Project | logical.Filter):
        path.append(below)
        below = below.input
    if not isinstance(below, logical.Rank) or below.number is None:
        return project
    names = {below.number}
    for each in reversed(path):
        if any(names & _references(part) for part in _computed(each)):
            return project
        if isinstance(each, logical.Project):
            names = {output.name for output in each.outputs if names & _references(output.expression)}
    if any(names & _references(output.expression) for output in project.outputs):
        return project
    found: logical.Relation = replace(below, number=None, shape=_less(below.shape, {below.number}))
    names = {below.number}
    for each in reversed(path):
        if isinstance(each, logical.Filter):
            found = logical.Filter(found, each.predicate, _less(each.shape, names))
            continue
        kept = tuple(output for output in each.outputs if not names & _references(output.expression))
        if not kept:
            return project
        names = {output.name for output in each.outputs if output not in kept}
        found = logical.Project(found, kept, _less(each.shape, names))
    return replace(project, input=found)


def _computed(relation: logical.Project | logical.Filter) -> list[Expression]:
    """Return what a relation computes of its input, columns that it passes on left out."""
    if isinstance(relation, logical.Filter):
        return [relation.predicate]
    return [each.expression for each in relation.outputs if not isinstance(each.expression, Reference)]


def _references(expression: Expression) -> set[str]:
    return {node.name for node in walk(expression) if isinstance(node, Reference)}


def _less(shape: logical.Shape, names: Set[str]) -> logical.Shape:
    columns = tuple(each for each in shape.columns if each.name not in names)
    return logical.Shape(columns, tuple(key for key in shape.keys if not key & names), shape.change)


@dataclass(frozen=True, slots=True)
class _Limits:
    first: int = 1
    last: int | None = None


def _number_of(window: logical.Window) -> str | None:
    """Return the name of the only call of a window, if it numbers rows."""
    (call, *more) = window.calls
    return call.name if not more and call.function in _RANKS else None


def _limits(predicate: Expression, name: str) -> tuple[_Limits, list[Expression]]:
    """Return what a condition says of the number, and what else it says."""
    found, others = _Limits(), []
    for each in _conjuncts(predicate):
        said = _said(each, name)
        if said is None:
            others.append(each)
            continue
        first, last = said
        least = [limit for limit in (found.last, last) if limit is not None]
        found = _Limits(max(found.first, first), min(least) if least else None)
    return found, others


def _conjuncts(expression: Expression) -> list[Expression]:
    if isinstance(expression, Call) and expression.function.startswith("AND("):
        return [part for each in expression.arguments for part in _conjuncts(each)]
    return [expression]


def _said(expression: Expression, name: str) -> tuple[int, int | None] | None:
    """Return the first and the last number that a comparison leaves; None for what is none."""
    if not isinstance(expression, Call):
        return None
    sign = expression.function.partition("(")[0]
    operands = list(map(_plain, expression.arguments))
    if len(operands) == 2 and isinstance(operands[1], Reference):
        operands, sign = operands[::-1], _TURNED.get(sign, "")
    number, *others = operands or [expression]
    values = [value for each in others if (value := _whole(each)) is not None]
    if not (isinstance(number, Reference) and number.name == name) or len(values) < len(others):
        return None
    match sign, values:
        case "<", [value]:
            return 1, value - 1
        case "<=", [value]:
            return 1, value
        case "=", [value]:
            return value, value
        case ">", [value]:
            return value + 1, None
        case ">=", [value]:
            return value, None
        case "BETWEEN", [first, last]:
            return first, last
    return None


def _whole(expression: Expression) -> int | None:
    value = expression.value if isinstance(expression, Constant) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _plain(expression: Expression) -> Expression:
    """Return a whole number without the casts around it."""
    while isinstance(expression, Cast) and expression.type.name in ("bigint", "numeric"):
        expression = expression.operand
    return expression


def _rank(window: logical.Window, limits: _Limits) -> logical.Rank:
    (call,) = window.calls
    by = {each.name for each in window.partition if isinstance(each, Reference)}
    keys = list(window.shape.keys)
    if limits.first == limits.last and call.function == "row_number" and len(by) == len(window.partition):
        keys.insert(0, frozenset(by))
    shape = logical.Shape(window.shape.columns, tuple(dict.fromkeys(keys)), Change.RETRACT)
    return logical.Rank(
        window.input, window.partition, call.order, call.function, limits.first, limits.last, call.name, shape
    )


def _kept(relation: logical.Relation, project: logical.Project) -> tuple[frozenset[str], ...]:
    renamed: dict[str, str] = {}
    for each in project.outputs:
        if isinstance(each.expression, Reference):
            renamed.setdefault(each.expression.name, each.name)
    keys = (key for key in relation.shape.keys if key <= renamed.keys())
    return tuple(frozenset(renamed[part] for part in key) for key in keys)
