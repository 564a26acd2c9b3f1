"""What a condition can be where some columns are NULL: one that is never true there makes an outer join inner."""

from __future__ import annotations

from collections.abc import Set

from sinkql.logical.expression import Call, Case, Cast, Expression, Literal, Reference

_TRUE, _FALSE, _NULL, _VALUE = "true", "false", "null", "value"
_Possible = frozenset[str]
_ONLY_NULL = frozenset({_NULL})
_ALL = frozenset({_TRUE, _FALSE, _NULL})
_STRICT = ("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "||", "~", "~*", "LIKE", "ILIKE")
_STRICT_FUNCTIONS = ("abs", "lower", "upper", "length", "substring", "btrim", "ltrim", "rtrim", "round", "strpos")


def rejects_nulls(condition: Expression, columns: Set[str]) -> bool:
    """Tell whether a condition cannot be true of a row that has NULL in all these columns."""
    return _TRUE not in _possible(condition, columns)


def _possible(expression: Expression, columns: Set[str]) -> _Possible:
    match expression:
        case Reference():
            return _ONLY_NULL if expression.name in columns else _any(expression)
        case Literal():
            if expression.text is None:
                return _ONLY_NULL
            return frozenset({expression.text}) if expression.type.name == "boolean" else frozenset({_VALUE})
        case Cast():
            return _ONLY_NULL if _possible(expression.operand, columns) == _ONLY_NULL else _any(expression)
        case Case():
            return _case(expression, columns)
        case Call():
            return _call(expression, columns)


def _any(expression: Expression) -> _Possible:
    known = frozenset({_TRUE, _FALSE} if expression.type.name == "boolean" else {_VALUE})
    return known | _ONLY_NULL if expression.nullable else known


def _case(case: Case, columns: Set[str]) -> _Possible:
    found: _Possible = frozenset()
    for branch in case.branches:
        if _TRUE in _possible(branch.when, columns):
            found |= _possible(branch.then, columns)
    return found | (_ONLY_NULL if case.otherwise is None else _possible(case.otherwise, columns))


def _call(call: Call, columns: Set[str]) -> _Possible:
    given = [_possible(each, columns) for each in call.arguments]
    match call.function.partition("(")[0]:
        case "AND":
            return _and(given)
        case "OR":
            return _not(_and([_not(each) for each in given]))
        case "NOT":
            return _not(given[0])
        case "IS NULL":
            return _tests(_NULL in given[0], given[0] != _ONLY_NULL)
        case "IS TRUE":
            return _tests(_TRUE in given[0], given[0] != {_TRUE})
        case "IS FALSE":
            return _tests(_FALSE in given[0], given[0] != {_FALSE})
        case "BETWEEN" if _ONLY_NULL in given:
            return frozenset({_FALSE, _NULL})
        case "IN" if given[0] == _ONLY_NULL:
            return _ONLY_NULL
        case "coalesce" if all(each == _ONLY_NULL for each in given):
            return _ONLY_NULL
        case name if name in (*_STRICT, *_STRICT_FUNCTIONS) and _ONLY_NULL in given:
            return _ONLY_NULL
        case _:
            return _ALL if call.type.name == "boolean" else frozenset({_VALUE, _NULL})


def _and(given: list[_Possible]) -> _Possible:
    found: set[str] = set()
    if all(_TRUE in each for each in given):
        found.add(_TRUE)
    if any(_FALSE in each for each in given):
        found.add(_FALSE)
    # NULL: one that is NULL, all others true or NULL
    if any(_NULL in each for each in given) and all(each & {_TRUE, _NULL} for each in given):
        found.add(_NULL)
    return frozenset(found)


def _not(given: _Possible) -> _Possible:
    turned = {_TRUE: _FALSE, _FALSE: _TRUE}
    return frozenset(turned.get(each, each) for each in given)


def _tests(true: bool, false: bool) -> _Possible:
    return frozenset({_TRUE for _ in (1,) if true} | {_FALSE for _ in (1,) if false})
