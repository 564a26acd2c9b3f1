"""Spark SQL text: names, strings, types and constants; forms with places for operands, and how they are filled."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from decimal import Decimal

from sinkql.logical import Call, Expression, Interval, Literal, Type
from sinkql.logical import literal as make_literal
from sinkql.logical.expression import constant_value, held_types
from sinkql.logical.numeric_type import RANGES
from sinkql.logical.range import SUBTYPES
from sinkql.logical.type import DAY, SECOND

# binding strength of a text; an operand that binds more weakly gets parentheses
OR, AND, NOT, PREDICATE, BITS, SUM, PRODUCT, SIGN, ATOM = range(9)
# an operand that a form repeats gets a name if it is longer than this
_REPEATABLE = 60
_PLACE = re.compile(r"`[^`]*`|@(\d+)")  # names in backquotes stay unchanged
_TYPES = {
    "boolean": "BOOLEAN", "smallint": "SMALLINT", "integer": "INT", "bigint": "BIGINT",
    "uint2": "INT", "uint4": "BIGINT", "uint8": "DECIMAL(20,0)",
    "real": "FLOAT", "double precision": "DOUBLE", "date": "DATE", "time": "BIGINT",
    "timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP",
    "text": "STRING", "uuid": "STRING", "jsonb": "STRING", "interval": "STRING", "bytea": "BINARY",
    **dict.fromkeys(SUBTYPES, "STRING"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Text:
    """Spark SQL of one expression, and its binding strength; `apart` if it must not be in a lambda's body."""

    sql: str
    binds: int = ATOM
    apart: bool = False

    def within(self, binds: int) -> str:
        """Return the text for a place that requires at least this binding strength."""
        return self.sql if self.binds >= binds else f"({self.sql})"


@dataclass(frozen=True, slots=True)
class Form:
    """The spelling of a call: `@0`, `@1`, … are the places of its arguments, or of `operands` if set.

    A form that repeats a place evaluates a long operand once, under a name. A form that calls Python is `apart`: it has
    no lambda, and Spark itself detects a repeated call.
    """

    template: str
    binds: int = ATOM
    operands: tuple[Expression, ...] | None = None
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Infix:
    """An operator between its arguments, two or more, which groups to the left."""

    operator: str
    binds: int
    operands: tuple[Expression, ...] | None = None


Spelling = Form | Infix | Callable[[Call], "Form | Infix"]
"""The form of a function, or a function that returns the form for a call's types and constants."""


def quoted(name: str) -> str:
    """Return a name in backquotes for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def text_literal(value: str) -> str:
    """Return a Spark SQL string literal of exactly that value; it is safe in a form, since it contains no @."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return "'" + re.sub(r"[\x00-\x1f@]", lambda match: f"\\u{ord(match[0]):04X}", escaped) + "'"


def spark_type(type_: Type) -> str:
    """Return the Spark SQL type.

    A time of day, which has no type in Spark, is its microseconds; a range, and an interval in a column, is its text; a
    map is an array of its entries, ordered by key, so that it can be hashed and grouped.
    """
    if type_.element is not None:
        return f"ARRAY<{spark_type(type_.element)}>"
    if type_.name == "record":
        return f"STRUCT<{', '.join(f'{quoted(field.name)}: {spark_type(field.type)}' for field in type_.fields)}>"
    return f"DECIMAL({type_.precision},{type_.scale})" if type_.name == "numeric" else _TYPES[type_.name]


def raised(message: str, type_: str) -> str:
    """Return an expression that fails with a message, for a place of a Spark SQL type."""
    return f"CAST(raise_error('{message}') AS {type_})"


def within(value: str, type_: Type) -> str:
    """Return a whole number checked against the range of an unsigned type."""
    most, spark = RANGES[type_.name][-1], spark_type(type_)
    bound = f"{most}BD" if type_.name == "uint8" else f"{most}L"
    failed = raised(f"{type_.name} out of range", spark)
    return f"IF({value} NOT BETWEEN 0 AND {bound}, {failed}, CAST({value} AS {spark}))"


def infix(operator: Infix, operands: Sequence[Text]) -> Text:
    """Join operands with an operator."""
    first, *others = operands
    if not others:
        return first
    # Spark SQL does not nest predicates: x IS FALSE = y is invalid
    least = operator.binds + (operator.binds == PREDICATE)
    parts = [first.within(least), *(other.within(operator.binds + 1) for other in others)]
    return Text(f" {operator.operator} ".join(parts), operator.binds, any(operand.apart for operand in operands))


