"""Combine numeric arithmetic with quotients and powers into one program that keeps Postgres's digits between steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sinkql import logical
from sinkql.errors import Span
from sinkql.logical import NUMERIC, Branch, Call, Case, Cast, Expression, Literal, Reference, Type
from sinkql.logical import function as functions
from sinkql.logical.expression import constant_value
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
_MAX_WHOLE_DIGITS = 27
"""The maximum number of digits before the point in a sum of plain numerics."""


def program(function: str, arguments: Sequence[Expression], span: Span) -> Expression | None:
    """Return a call as a program if an operand has digits to keep, None if a plain call is enough."""
    step = _STEPS.get(function)
    if step is None:
        return None
    cases = enumerate(map(_case_with_digits, arguments))
    first = next(((index, case) for index, case in cases if case is not None), None)
    if first is not None:
        index, case = first
        before, after = arguments[:index], arguments[index + 1 :]
        return _map_branches(case, lambda branch: _call_or_program(function, (*before, branch, *after), span), span)
    if step in _BINARY:
        long = any(
            isinstance(argument, Literal) and argument.type.whole_digits > _MAX_WHOLE_DIGITS for argument in arguments
        )
        if not long and not any(_has_hidden_digits(argument) for argument in arguments):
            return None
        scales = [argument.type.scale or 0 for argument in arguments]
        kept = min(sum(scales), 10) if step == "*" else 10 if step == "/" else max(scales)
        type_ = Type("numeric", 38, kept) if long else NUMERIC
        return make_program((step,), arguments, span, type_)
    signed = function in _SIGNED  # its rounding is the same before and after
    return (
        _unary_program(step, arguments, span)
        if _is_program(arguments[0]) or (not signed and _needs_single_rounding(arguments[0]))
        else None
    )


def _call_or_program(function: str, arguments: Sequence[Expression], span: Span) -> Expression:
    return program(function, arguments, span) or functions.call(function, arguments, span)


def _unary_program(step: str, arguments: Sequence[Expression], span: Span) -> Expression | None:
    value, *more = arguments
    if not more:
        return make_program((step,), (value,), span, value.type)
    digits = more[0].text if isinstance(more[0], Literal) else None
    return None if digits is None else make_program((f"{step}:{digits}",), (value,), span, value.type)


def as_double(value: Expression, span: Span) -> Expression | None:
    """Return a quotient or a program as double precision with all its digits, None for other values."""
    double = Type("double precision")
    case = _case_with_digits(value)
    if case is not None:
        return _map_branches(case, lambda branch: as_double(branch, span) or functions.cast(branch, double), span)
    return make_program((), (value,), span, double) if _has_hidden_digits(value) else None


def round_once(value: Expression, target: Type, span: Span) -> Expression | None:
    """Cast a quotient or a program to a type with a single rounding of all its digits, None for other values."""
    places = target.scale if target.name == "numeric" else 0 if target.name in INTEGERS else None
    if places is None or places == NUMERIC.scale:
        return None
    case = _case_with_digits(value)
    if case is not None:
        return _map_branches(case, lambda branch: _round(branch, places, span), span)
    return _round(value, places, span) if _needs_single_rounding(value) else None


def _round(value: Expression, places: int, span: Span) -> Expression:
    type_ = NUMERIC if places < (NUMERIC.scale or 0) else Type("numeric", MOST_DIGITS, places)
    if _needs_single_rounding(value):
        return make_program((f"round:{places}",), (value,), span, type_)
    return value if value.type == type_ else functions.cast(value, type_)


def _map_branches(case: Case, then: Callable[[Expression], Expression], span: Span) -> Expression | None:
    """Return a CASE with the computation moved into its branches, None if the results have several types."""
    branches = tuple(Branch(branch.when, then(branch.then)) for branch in case.branches)
    otherwise = None if case.otherwise is None else then(case.otherwise)
    types = {branch.then.type for branch in branches} | ({otherwise.type} if otherwise is not None else set())
    return Case(branches, otherwise, types.pop(), span) if len(types) == 1 else None


def _case_with_digits(tree: Expression) -> Case | None:
    """Return the CASE of a value if some of its results have digits that a plain numeric would lose."""
    while isinstance(tree, Cast) and tree.operand.type.name == tree.type.name == "numeric" and _widens(tree):
        tree = tree.operand
    if not isinstance(tree, Case) or tree.type.name != "numeric":
        return None
    results = [*(branch.then for branch in tree.branches), *(() if tree.otherwise is None else (tree.otherwise,))]
    return (
        tree if any(_has_hidden_digits(result) or _case_with_digits(result) is not None for result in results) else None
    )


def make_program(steps: Sequence[str], operands: Sequence[Expression], span: Span, type_: Type) -> Expression:
    """Return the program of operands, followed by steps."""
    leaves: list[Expression] = []
    words: list[str] = []
    for operand in operands:
        words += _words(operand, leaves)
    text = logical.literal(" ".join((*words, *steps)), Type("text"))
    return functions.call(EXACT, (text, *leaves), span, type_=type_)


def _is_program(tree: Expression) -> bool:
    whole = tree.type.name == "numeric" and tree.type.precision == MOST_DIGITS
    return isinstance(tree, Call) and tree.function == EXACT and whole


def _has_hidden_digits(tree: Expression) -> bool:
    """Return whether a value has digits that a plain numeric would lose."""
    if isinstance(tree, Cast) and tree.operand.type.name == tree.type.name == "numeric" and _widens(tree):
        return _has_hidden_digits(tree.operand)
    if not isinstance(tree, Call) or tree.function in (_QUOTIENT, EXACT):
        return isinstance(tree, Call) and (tree.function == _QUOTIENT or _is_program(tree))
    return (tree.function in _SIGNED or _is_alternative(tree)) and _has_hidden_digits(tree.arguments[0])


def _is_alternative(call: Call) -> bool:
    """Return whether a call is a COALESCE whose further arguments cannot fail."""
    if call.function != _COALESCE or call.type.name != "numeric":
        return False
    return all(isinstance(_uncast(argument), Reference | Literal) for argument in call.arguments[1:])


def _uncast(tree: Expression) -> Expression:
    """Return the operand of casts to a plain numeric."""
    while isinstance(tree, Cast) and tree.operand.type.name in ("numeric", *INTEGERS) and tree.type == NUMERIC:
        tree = tree.operand
    return tree


def _needs_single_rounding(tree: Expression) -> bool:
    """Return whether rounding a value's ten digits could differ from rounding all its digits.

    An average cannot differ: its number of rows is too small for a result that close to a rounding boundary.
    """
    if not _has_hidden_digits(tree) or tree.type != NUMERIC:
        return False
    tree = _uncast(tree)
    if isinstance(tree, Call) and tree.function == EXACT:
        last = constant_value(tree.arguments[0], str).split()[-1].partition(":")[0]
        return last not in ("round", "trunc", "ceil", "floor", "sign")
    return not (isinstance(tree, Call) and tree.function == _QUOTIENT and _is_count(tree.arguments[1]))


def _is_count(divisor: Expression) -> bool:
    """Return whether a divisor is the number of rows of an average, NULL for zero."""
    counted = divisor.operand if isinstance(divisor, Cast) else None
    if not isinstance(counted, Call) or counted.function != "nullif(any,any)":
        return False
    column = counted.arguments[0]
    return isinstance(column, Reference) and column.name.startswith("$")


def _widens(cast: Cast) -> bool:
    """Return whether a cast to a numeric with more digits keeps the value and all results computed from it."""
    wide = cast.type.precision == MOST_DIGITS or cast.operand.type.whole_digits <= cast.type.whole_digits
    return wide and (cast.operand.type.scale or 0) <= (cast.type.scale or 0)


def _words(tree: Expression, leaves: list[Expression]) -> list[str]:
    """Return the words of a program that computes a tree; other operations become leaves."""
    match tree:
        case Cast() if tree.operand.type.name == tree.type.name == "numeric" and _widens(tree):
            return _words(tree.operand, leaves)
        case Call() if _is_program(tree):
            text, *program_leaves = tree.arguments
            return [_remap_leaf(word, program_leaves, leaves) for word in constant_value(text, str).split()]
        case Call() if _is_alternative(tree) and _has_hidden_digits(tree):
            return [
                *(word for argument in tree.arguments for word in _words(argument, leaves)),
                f"or:{len(tree.arguments)}",
            ]
        case Call() if (step := _STEPS.get(tree.function)) is not None:
            if step in ("round", "trunc"):
                digits = tree.arguments[1]
                if isinstance(digits, Literal) and digits.text is not None:
                    return [*_words(tree.arguments[0], leaves), f"{step}:{digits.text}"]
            else:
                return [*(word for argument in tree.arguments for word in _words(argument, leaves)), step]
    return [_leaf(tree, leaves)]


def _remap_leaf(word: str, program_leaves: Sequence[Expression], leaves: list[Expression]) -> str:
    return _leaf(program_leaves[int(word)], leaves) if word.isdigit() else word


def _leaf(tree: Expression, leaves: list[Expression]) -> str:
    if tree not in leaves:
        leaves.append(tree)
    return str(leaves.index(tree))
