"""Arithmetic over quotients and powers → one program, which keeps the digits that Postgres keeps between its steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sinkql import logical
from sinkql.errors import Span
from sinkql.logical import NUMERIC, Branch, Call, Case, Cast, Expression, Literal, Reference, Type
from sinkql.logical import function as functions
from sinkql.logical.numeric_type import INTEGERS
from sinkql.logical.type import MOST_DIGITS

EXACT = "$exact(text,any…)"
_QUOTIENT = "/(numeric,numeric)"
_STEPS = {
    **{f"{sign}(numeric,numeric)": sign for sign in "+-*/%"},
    "-(numeric)": "neg",
    **{f"{name}(numeric)": name for name in ("abs", "sign", "ceil", "floor")},
    **{f"{name}(numeric,integer)": name for name in ("round", "trunc")},
}
_BINARY = "+-*/%"
_SIGNED = ("-(numeric)", "abs(numeric)")
_COALESCE = "coalesce(any…)"
_MOST_WHOLE = 27
"""How many digits before the point a sum of plain numerics has room for."""


def program(function: str, arguments: Sequence[Expression], span: Span) -> Expression | None:
    """Return a call as a program, where what it computes with is worth one; None where it is computed by itself."""
    step = _STEPS.get(function)
    if step is None:
        return None
    place = next((place for place, each in enumerate(arguments) if _chosen(each) is not None), None)
    if place is not None:
        before, after = arguments[:place], arguments[place + 1 :]
        return _of_branches(arguments[place], lambda each: _called(function, (*before, each, *after), span), span)
    if step in _BINARY:
        long = any(isinstance(each, Literal) and each.type.whole_digits > _MOST_WHOLE for each in arguments)
        if not long and not any(_opened(each) for each in arguments):
            return None
        scales = [each.type.scale or 0 for each in arguments]
        kept = min(sum(scales), 10) if step == "*" else 10 if step == "/" else max(scales)
        type_ = Type("numeric", 38, kept) if long else NUMERIC
        return make_program((step,), arguments, span, type_)
    signed = function in _SIGNED  # which rounds as well before as behind it
    return _unary(step, arguments, span) if _is_program(arguments[0]) or (not signed and _finer(arguments[0])) else None


def _called(function: str, arguments: Sequence[Expression], span: Span) -> Expression:
    return program(function, arguments, span) or functions.call(function, arguments, span)


def _unary(step: str, arguments: Sequence[Expression], span: Span) -> Expression | None:
    value, *more = arguments
    if not more:
        return make_program((step,), (value,), span, value.type)
    digits = more[0].text if isinstance(more[0], Literal) else None
    return None if digits is None else make_program((f"{step}:{digits}",), (value,), span, value.type)


def as_double(value: Expression, span: Span) -> Expression | None:
    """Return a quotient or a program as double precision, of all its digits; None of another value."""
    double = Type("double precision")
    if _chosen(value) is not None:
        return _of_branches(value, lambda each: as_double(each, span) or functions.cast(each, double), span)
    return make_program((), (value,), span, double) if _opened(value) else None


def round_once(value: Expression, target: Type, span: Span) -> Expression | None:
    """Return what is cast to a type where that rounds a quotient or a program, of all its digits; None of another."""
    places = target.scale if target.name == "numeric" else 0 if target.name in INTEGERS else None
    if places is None or places == NUMERIC.scale:
        return None
    if _chosen(value) is not None:
        return _of_branches(value, lambda each: _rounded(each, places, span), span)
    return _rounded(value, places, span) if _finer(value) else None


def _rounded(value: Expression, places: int, span: Span) -> Expression:
    type_ = NUMERIC if places < (NUMERIC.scale or 0) else Type("numeric", MOST_DIGITS, places)
    if _finer(value):
        return make_program((f"round:{places}",), (value,), span, type_)
    return value if value.type == type_ else functions.cast(value, type_)


def _of_branches(value: Expression, then: Callable[[Expression], Expression], span: Span) -> Expression | None:
    """Return a CASE whose results are computed with in its branches; None where they are of several types then."""
    case = _chosen(value)
    assert case is not None
    branches = tuple(Branch(each.when, then(each.then)) for each in case.branches)
    otherwise = None if case.otherwise is None else then(case.otherwise)
    found = {each.then.type for each in branches} | ({otherwise.type} if otherwise is not None else set())
    return Case(branches, otherwise, found.pop(), span) if len(found) == 1 else None


def _chosen(tree: Expression) -> Case | None:
    """Return the CASE that a value is, if some of its results have digits that a plain numeric would lose."""
    while isinstance(tree, Cast) and tree.operand.type.name == tree.type.name == "numeric" and _widens(tree):
        tree = tree.operand
    if not isinstance(tree, Case) or tree.type.name != "numeric":
        return None
    results = [*(each.then for each in tree.branches), *(() if tree.otherwise is None else (tree.otherwise,))]
    return tree if any(_opened(each) or _chosen(each) is not None for each in results) else None


def make_program(steps: Sequence[str], operands: Sequence[Expression], span: Span, type_: Type) -> Expression:
    """Return the program of some operands and the steps behind them."""
    leaves: list[Expression] = []
    words: list[str] = []
    for each in operands:
        words += _words(each, leaves)
    text = logical.literal(" ".join((*words, *steps)), Type("text"))
    return functions.call(EXACT, (text, *leaves), span, type_=type_)


def _is_program(tree: Expression) -> bool:
    whole = tree.type.name == "numeric" and tree.type.precision == MOST_DIGITS
    return isinstance(tree, Call) and tree.function == EXACT and whole


def _opened(tree: Expression) -> bool:
    """Tell whether a value has digits that a plain numeric would lose."""
    if isinstance(tree, Cast) and tree.operand.type.name == tree.type.name == "numeric" and _widens(tree):
        return _opened(tree.operand)
    if not isinstance(tree, Call) or tree.function in (_QUOTIENT, EXACT):
        return isinstance(tree, Call) and (tree.function == _QUOTIENT or _is_program(tree))
    return (tree.function in _SIGNED or _is_alternative(tree)) and _opened(tree.arguments[0])


def _is_alternative(call: Call) -> bool:
    """Tell whether a call gives other values where its first argument is NULL, of which none can fail."""
    if call.function != _COALESCE or call.type.name != "numeric":
        return False
    return all(isinstance(_bare(each), Reference | Literal) for each in call.arguments[1:])


def _bare(tree: Expression) -> Expression:
    """Return what is cast to a plain numeric."""
    while isinstance(tree, Cast) and tree.operand.type.name in ("numeric", *INTEGERS) and tree.type == NUMERIC:
        tree = tree.operand
    return tree


def _finer(tree: Expression) -> bool:
    """Tell whether a value may be rounded otherwise than its ten digits are.

    An average is not: the number of its rows is too small for a result that is that close to where rounding goes up.
    """
    if not _opened(tree) or tree.type != NUMERIC:
        return False
    tree = _bare(tree)
    if isinstance(tree, Call) and tree.function == EXACT:
        assert isinstance(tree.arguments[0], Literal)
        last = str(tree.arguments[0].value).split()[-1].partition(":")[0]
        return last not in ("round", "trunc", "ceil", "floor", "sign")
    return not (isinstance(tree, Call) and tree.function == _QUOTIENT and _is_count(tree.arguments[1]))


def _is_count(divisor: Expression) -> bool:
    """Tell whether a divisor is the number of rows of an average, NULL for none."""
    counted = divisor.operand if isinstance(divisor, Cast) else None
    if not isinstance(counted, Call) or counted.function != "nullif(any,any)":
        return False
    column = counted.arguments[0]
    return isinstance(column, Reference) and column.name.startswith("$")


def _widens(cast: Cast) -> bool:
    """Tell whether a numeric that is cast to one of more digits stays as it is, in all that is computed of it."""
    wide = cast.type.precision == MOST_DIGITS or cast.operand.type.whole_digits <= cast.type.whole_digits
    return wide and (cast.operand.type.scale or 0) <= (cast.type.scale or 0)


def _words(tree: Expression, leaves: list[Expression]) -> list[str]:
    """Return the words of a program that computes a tree; what is no arithmetic is one of its leaves."""
    match tree:
        case Cast() if tree.operand.type.name == tree.type.name == "numeric" and _widens(tree):
            return _words(tree.operand, leaves)
        case Call() if _is_program(tree):
            text, *own = tree.arguments
            assert isinstance(text, Literal)
            return [_place(word, own, leaves) for word in str(text.value).split()]
        case Call() if _is_alternative(tree) and _opened(tree):
            return [*(word for each in tree.arguments for word in _words(each, leaves)), f"or:{len(tree.arguments)}"]
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
