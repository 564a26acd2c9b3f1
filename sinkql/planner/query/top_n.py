"""Plan a condition on the number of a window function as the top rows of each partition."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

from sinkql import logical
from sinkql.logical import Change, Expression
from sinkql.logical.expression import Call, Cast, Reference, walk
from sinkql.logical.expression import Literal as Constant
from sinkql.logical.function import call as function_call

_RANKS = ("row_number", "rank", "dense_rank")
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def as_top_n(relation: logical.Filter) -> logical.Relation:
    """Return a filter as the top rows of partitions, if it limits a row number of the window just below.

    A projection between the filter and the window that passes the number on remains above the rows.
    """
    below = relation.input
    if isinstance(below, logical.Project) and isinstance(below.input, logical.Window):
        expressions = {output.name: output.expression for output in below.outputs}
        number = _number_of(below.input)
        names = [name for name, value in expressions.items() if isinstance(value, Reference) and value.name == number]
        if number is None or not names:
            return relation
        window, name = below.input, names[0]
    elif isinstance(below, logical.Window):
        window, name = below, _number_of(below) or ""
    else:
        return relation
    limits, others = _limits(relation.predicate, name)
    if not name or limits.last is None or limits.last < 1 or limits.first > limits.last:
        return relation
    ranked: logical.Relation = _rank(window, limits)
    if isinstance(below, logical.Project):
        ranked = logical.Project(ranked, below.outputs, replace(below.shape, keys=_renamed_keys(ranked, below)))
    if others:
        predicate = others[0] if len(others) == 1 else function_call("AND(boolean...)", others, relation.predicate.span)
        ranked = logical.Filter(ranked, predicate, ranked.shape)
    return ranked


def drop_row_number(project: logical.Project) -> logical.Project:
    """Return a projection over ranked rows without their number, if the projection does not use it.

    Without the number, a row whose number alone changes is not a change.
    """
    path: list[logical.Project | logical.Filter] = []
    below = project.input
    while isinstance(below, logical.Project | logical.Filter):
        path.append(below)
        below = below.input
    if not isinstance(below, logical.Rank) or below.number is None:
        return project
    names = {below.number}
    for step in reversed(path):
        if any(names & _references(part) for part in _computed_expressions(step)):
            return project
        if isinstance(step, logical.Project):
            names = {output.name for output in step.outputs if names & _references(output.expression)}
    if any(names & _references(output.expression) for output in project.outputs):
        return project
    rebuilt: logical.Relation = replace(below, number=None, shape=_without_columns(below.shape, {below.number}))
    names = {below.number}
    for step in reversed(path):
        if isinstance(step, logical.Filter):
            rebuilt = logical.Filter(rebuilt, step.predicate, _without_columns(step.shape, names))
            continue
        outputs = tuple(output for output in step.outputs if not names & _references(output.expression))
        if not outputs:
            return project
        names = {output.name for output in step.outputs if output not in outputs}
        rebuilt = logical.Project(rebuilt, outputs, _without_columns(step.shape, names))
    return replace(project, input=rebuilt)


def _computed_expressions(relation: logical.Project | logical.Filter) -> list[Expression]:
    """Return the expressions that a relation computes, without the columns that it passes on."""
    if isinstance(relation, logical.Filter):
        return [relation.predicate]
    return [output.expression for output in relation.outputs if not isinstance(output.expression, Reference)]


def _references(expression: Expression) -> set[str]:
    return {node.name for node in walk(expression) if isinstance(node, Reference)}


def _without_columns(shape: logical.Shape, names: Set[str]) -> logical.Shape:
    columns = tuple(column for column in shape.columns if column.name not in names)
    return logical.Shape(columns, tuple(key for key in shape.keys if not key & names), shape.change)


@dataclass(frozen=True, slots=True)
class _Limits:
    first: int = 1
    last: int | None = None


def _number_of(window: logical.Window) -> str | None:
    """Return the name of a window's only call, if it numbers rows."""
    (call, *more) = window.calls
    return call.name if not more and call.function in _RANKS else None


def _limits(predicate: Expression, name: str) -> tuple[_Limits, list[Expression]]:
    """Return the range of numbers that a condition allows, and the remaining conditions."""
    limits, others = _Limits(), []
    for conjunct in _conjuncts(predicate):
        range_ = _range_of(conjunct, name)
        if range_ is None:
            others.append(conjunct)
            continue
        first, last = range_
        least = [limit for limit in (limits.last, last) if limit is not None]
        limits = _Limits(max(limits.first, first), min(least) if least else None)
    return limits, others


def _conjuncts(expression: Expression) -> list[Expression]:
    if isinstance(expression, Call) and expression.function.startswith("AND("):
        return [part for argument in expression.arguments for part in _conjuncts(argument)]
    return [expression]


def _range_of(expression: Expression, name: str) -> tuple[int, int | None] | None:
    """Return the first and the last number that a comparison allows, None for any other condition."""
    if not isinstance(expression, Call):
        return None
    sign = expression.function.partition("(")[0]
    operands = list(map(_uncast, expression.arguments))
    if len(operands) == 2 and isinstance(operands[1], Reference):
        operands, sign = operands[::-1], _MIRRORED.get(sign, "")
    number, *others = operands or [expression]
    values = [value for other in others if (value := _whole(other)) is not None]
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


def _uncast(expression: Expression) -> Expression:
    """Return an integer expression without the casts around it."""
    while isinstance(expression, Cast) and expression.type.name in ("bigint", "numeric"):
        expression = expression.operand
    return expression


def _rank(window: logical.Window, limits: _Limits) -> logical.Rank:
    (call,) = window.calls
    by = {column.name for column in window.partition if isinstance(column, Reference)}
    keys = list(window.shape.keys)
    if limits.first == limits.last and call.function == "row_number" and len(by) == len(window.partition):
        keys.insert(0, frozenset(by))
    shape = logical.Shape(window.shape.columns, tuple(dict.fromkeys(keys)), Change.RETRACT)
    return logical.Rank(
        window.input, window.partition, call.order, call.function, limits.first, limits.last, call.name, shape
    )


def _renamed_keys(relation: logical.Relation, project: logical.Project) -> tuple[frozenset[str], ...]:
    renamed: dict[str, str] = {}
    for output in project.outputs:
        if isinstance(output.expression, Reference):
            renamed.setdefault(output.expression.name, output.name)
    keys = (key for key in relation.shape.keys if key <= renamed.keys())
    return tuple(frozenset(renamed[part] for part in key) for key in keys)
