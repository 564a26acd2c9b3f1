"""Expressions, window frames, names and options as SinkQL's own SQL.

Planning the SQL of an expression again gives the same expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from sinkql import logical, physical
from sinkql.keywords import QUOTED, quoted
from sinkql.logical import Call, Case, Cast, Expression, Interval, Literal, Reference, Type
from sinkql.logical.expression import as_literal, constant_value, text_of
from sinkql.logical.nested import write_nested
from sinkql.logical.type import DAY, INTERVAL, SECOND

# binding strength of a text; an operand that binds more weakly gets parentheses
_OR, _AND, _NOT, _PREDICATE, _OTHER, _SUM, _PRODUCT, _SIGN, _ATOM = range(9)
_FIELDS = ("->", "->>", "#>", "#>>")
_INFIX = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "IS NOT DISTINCT FROM"), _PREDICATE),
    **dict.fromkeys(("||", "&", "|", "#", "<<", ">>", "~", "~*"), _OTHER),
    **dict.fromkeys(("LIKE", "ILIKE"), _PREDICATE),
    **dict.fromkeys("+-", _SUM),
    **dict.fromkeys("*/%", _PRODUCT),
    **dict.fromkeys((*_FIELDS, "?", "@>", "&&"), _OTHER),
    "AND": _AND,
    "OR": _OR,
}
# operators that bring their operands to a common type, so that a constant beside a column needs no cast
_COMPARED = (
    "=", "<>", "<", "<=", ">", ">=", "IS NOT DISTINCT FROM", "BETWEEN", "IN", "nullif", "coalesce", "greatest", "least",
)  # fmt: skip
_COMPUTED = ("+", "-", "*", "/", "%", "&", "|", "#")
_SELF_EVIDENT = ("date", "timestamp", "timestamptz", "uuid")
_TESTS = {"IS NULL(any)": "NULL", "IS TRUE(boolean)": "TRUE", "IS FALSE(boolean)": "FALSE"}
_Text = tuple[str, int]


def sql(expression: Expression) -> str:
    """Return an expression in SinkQL's own SQL."""
    return _text(expression)[0]


def name(text: str) -> str:
    """Return a column's name, in quotes if SQL requires them; SinkQL's internal names (with $) have none."""
    if re.fullmatch(r"\$?[a-z_0-9]*|[a-z_][a-z_0-9]*", text) and text.upper() not in QUOTED:
        return text
    return quoted(text)


def _text(expression: Expression) -> _Text:
    match expression:
        case Reference():
            return name(expression.name), _ATOM
        case Literal():
            return _literal(expression)
        case Cast():
            return f"{_operand(expression)}::{expression.type}", _ATOM
        case Case():
            return _case(expression), _ATOM
        case Call() if expression.function in ("$held(interval)", "$order(interval)", "$order(any)"):
            return _text(expression.arguments[0])
        case Call():
            return _call(expression)


def _within(expression: Expression, binds: int) -> str:
    return _bracketed(_text(expression), binds)


def _bracketed(text: _Text, binds: int) -> str:
    return text[0] if text[1] >= binds else f"({text[0]})"


def _operand(cast: Cast) -> str:
    operand = cast.operand
    if isinstance(operand, Literal) and operand.type.name == "text" and cast.type.name != "jsonb":
        return f"{_within(operand, _ATOM)}::text"  # a bare string would be read as the type
    return _within(operand, _ATOM)


def _case(case: Case) -> str:
    parts = [f"WHEN {sql(branch.when)} THEN {sql(branch.then)}" for branch in case.branches]
    if case.otherwise is not None:
        parts.append(f"ELSE {sql(case.otherwise)}")
    return f"CASE {' '.join(parts)} END"


# --- literals ----------------------------------------------------------------------------------------------------


