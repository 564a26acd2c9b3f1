"""A plain condition or value over one row → a function in Python that gives just what Spark would.

A closed set: columns, literals, comparisons of one type, AND, OR, NOT, IS NULL, IN, BETWEEN, sums of exact numbers,
`||` of texts. Anything else gives None here, and is Spark's to do. NULL is None.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from sqlglot import exp

from sinkql import logical
from sinkql.errors import SinkqlError
from sinkql.planner import types
from sinkql.planner.constant import constant, read_literal
from sinkql.planner.expressions import Translator
from sinkql.planner.expressions_typed import Typed

Row = tuple[Any, ...]
Function = Callable[[Row], Any]
_COMPARISONS: Mapping[type, Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
_SUMS: Mapping[type, Callable[[Any, Any], Any]] = {exp.Add: operator.add, exp.Sub: operator.sub, exp.Mul: operator.mul}
_BITS = {"smallint": 15, "integer": 31, "bigint": 63}
_ORDERED = ("boolean", "date", "timestamp", "timestamptz", "text", "uuid", "bytea", "real", "double precision")


class Simple:
    """Turn nodes of a query into functions of a row; `columns` are the row's, in order."""

    def __init__(self, translator: Translator, columns: tuple[logical.Column, ...]) -> None:
        self._translator = translator
        self._places = {column.name: place for place, column in enumerate(columns)}

    def condition(self, node: Any) -> Function | None:
        """Return a function that gives True, False or None."""
        match node:
            case exp.Paren():
                return self.condition(node.this)
            case exp.And():
                return _both(self.condition(node.this), self.condition(node.expression), _and)
            case exp.Or():
                return _both(self.condition(node.this), self.condition(node.expression), _or)
            case exp.Not():
                return _one(self.condition(node.this), lambda value: None if value is None else not value)
            case exp.Is() if isinstance(node.expression, exp.Null):
                negate = bool(node.args.get("negate"))
                return _one(self.value(node.this), lambda value: (value is None) != negate)
            case exp.In() if node.args.get("expressions") and not node.args.get("query"):
                return self._in(node)
            case exp.Between() if not node.args.get("symmetric"):
                low = self._compare(node.this, node.args["low"], operator.ge)
                return _both(low, self._compare(node.this, node.args["high"], operator.le), _and)
            case _ if type(node) in _COMPARISONS:
                return self._compare(node.this, node.expression, _COMPARISONS[type(node)])
            case exp.Boolean() | exp.Column():
                return self.value(node)
            case _:
                return None

    def value(self, node: Any) -> Function | None:
        """Return a function that gives a value of the type that the translator finds."""
        if isinstance(node, exp.Paren):
            return self.value(node.this)
        typed = self._translator.translate(node)
        if typed.column is not None:
            place = self._places[typed.column]
            return lambda row: row[place]
        if typed.type == types.UNKNOWN:
            text = None if typed.null else str(typed.constant)
            return lambda row: text
        known = constant(typed)
        if known is not None:
            return lambda row: known[0]
        if type(node) in _SUMS:
            return self._sum(node, typed)
        if isinstance(node, exp.DPipe):
            return self._concatenation(node)
        return None

    def _in(self, node: Any) -> Function | None:
        found: Function | None = None
        for each in node.expressions:
            equal = self._compare(node.this, each, operator.eq)
            found = equal if found is None else _both(found, equal, _or)
            if found is None:
                return None
        return found

    def _compare(self, left: Any, right: Any, test: Callable[[Any, Any], bool]) -> Function | None:
        a, b = self._translator.translate(left), self._translator.translate(right)
        if a.type == types.UNKNOWN and b.type == types.UNKNOWN:
            return None
        if not _comparable(a.type, b.type):
            return None
        functions = [self._operand(node, typed, other) for node, typed, other in ((left, a, b), (right, b, a))]
        floats = types.floating(a.type) or types.floating(b.type)
        order = _float_order(test) if floats else test
        return _both(functions[0], functions[1], lambda x, y: None if x is None or y is None else order(x, y))

    def _operand(self, node: Any, typed: Typed, other: Typed) -> Function | None:
        if typed.type != types.UNKNOWN:
            return self.value(node)
        value = read_literal(typed, other.type)
        return lambda row: value

    def _sum(self, node: Any, typed: Typed) -> Function | None:
        parts = [self._translator.translate(each) for each in (node.this, node.expression)]
        if any(part.type == types.UNKNOWN for part in parts):
            return None
        apply = _SUMS[type(node)]
        name = typed.type.name
        if name in _BITS:
            bits = _BITS[name]

            def whole(x: Any, y: Any) -> Any:
                if x is None or y is None:
                    return None
                found = apply(x, y)
                if not -(2**bits) <= found < 2**bits:
                    raise SinkqlError("SQ3201", f"{name} out of range", typed.span, hint="Cast an operand to bigint.")
                return found

            return _both(self.value(node.this), self.value(node.expression), whole)
        if name == "numeric" and not isinstance(node, exp.Mul) and all(_short(part) for part in parts):
            return _both(
                self.value(node.this),
                self.value(node.expression),
                lambda x, y: None if x is None or y is None else apply(Decimal(x), Decimal(y)),
            )
        return None

    def _concatenation(self, node: Any) -> Function | None:
        parts = [self._translator.translate(each) for each in (node.this, node.expression)]
        if any(part.type not in (types.TEXT, types.UNKNOWN) for part in parts):
            return None
        return _both(
            self.value(node.this),
            self.value(node.expression),
            lambda x, y: None if x is None or y is None else x + y,
        )


def _short(part: Typed) -> bool:
    """Tell whether two such numbers add up to at most 28 digits, which Python's decimals keep."""
    type_ = part.raw
    return types.whole(type_) or (type_.name == "numeric" and (type_.precision or 38) <= 27)


def _comparable(a: logical.Type, b: logical.Type) -> bool:
    if types.UNKNOWN in (a, b):
        known = b if a == types.UNKNOWN else a
        return known.name in _ORDERED or types.number(known)
    return (types.number(a) and types.number(b)) or (a.name == b.name and a.name in _ORDERED)


def _float_order(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return a comparison in which NaN equals NaN and is above all else."""
    return lambda x, y: test(_float_place(float(x)), _float_place(float(y)))


def _float_place(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


def _one(value: Function | None, apply: Callable[[Any], Any]) -> Function | None:
    return None if value is None else lambda row: apply(value(row))


def _both(left: Function | None, right: Function | None, apply: Callable[[Any, Any], Any]) -> Function | None:
    if left is None or right is None:
        return None
    return lambda row: apply(left(row), right(row))


def _and(x: bool | None, y: bool | None) -> bool | None:
    if x is False or y is False:
        return False
    return None if x is None or y is None else True


def _or(x: bool | None, y: bool | None) -> bool | None:
    if x or y:
        return True
    return None if x is None or y is None else False
