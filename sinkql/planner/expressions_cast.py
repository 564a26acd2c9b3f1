"""An explicit cast → Spark SQL that gives what Postgres gives, or raises where Postgres raises."""

from __future__ import annotations

from sinkql.connector.types import spark_type
from sinkql.errors import SinkqlError, Span
from sinkql.logical import NUMERIC, Type
from sinkql.planner import types
from sinkql.planner.expressions_literal import coerced, literal
from sinkql.planner.expressions_typed import ATOM, PREDICATE, Typed, exact, form, null_of

_BLANK = r"[ \t\n\r\f\x0B]*"
_DIGITS = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_IS_NUMBER = f"r'^{_BLANK}{_DIGITS}{_BLANK}$'"
_IS_SPECIAL = f"r'(?i)^{_BLANK}[+-]?(nan|inf|infinity){_BLANK}$'"
_CLOCK = r"([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?( ?(Z|[+-][0-9]{2}(:[0-9]{2})?))?"
_IS_TIMESTAMP = f"r'^{_BLANK}[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{_CLOCK}{_BLANK}$'"
_ZONE = rf" ?(Z|(?<=:[0-9]{{2}}(\.[0-9]{{1,6}})?)[+-][0-9:]+)?{_BLANK}$"
_IS_UUID = r"r'^(([0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4}|\{([0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4}\})$'"
_TRUE = "('t','tr','tru','true','y','ye','yes','on','1')"
_FALSE = "('f','fa','fal','fals','false','n','no','of','off','0')"
_TRIMMED = r"lower(trim(BOTH ' \t\n\r\u000C\u000B' FROM @0))"


def _checked(test: str, value: str, spark: str, message: str) -> str:
    return f"CASE WHEN @0 IS NULL OR @0 RLIKE {test} THEN {value} ELSE CAST(raise_error('{message}') AS {spark}) END"


_FROM_TEXT = {
    "smallint": "CAST(@0 AS SMALLINT)",
    "integer": "CAST(@0 AS INT)",
    "bigint": "CAST(@0 AS BIGINT)",
    "double precision": (
        f"CASE WHEN @0 IS NULL THEN NULL WHEN @0 RLIKE {_IS_SPECIAL} THEN CAST(@0 AS DOUBLE) "
        f"WHEN NOT @0 RLIKE {_IS_NUMBER} "
        "THEN CAST(raise_error('invalid input syntax for type double precision') AS DOUBLE) "
        "WHEN abs(CAST(@0 AS DOUBLE)) = double('Infinity') OR CAST(@0 AS DOUBLE) = 0 AND @0 RLIKE r'^[^eE]*[1-9]' "
        "THEN CAST(raise_error('out of range for type double precision') AS DOUBLE) ELSE CAST(@0 AS DOUBLE) END"
    ),
    "boolean": (
        f"CASE WHEN @0 IS NULL THEN NULL WHEN {_TRIMMED} IN {_TRUE} THEN true WHEN {_TRIMMED} IN {_FALSE} THEN false "
        "ELSE CAST(raise_error(concat('invalid input syntax for type boolean: ', @0)) AS BOOLEAN) END"
    ),
    "date": _checked(
        f"r'^{_BLANK}[0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}}{_BLANK}$'", "CAST(@0 AS DATE)", "DATE",
        "unsupported date format",
    ),
    "timestamp": _checked(
        _IS_TIMESTAMP,
        f"CAST(regexp_replace(@0, r'{_ZONE}', '') AS TIMESTAMP_NTZ)",
        "TIMESTAMP_NTZ", "unsupported timestamp format",
    ),
    "timestamptz": _checked(_IS_TIMESTAMP, "CAST(@0 AS TIMESTAMP)", "TIMESTAMP", "unsupported timestamptz format"),
    "uuid": (
        f"CASE WHEN @0 IS NULL THEN NULL WHEN @0 RLIKE {_IS_UUID} "
        "THEN regexp_replace(lower(regexp_replace(@0, '[{}-]', '')), "
        "'^(.{8})(.{4})(.{4})(.{4})(.{12})$', '$1-$2-$3-$4-$5') "
        "ELSE CAST(raise_error('invalid input syntax for type uuid') AS STRING) END"
    ),
    "bytea": (
        r"CASE WHEN @0 IS NULL THEN NULL WHEN @0 RLIKE r'^\\x([0-9a-fA-F][0-9a-fA-F])*$' THEN unhex(substring(@0, 3)) "
        r"WHEN contains(@0, r'\') THEN CAST(raise_error('unsupported bytea text') AS BINARY) "
        "ELSE encode(@0, 'UTF-8') END"
    ),
    "jsonb": (
        "CASE WHEN @0 IS NULL THEN NULL WHEN json_array_length(concat('[', @0, ']')) = 1 AND "
        """parse_json(concat('{"v":', @0, '}')) IS NOT NULL THEN to_json(parse_json(@0)) """
        "ELSE CAST(raise_error('invalid input syntax for type json') AS STRING) END"
    ),
}  # fmt: skip