def _literal(literal: Literal) -> _Text:
    text, type_ = literal.text, literal.type
    if text is None:
        return ("NULL" if type_.name == "unknown" else f"NULL::{type_}"), _ATOM
    match type_.name:
        case "boolean":
            return text, _ATOM
        case "text" | "unknown":
            return _string(text), _ATOM
        case "interval":
            return f"INTERVAL '{_interval(constant_value(literal, Interval))}'", _ATOM
        case _ if _natural(text) == type_:
            return text, _SIGN if text.startswith("-") else _ATOM
        case "array" | "list" | "map" | "record":
            return f"{_string(write_nested(literal.value, type_, _part))}::{type_}", _ATOM
        case "bytea":
            return f"'\\x{text}'::bytea", _ATOM
        case _:
            return f"{_string(text)}::{type_}", _ATOM


def _part(value: Any, type_: Type) -> str:
    """Return the text of a value inside an array or another container."""
    text = text_of(value, type_)
    return f"\\x{text}" if type_.name == "bytea" else text


def _natural(text: str) -> Type | None:
    """Return the type of a number by its digits alone."""
    match = re.fullmatch(r"-?(\d+)(?:\.(\d+))?", text)
    if match is None:
        return None
    if match[2] is None and int(match[1]) < 2**63:
        return Type("integer") if int(match[1]) < 2**31 else Type("bigint")
    fraction = match[2] or ""
    return Type("numeric", max(len((match[1] + fraction).lstrip("0")), len(fraction), 1), len(fraction))


