"""Arithmetic over quotients and powers → one program, which keeps the digits that Postgres keeps between its steps."""

from __future__ import annotations

from collections.abc import Sequence

from sinkql import logical
from sinkql.errors import Span
from sinkql.logical import NUMERIC, Call, Cast, Expression, Literal, Type
from sinkql.logical import function as functions

EXACT = "$exact(text,any…)"
_QUOTIENT = "/(numeric,numeric)"
_STEPS = {
    **{f"{sign}(numeric,numeric)": sign for sign in "+-*/%"},
    "-(numeric)": "neg",
    **{f"{name}(numeric)": name for name in ("abs", "sign", "ceil", "floor")},
    **{f"{name}(numeric,integer)": name for name in ("round", "trunc")},
}
_BINARY = "+-*/%"
_MOST_WHOLE = 27
"""How many digits before the point a sum of plain numerics has room for."""


def program(function: str, arguments: Sequence[Expression], span: Span) -> Expression | None:
    """Return a call as a program, where what it computes with is worth one; None where it is computed by itself."""
    step = _STEPS.get(function)
    if step is None:
        return None
    if step in _BINARY:
        long = any(isinstance(each, Literal) and each.type.whole_digits > _MOST_WHOLE for each in arguments)
        if not long and not any(_opened(each) for each in arguments):
            return None
        scales = [each.type.scale or 0 for each in arguments]
        kept = min(sum(scales), 10) if step == "*" else 10 if step == "/" else max(scales)
        type_ = Type("numeric", 38, kept) if long else NUMERIC
        return made((step,), arguments, span, type_)
    return _unary(step, arguments, span) if _is_program(arguments[0]) else None


def _unary(step: str, arguments: Sequence[Expression], span: Span) -> Expression | None:
    value, *more = arguments
    if not more:
        return made((step,), (value,), span, value.type)
    digits = more[0].text if isinstance(more[0], Literal) else None
    return None if digits is None else made((f"{step}:{digits}",), (value,), span, value.type)


def as_double(value: Expression, span: Span) -> Expression | None:
    """Return a quotient or a program as double precision, of all its digits; None of another value."""
    return made((), (value,), span, Type("double precision")) if _opened(value) else None


def made(steps: Sequence[str], operands: Sequence[Expression], span: Span, type_: Type) -> Expression:
    """Return the program of some operands and the steps behind them."""
    leaves: list[Expression] = []
    words: list[str] = []
    for each in operands:
        words += _words(each, leaves)
    text = logical.literal(" ".join((*words, *steps)), Type("text"))
    return functions.call(EXACT, (text, *leaves), span, type_=type_)


def _is_program(tree: Expression) -> bool:
    return isinstance(tree, Call) and tree.function == EXACT and tree.type.name == "numeric"


def _opened(tree: Expression) -> bool:
    """Tell whether a value has digits that a plain numeric would lose."""
    if isinstance(tree, Cast) and tree.operand.type.name == tree.type.name == "numeric" and _widens(tree):
        return _opened(tree.operand)
    return _is_program(tree) or (isinstance(tree, Call) and tree.function == _QUOTIENT)


def _widens(cast: Cast) -> bool:
    return (cast.operand.type.scale or 0) <= (cast.type.scale or 0)


def _words(tree: Expression, leaves: list[Expression]) -> list[str]:
    """Return the words of a program that computes a tree; what is no arithmetic is one of its leaves."""
    match tree:
        case Cast() if tree.operand.type.name == tree.type.name == "numeric" and _widens(tree):
            return _words(tree.operand, leaves)
        case Call() if _is_program(tree):
            text, *own = tree.arguments
            assert isinstance(text, Literal)
            return [_place(word, own, leaves) for word in str(text.value).split()]
        case Call() if (step := _STEPS.get(tree.function)) is not None:
            if step in ("round", "trunc"):
                digits = tree.arguments[1]
                if isinstance(digits, Literal) and digits.text is not None:
                    return [*_words(tree.arguments[0], leaves), f"{step}:{digits.text}"]
            else:
                return [*(word for each in tree.arguments for word in _words(each, leaves)), step]
    return [_leaf(tree, leaves)]


def _place(word: str, own: Sequence[Expression], leaves: list[Expression]) -> str:
    return _leaf(own[int(word)], leaves) if word.isdigit() else word


def _leaf(tree: Expression, leaves: list[Expression]) -> str:
    if tree not in leaves:
        leaves.append(tree)
    return str(leaves.index(tree))
