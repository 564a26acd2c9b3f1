"""A constant → Spark SQL of exactly its type."""

from __future__ import annotations

import math
from datetime import datetime, time, timedelta
from decimal import Decimal

from sinkql.logical import Interval, Literal
from sinkql.logical import literal as make_literal
from sinkql.logical.expression import held_types
from sinkql.logical.type import DAY, SECOND
from sinkql.lowering.spark.sql import Text, spark_type, text_literal

_SUFFIX = {"smallint": "S", "integer": "", "bigint": "L", "uint2": "", "uint4": "L"}


def literal_text(literal: Literal) -> Text:
    """Return a constant; NULL and strings of unknown type stand as they are."""
    text, type_ = literal.text, literal.type
    if text is None:
        return Text("NULL" if type_.name == "unknown" else f"CAST(NULL AS {spark_type(type_)})")
    if type_.nested:
        values = literal.value
        assert isinstance(values, tuple)
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
            value = literal.value
            assert isinstance(value, Interval)
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
        return _signed(f"{text}BD")  # whose type Spark reads off the digits
    return f"CAST('{Decimal(text):f}' AS {spark_type(literal.type)})"


def day_time(micros: int) -> str:
    """Return an interval of microseconds, of Spark's day-time kind, in its largest whole unit."""
    for unit, size in (("DAY", DAY), ("HOUR", 3600 * SECOND), ("MINUTE", 60 * SECOND), ("SECOND", SECOND)):
        if micros % size == 0:
            return f"INTERVAL '{micros // size}' {unit}"
    days, rest = divmod(abs(micros), DAY)
    hours, rest = divmod(rest, 3600 * SECOND)
    minutes, rest = divmod(rest, 60 * SECOND)
    clock = f"{hours:02}:{minutes:02}:{rest // SECOND:02}.{rest % SECOND:06}"
    return f"INTERVAL '{'-' if micros < 0 else ''}{days} {clock}' DAY TO SECOND"