def _string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _interval(value: Interval) -> str:
    parts = [f"{value.months} months"] if value.months else []
    parts += [f"{value.days} days"] if value.days else []
    if value.micros or not parts:
        hours, rest = divmod(abs(value.micros), DAY // 24)
        minutes, rest = divmod(rest, 60 * SECOND)
        fraction = f".{rest % SECOND:06}" if rest % SECOND else ""
        parts.append(f"{'-' if value.micros < 0 else ''}{hours:02}:{minutes:02}:{rest // SECOND:02}{fraction}")
    return " ".join(parts)


# --- calls -------------------------------------------------------------------------------------------------------


def _call(call: Call) -> _Text:
    function = call.function[: call.function.index("(")]
    operands = _beside(function, call.arguments)
    match function:
        case "NOT":
            return _negated(call.arguments[0])
        case "IS NULL" | "IS TRUE" | "IS FALSE":
            return f"{_bracketed(operands[0], _OTHER)} {function}", _PREDICATE
        case "BETWEEN":
            value, low, high = (_bracketed(operand, _OTHER) for operand in operands)
            return f"{value} BETWEEN {low} AND {high}", _PREDICATE
        case "IN":
            values = ", ".join(operand[0] for operand in operands[1:])
            return f"{_bracketed(operands[0], _OTHER)} IN ({values})", _PREDICATE
        case "-" | "~" if len(operands) == 1:
            return f"{function}{_bracketed(operands[0], _ATOM)}", _SIGN if function == "-" else _OTHER
        case "EXTRACT":
            return f"extract({as_literal(call.arguments[0]).text} FROM {operands[1][0]})", _ATOM
        case "AT TIME ZONE":
            return f"{_bracketed(operands[0], _ATOM)} AT TIME ZONE {operands[1][0]}", _OTHER
        case "REGEXP_MATCH":
            text, pattern, place = (operand[0] for operand in operands)
            return f"(regexp_match({text}, {pattern}))[{place}]", _ATOM
        case "[]":
            text = _bracketed(operands[0], _ATOM)
            # after a type name, a subscript would belong to the type
            of = call.arguments[0]
            cast = isinstance(of, Cast | Literal) or (isinstance(of, Call) and of.function.startswith("[:]"))
            return f"({text})[{operands[1][0]}]" if cast else f"{text}[{operands[1][0]}]", _ATOM
        case "ROW":
            return _row(call, operands)
        case "MAP":
            pairs = zip(operands[::2], operands[1::2], strict=True)
            return f"MAP[{', '.join(f'{key[0]} => {value[0]}' for key, value in pairs)}]", _ATOM
        case ".":
            return f"({operands[0][0]}).{name(constant_value(call.arguments[1], str))}", _ATOM
        case "ARRAY":
            return f"ARRAY[{', '.join(operand[0] for operand in operands)}]", _ATOM
        case "$exact":
            return _program(call, operands)
        case "$interval":
            return _parts(call.arguments, operands), _ATOM
        case "[:]":
            text = operands[0][0] if isinstance(call.arguments[0], Reference) else f"({operands[0][0]})"
            return f"{text}[{operands[1][0]}:{operands[2][0]}]", _ATOM
        case _ if function.endswith(" ANY"):
            return f"{_bracketed(operands[0], _OTHER)} {function}({operands[1][0]})", _PREDICATE
        case "LIKE" | "ILIKE" if len(operands) == 3:
            value, pattern, escape = (_bracketed(operand, _ATOM) for operand in operands)
            return f"{value} {function} {pattern} ESCAPE {escape}", _PREDICATE
        case _ if function in _INFIX:
            return _between(function, operands)
        case _:
            return f"{function.removeprefix('$')}({', '.join(operand[0] for operand in operands)})", _ATOM


def _parts(arguments: Sequence[Expression], operands: Sequence[_Text]) -> str:
    """Return an interval of computed months, days and microseconds."""
    factors = ("months", ""), ("days", ""), ("secs", " * 0.000001")
    given = [
        f"{unit} => {_bracketed(text, _PRODUCT) if factor else text[0]}{factor}"
        for (unit, factor), argument, text in zip(factors, arguments, operands, strict=True)
        if not (isinstance(argument, Literal) and argument.value == 0)
    ]
    return f"make_interval({', '.join(given)})"


def _program(call: Call, operands: Sequence[_Text]) -> _Text:
    """Return the calls that a compiled program stands for."""
    stack = list[_Text]()
    for word in constant_value(call.arguments[0], str).split():
        step, _, places = word.partition(":")
        if word.isdigit():
            stack.append(operands[int(word) + 1])
        elif step in _INFIX or step == "^":
            right, left = stack.pop(), stack.pop()
            stack.append((f"{_bracketed(left, _ATOM)} {step} {_bracketed(right, _ATOM)}", _OTHER))
        elif step == "or":
            values = [stack.pop()[0] for _ in range(int(places))]
            stack.append((f"coalesce({', '.join(reversed(values))})", _ATOM))
        elif step == "neg":
            stack.append((f"-{_bracketed(stack.pop(), _ATOM)}", _SIGN))
        else:
            stack.append((f"{step}({stack.pop()[0]}{f', {places}' if places else ''})", _ATOM))
    (found,) = stack
    return (f"{_bracketed(found, _ATOM)}::{call.type}", _ATOM) if call.type.name != "numeric" else found


def _row(call: Call, operands: Sequence[_Text]) -> _Text:
    text = f"ROW({', '.join(operand[0] for operand in operands)})"
    plain = all(field.name == f"f{number}" and field.nullable for number, field in enumerate(call.type.fields, 1))
    return (text if plain else f"{text}::{call.type}"), _ATOM


def _negated(operand: Expression) -> _Text:
    if isinstance(operand, Call) and operand.function in _TESTS:
        return f"{_within(operand.arguments[0], _OTHER)} IS NOT {_TESTS[operand.function]}", _PREDICATE
    return f"NOT {_within(operand, _PREDICATE)}", _NOT


def _between(operator: str, operands: Sequence[_Text]) -> _Text:
    """Put an operator between operands; only a left operand of the same operator needs no parentheses."""
    binds = _INFIX[operator]
    tight = _ATOM if binds == _OTHER else binds + 1
    left = _bracketed(operands[0], binds if binds in (_SUM, _PRODUCT) else tight)
    if operator in _FIELDS:
        left = _bracketed(operands[0], binds)  # of jsonb, which no other operator gives
    return f" {operator} ".join([left, *(_bracketed(operand, tight) for operand in operands[1:])]), binds


def _beside(function: str, arguments: Sequence[Expression]) -> list[_Text]:
    """Return the operands; a constant beside an operand of known type has no cast."""
    compared = function in _COMPARED
    if not compared and (function not in _COMPUTED or len(arguments) != 2):
        return [_text(argument) for argument in arguments]
    told = {argument.type.name for argument in arguments if not isinstance(argument, Literal)}
    return [_bare(argument, told, compared=compared) or _text(argument) for argument in arguments]


def _bare(expression: Expression, told: set[str], *, compared: bool) -> _Text | None:
    if not isinstance(expression, Literal) or expression.text is None or expression.type.name not in told:
        return None
    text, type_ = expression.text, expression.type.name
    if compared and type_ in _SELF_EVIDENT:
        return _string(text), _ATOM
    natural = _natural(text)
    plain = natural is not None and (
        type_ in ("bigint", "double precision")
        or (type_ == "numeric" and (natural == expression.type or (natural.name != "numeric" and "." not in text)))
    )
    return (text, _SIGN if text.startswith("-") else _ATOM) if plain else None


def frame_sql(frame: logical.Frame | physical.Frame | None) -> str:
    """Return a frame with a space before it; an empty string for the default frame."""
    if frame is None:
        return ""
    start, end = _bound(frame.start.offset, "PRECEDING"), _bound(frame.end.offset, "FOLLOWING")
    exclude = "" if frame.exclude == "no others" else f" EXCLUDE {frame.exclude.upper()}"
    return f" {frame.unit.upper()} BETWEEN {start} AND {end}{exclude}"


def _bound(offset: int | str | None, end: str) -> str:
    if offset is None:
        return f"UNBOUNDED {end}"
    if not offset:
        return "CURRENT ROW"
    text = str(offset)
    side, shown = "PRECEDING" if "-" in text else "FOLLOWING", text.replace("-", "")
    if " " in shown:
        months, days, micros = map(int, shown.split())
        shown = f"'{logical.literal(logical.Interval(months, days, micros), INTERVAL).text}'"
    return f"{shown} {side}"


REDACTED = "<redacted>"


def flat(options: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield `name: value` for each option; an option that may hold a secret shows only the names of its secrets."""
    for name, value in sorted(options.items()):
        label = prefix + name.replace("_", " ")
        if isinstance(value, Mapping) and "secret_text" in value:
            yield f"{label}: {_secret_text(value)}"
        elif isinstance(value, Mapping) and value.keys() == {"connection"}:
            yield f"{label}: {value['connection']}"
        elif isinstance(value, Mapping):
            yield from flat(value, f"{label}.")
        elif value is not None:
            yield f"{label}: {scalar(value)}"


def without_literals(data: Any) -> Any:
    """Return JSON-able data without the literals of options that may hold secrets."""
    match data:
        case {"secret_text": parts}:
            return {"secret_text": [part if isinstance(part, Mapping) else REDACTED for part in parts]}
        case Mapping():
            return {name: without_literals(value) for name, value in data.items()}
        case list() | tuple():
            return [without_literals(value) for value in data]
        case _:
            return data


def _secret_text(value: Mapping[str, Any]) -> str:
    parts = value["secret_text"]
    return " || ".join(f"SECRET {part['secret']}" if isinstance(part, Mapping) else REDACTED for part in parts)


def scalar(value: Any) -> str:
    """Return a value as plans print it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ", ".join(scalar(each) for each in value)
    return str(value)


def duration(time: timedelta) -> str:
    """Return a duration as text, exact to the millisecond."""
    ms = time // timedelta(milliseconds=1)
    return f"{ms} ms" if ms % 1000 else f"{ms // 1000} s"