_DOUBLE_TO_NUMERIC = (
    # NULL first: format_string gives the text null for it
    "CASE WHEN @0 IS NULL THEN NULL WHEN isnan(@0) OR abs(@0) = double('Infinity') "
    "THEN CAST(raise_error('no NaN or infinity in numeric') AS {0}) "
    "WHEN substring(format_string('%.15e', abs(@0)), 17, 1) = '5' AND CAST(format_string('%.15e', @0) AS DOUBLE) = @0 "
    "THEN CAST(raise_error('more than 15 significant digits') AS {0}) ELSE CAST(format_string('%.14e', @0) AS {0}) END"
)
_DOUBLE_TO_BIGINT = (
    "IF(@0 >= 9223372036854775808D, CAST(raise_error('bigint out of range') AS BIGINT), CAST(rint(@0) AS BIGINT))"
)
_DOUBLE_TO_REAL = (
    "CASE WHEN abs(CAST(@0 AS FLOAT)) = float('Infinity') AND abs(@0) <> double('Infinity') "
    "OR CAST(@0 AS FLOAT) = 0 AND @0 <> 0 THEN CAST(raise_error('value out of range') AS FLOAT) "
    "ELSE CAST(@0 AS FLOAT) END"
)
_TO_TEXT = {
    "smallint": "CAST(@0 AS STRING)", "integer": "CAST(@0 AS STRING)", "bigint": "CAST(@0 AS STRING)",
    "numeric": "CAST(@0 AS STRING)", "boolean": "CAST(@0 AS STRING)", "date": "CAST(@0 AS STRING)",
    "timestamp": "CAST(@0 AS STRING)", "timestamptz": "concat(CAST(@0 AS STRING), '+00')",
    "bytea": r"concat('\\x', lower(hex(@0)))", "uuid": "@0",
}  # fmt: skip
_PLAIN = {
    ("boolean", "integer"), ("timestamp", "date"), ("timestamptz", "date"), ("timestamptz", "timestamp"),
    ("numeric", "real"), ("bigint", "smallint"), ("bigint", "integer"), ("integer", "smallint"),
}  # fmt: skip
_REFUSED = {
    ("numeric", "text"): "the text of a numeric depends on a display scale; cast to numeric(p,s) first",
    ("real", "text"): "the text of a floating-point number differs; cast to numeric(p,s) first",
    ("double precision", "text"): "the text of a floating-point number differs; cast to numeric(p,s) first",
    ("real", "numeric"): "a real has 6 significant digits; cast to double precision first",
    ("jsonb", "text"): "the text form of jsonb is not kept; use ->>",
}


def cast(value: Typed, target: Type, span: Span, length: int | None = None) -> Typed:
    """Convert explicitly; raises SinkqlError where there is no such cast (SQ2218) or no exact form of it (SQ2214)."""
    if value.type == types.UNKNOWN:
        found = null_of(target, span) if value.null else _of_literal(value, target, span)
    elif value.type == target and target != NUMERIC:
        found = exact(value)
    else:
        found = form(_template(value, target, span), (value,), target, binds=_binds(value, target))
    if length is not None:
        found = form(f"substring(@0, 1, {length})", (found,), target)
    return found.at(span)


def _of_literal(value: Typed, target: Type, span: Span) -> Typed:
    if target == types.JSONB:
        return form(_FROM_TEXT["jsonb"], (coerced(value, types.TEXT),), target, nullable=False)
    return literal(str(value.constant), target, span)


def _binds(value: Typed, target: Type) -> int:
    return PREDICATE if (value.type, target) == (types.INTEGER, types.BOOLEAN) else ATOM


def _template(value: Typed, target: Type, span: Span) -> str:
    source = value.type
    plain = f"CAST(@0 AS {spark_type(target)})" if target != types.INTERVAL else ""
    found: str | None = None
    if source == types.TEXT:
        found = _from_text(target)
    elif target == types.TEXT:
        found = None if value.raw == NUMERIC else _TO_TEXT.get(source.name)
    elif types.number(source) and types.number(target):
        found = _number_template(source, target)
    elif (source, target) == (types.INTEGER, types.BOOLEAN):
        found = "@0 <> 0"
    elif (source.name, target.name) in _PLAIN or (types.instant(source) and types.implicit(source, target)):
        found = plain
    if found is not None:
        return found
    reason = _REFUSED.get((source.name, target.name))
    if reason is not None:
        raise SinkqlError("SQ2214", f"a cast of {source.name} to {target.name} is not exact: {reason}", span)
    raise SinkqlError("SQ2218", f"there is no cast from {source.name} to {target.name}", span)


def _from_text(target: Type) -> str | None:
    if target.name == "numeric":
        spark = spark_type(target)
        return _checked(_IS_NUMBER, f"CAST(@0 AS {spark})", spark, "invalid input syntax for type numeric")
    return _FROM_TEXT.get(target.name)


def _number_template(source: Type, target: Type) -> str | None:
    plain = f"CAST(@0 AS {spark_type(target)})"
    if types.whole(target):
        if source.name == "numeric":
            return f"CAST(round(@0, 0) AS {spark_type(target)})"
        if types.floating(source):
            if target == types.BIGINT:
                return (
                    _DOUBLE_TO_BIGINT
                    if source == types.DOUBLE
                    else _DOUBLE_TO_BIGINT.replace("@0", "CAST(@0 AS DOUBLE)")
                )
            return f"CAST(rint({'@0' if source == types.DOUBLE else 'CAST(@0 AS DOUBLE)'}) AS {spark_type(target)})"
        return plain
    if target.name == "numeric" and types.floating(source):
        return _DOUBLE_TO_NUMERIC.replace("{0}", spark_type(target)) if source == types.DOUBLE else None
    if target == types.REAL and source == types.DOUBLE:
        return _DOUBLE_TO_REAL
    return plain
