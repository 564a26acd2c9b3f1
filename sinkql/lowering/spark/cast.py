"""Conversions → Spark SQL that gives what Postgres gives, or raises where Postgres raises."""

from __future__ import annotations

from sinkql.logical import Cast, Type, moment
from sinkql.lowering.spark.text import PREDICATE, Form, raised, spark_type

_BLANK = r"[ \t\n\r\f\x0B]*"
_DIGITS = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_IS_NUMBER = f"r'^{_BLANK}{_DIGITS}{_BLANK}$'"
_IS_SPECIAL = f"r'(?i)^{_BLANK}[+-]?(nan|inf|infinity){_BLANK}$'"
_IS_UUID = r"r'^(([0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4}|\{([0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4}\})$'"
_TRUE = "('t','tr','tru','true','y','ye','yes','on','1')"
_FALSE = "('f','fa','fal','fals','false','n','no','of','off','0')"
_TRIMMED = r"lower(trim(BOTH ' \t\n\r\u000C\u000B' FROM @0))"


def _checked(test: str, value: str, spark: str, message: str) -> str:
    return f"CASE WHEN @0 IS NULL OR @0 RLIKE {test} THEN {value} ELSE CAST(raise_error('{message}') AS {spark}) END"


_HEAD = f"^{_BLANK}"
_READ = rf"{_BLANK}[0-9]+-[0-9]+-[0-9]+(?:(?:T|{moment.BLANK}+)[0-9:.]+)?"
_NO_SECONDS = rf"(?i)^({_BLANK}[0-9]+-[0-9]+-[0-9]+(?:T|{moment.BLANK}+)[0-9]+:[0-9]+)(?![0-9:])"
_WITH_SECONDS = f"regexp_replace($text, r'{_NO_SECONDS}', '$1:00')"  # Spark reads no zone after minutes
_CANONICAL = f"{_WITH_SECONDS}, r'(?i)^({_READ}){_BLANK}((?:Z|UTC|[+-].*)?)$'"


def _by_month(form: str, *, month: int, day: int, year: int = 3) -> str:
    """Return a text with the date at its head written in digits."""
    head = f"r'(?i){_HEAD}{form}'"
    name = f"lower(left(regexp_extract(@0, {head}, {month}), 3))"
    number = f"CAST((instr('{moment.MONTHS}', {name}) + 3) div 4 AS STRING)"
    parts = f"regexp_extract(@0, {head}, {year}), '-', {number}, '-', regexp_extract(@0, {head}, {day})"
    return f"concat({parts}, regexp_replace(@0, {head}, ''))"


def _by_digits(form: str, parts: str = "$1-$2-$3") -> str:
    return f"regexp_replace(@0, r'{_HEAD}{form}', '{parts}')"


_DATES = {
    moment.DASHES: "@0",
    moment.SLASHES: _by_digits(moment.SLASHES),
    moment.DIGITS: _by_digits(moment.DIGITS),
    moment.MONTH_FIRST: _by_month(moment.MONTH_FIRST, month=1, day=2),
    moment.DAY_FIRST: _by_month(moment.DAY_FIRST, month=2, day=1),
    moment.YEAR_FIRST: _by_month(moment.YEAR_FIRST, month=2, day=3, year=1),
    moment.AMERICAN: _by_digits(moment.AMERICAN, "$3-$1-$2"),
    moment.AMERICAN_DASHES: _by_digits(moment.AMERICAN_DASHES, "$3-$1-$2"),
}


def _moment(name: str, spark: str, value: str) -> str:
    """Return a date or time out of its text; `value` is made of a text that begins with year-month-day, $text."""
    read = []
    for form, _, tail in moment.FORMS:
        hours = tail.replace("2[0-4]", "2[0-3]")  # Spark has no hour 24
        made = value.replace("$text", _DATES[form])
        read.append(f"WHEN @0 RLIKE r'(?i){_HEAD}{form}{hours}{_BLANK}$' THEN CAST({made} AS {spark})")
    failed = f"CAST(raise_error(concat('unsupported {name} format: ', @0)) AS {spark})"
    return f"CASE WHEN @0 IS NULL THEN NULL {' '.join(read)} ELSE {failed} END"


_FROM_TEXT = {
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
    "date": _moment("date", "DATE", "$text"),
    "timestamp": _moment("timestamp", "TIMESTAMP_NTZ", f"regexp_replace({_CANONICAL}, '$1')"),
    "timestamptz": _moment("timestamptz", "TIMESTAMP", f"upper(regexp_replace({_CANONICAL}, '$1$2'))"),
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


def _shown(least: str) -> str:
    """Return a date or time as text: Spark has a sign before years that have five digits, or are before Christ."""
    early = raised("the text of a date before the year 1 is not supported", "STRING")
    return f"IF(@0 < {least}, {early}, trim(LEADING '+' FROM CAST(@0 AS STRING)))"


_TO_TEXT = {
    "date": _shown("DATE'0001-01-01'"),
    "timestamp": _shown("TIMESTAMP_NTZ'0001-01-01'"),
    "timestamptz": "concat(" + _shown("TIMESTAMP'0001-01-01 00:00:00 UTC'") + ", '+00')",
    "bytea": r"concat('\\x', lower(hex(@0)))",
    "uuid": "@0",
}
_WHOLE = ("smallint", "integer", "bigint")


def cast_form(cast: Cast) -> Form:
    """Return the form of a cast, by its types; what has none of its own is Spark's plain CAST."""
    source, target = cast.operand.type, cast.type
    if (source.name, target.name) == ("integer", "boolean"):
        return Form("@0 <> 0", PREDICATE)
    return Form(_template(source, target) or f"CAST(@0 AS {spark_type(target)})")


def _template(source: Type, target: Type) -> str | None:
    spark = spark_type(target)
    match source.name, target.name:
        case "text", "numeric":
            return _checked(_IS_NUMBER, f"CAST(@0 AS {spark})", spark, "invalid input syntax for type numeric")
        case "text", name:
            return _FROM_TEXT.get(name)
        case name, "text":
            return _TO_TEXT.get(name)
        case "numeric", name if name in _WHOLE:
            return f"CAST(round(@0, 0) AS {spark})"
        case ("real" | "double precision") as name, "bigint":
            return _DOUBLE_TO_BIGINT.replace("@0", _double(name))
        case ("real" | "double precision") as name, ("smallint" | "integer"):
            return f"CAST(rint({_double(name)}) AS {spark})"
        case "double precision", "numeric":
            return _DOUBLE_TO_NUMERIC.replace("{0}", spark)
        case "double precision", "real":
            return _DOUBLE_TO_REAL
        case _:
            return None


def _double(source: str) -> str:
    return "@0" if source == "double precision" else "CAST(@0 AS DOUBLE)"