def fill(form: Form, operands: Sequence[Text]) -> Text:
    """Insert operands into a form.

    A long operand that the form repeats becomes a lambda's parameter, so that nested forms do not double at every
    level. An operand that is apart is bound before all lambdas of the form.
    """
    uses = [int(place) for place in _PLACE.findall(form.template) if place]
    apart = form.apart or any(each.apart for each in operands)
    long = [
        uses.count(index) > 1 and len(each.sql) > _REPEATABLE and not form.apart for index, each in enumerate(operands)
    ]
    names = (" -> " in form.template or any(long)) and not form.apart
    bound: list[tuple[str, str]] = []
    outside: list[tuple[str, str]] = []
    texts = []
    for index, operand in enumerate(operands):
        name = f"`$v{index}`"  # users' columns have other names; an inner parameter of that name hides the outer one
        if operand.apart and names:
            outside.append((name, operand.sql))
            texts.append(Text(f"`$o`.{name}"))
        elif long[index]:
            bound.append((name, operand.sql))
            texts.append(Text(name))
        else:
            texts.append(operand)
    sql = _PLACE.sub(
        lambda match: _placed(form.template, match, texts[int(match[1])]) if match[1] else match[0], form.template
    )
    for name, value in reversed(bound):
        sql = f"transform(array({value}), {name} -> {sql})[0]"
    if outside:
        fields = ", ".join(f"{value} AS {name}" for name, value in outside)
        sql = f"transform(array(struct({fields})), `$o` -> {sql})[0]"
    return Text(sql, ATOM if bound or outside else form.binds, apart)


def _placed(template: str, match: re.Match[str], operand: Text) -> str:
    alone = template[: match.start()].rstrip()[-1:] in ("(", ",") and template[match.end() :].lstrip()[:1] in (")", ",")
    # CAST(@0 AS …) accepts any expression; elsewhere the place may be between operators
    alone = alone or (template[: match.start()].endswith("CAST(") and template[match.end() :].startswith(" AS "))
    return operand.sql if alone else operand.within(ATOM)


_SUFFIX = {"smallint": "S", "integer": "", "bigint": "L", "uint2": "", "uint4": "L"}


def literal_text(literal: Literal) -> Text:
    """Return a constant; NULL and strings of unknown type have no cast."""
    text, type_ = literal.text, literal.type
    if text is None:
        return Text("NULL" if type_.name == "unknown" else f"CAST(NULL AS {spark_type(type_)})")
    if type_.nested:
        values = constant_value(literal, tuple)
        pairs = zip(values, held_types(type_, len(values)), strict=True)
        items = ", ".join(literal_text(make_literal(each, of)).sql for each, of in pairs)
        return Text(f"CAST({'struct' if type_.name == 'record' else 'array'}({items}) AS {spark_type(type_)})")
    match type_.name:
        case "smallint" | "integer" | "bigint" | "uint2" | "uint4":
            return Text(_signed(text + _SUFFIX[type_.name]))
        case "uint8":
            return Text(f"CAST({text}BD AS {spark_type(type_)})")
        case "numeric":
            return Text(_numeric(literal, text))
        case "real":
            return Text(f"CAST('{text}' AS FLOAT)")
        case "double precision":
            return Text(_signed(f"{text}D") if math.isfinite(float(text)) else f"CAST('{text}' AS DOUBLE)")
        case "boolean":
            return Text(text)
        case "date":
            return Text(f"DATE'{text}'")
        case "time":
            return Text(f"{_micros(text)}L")
        case "timestamp":
            return Text(f"TIMESTAMP_NTZ'{text}'")
        case "timestamptz":
            return Text(f"TIMESTAMP'{text}'")
        case "bytea":
            return Text(f"X'{text}'")
        case "interval":
            value = constant_value(literal, Interval)
            return Text(day_time(value.days * DAY + value.micros))
        case _:
            return Text(text_literal(text))


def _micros(text: str) -> int:
    """Return the microseconds of a time of day."""
    return (datetime.combine(datetime.min, time.fromisoformat(text)) - datetime.min) // timedelta(microseconds=1)


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def _numeric(literal: Literal, text: str) -> str:
    scale = literal.type.scale or 0
    digits = text.replace(".", "").replace("-", "").lstrip("0")
    if literal.type.precision == max(len(digits), scale, 1):
        return _signed(f"{text}BD")  # Spark derives its type from the digits
    return f"CAST('{Decimal(text):f}' AS {spark_type(literal.type)})"


def day_time(micros: int) -> str:
    """Return an interval of microseconds as Spark's day-time interval, in its largest whole unit."""
    for unit, size in (("DAY", DAY), ("HOUR", 3600 * SECOND), ("MINUTE", 60 * SECOND), ("SECOND", SECOND)):
        if micros % size == 0:
            return f"INTERVAL '{micros // size}' {unit}"
    days, rest = divmod(abs(micros), DAY)
    hours, rest = divmod(rest, 3600 * SECOND)
    minutes, rest = divmod(rest, 60 * SECOND)
    clock = f"{hours:02}:{minutes:02}:{rest // SECOND:02}.{rest % SECOND:06}"
    return f"INTERVAL '{'-' if micros < 0 else ''}{days} {clock}' DAY TO SECOND"
