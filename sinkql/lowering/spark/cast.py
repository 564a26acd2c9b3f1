"""Write casts as Spark SQL with the results and errors of Postgres."""

from __future__ import annotations

from sinkql.logical import Cast, Type, time
from sinkql.logical.numeric_type import SIGNED, UNSIGNED
from sinkql.logical.range import SUBTYPES
from sinkql.lowering.spark.sql import PREDICATE, Form, raised, spark_type, within

READ_JSON = "sinkql_read_json"
"""A Python function of every session: returns JSON text as jsonb, or an error message behind a !."""

_BLANK = r"[ \t\n\r\f\x0B]*"
_DIGITS = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
_IS_NUMBER = f"r'^{_BLANK}{_DIGITS}{_BLANK}$'"
_IS_SPECIAL = f"r'(?i)^{_BLANK}[+-]?(nan|inf|infinity){_BLANK}$'"
_IS_UUID = r"r'^(([0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4}|\{([0-9a-fA-F]{4}-?){7}[0-9a-fA-F]{4}\})\z'"
_TRUE = "('t','tr','tru','true','y','ye','yes','on','1')"
_FALSE = "('f','fa','fal','fals','false','n','no','of','off','0')"
_TRIMMED = r"lower(trim(BOTH ' \t\n\r\u000C\u000B' FROM @0))"


def _checked(test: str, value: str, spark: str, message: str) -> str:
    return f"CASE WHEN @0 IS NULL OR @0 RLIKE {test} THEN {value} ELSE CAST(raise_error('{message}') AS {spark}) END"


_DAY_TEXT = "^(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_INNER_DAY_TEXT = _DAY_TEXT.replace("0000", "0000|0001|9999")
_CLOCK_TEXT = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_PLAIN = {
    "date": f"r'{_DAY_TEXT}$'",
    "timestamp": f"r'{_DAY_TEXT}(?:[T ]{_CLOCK_TEXT})?$'",
    "timestamptz": f"r'{_INNER_DAY_TEXT}(?:[T ]{_CLOCK_TEXT}(?:Z|[+-](?:0[0-9]|1[0-5]):[0-5][0-9])?)?$'",
}
"""The texts that Spark reads like Postgres, but faster; zones lead out of the first and last year."""
_PARTS = "YMDhmsfp+HO"


def _parted() -> str:
    """Return the text with its parts between bars; unchanged if it is not a date."""
    text = f"regexp_replace(@0, r'(?i)^{_BLANK}epoch{_BLANK}$', '1970|1|1||||||||')"
    for form, order in time.FORMS:
        parts = "|".join(f"${order.index(part) + 1}" for part in _PARTS)
        text = f"regexp_replace({text}, r'(?i)^{_BLANK}{form}{_BLANK}$', '{parts}')"
    return text


_PART = {name: f"`$p`[{place}]" for place, name in enumerate(_PARTS)}
_COUNT = {name: f"CAST(concat('0', {_PART[name]}) AS INT)" for name in "hmHO"}
_YEAR = "concat(CASE WHEN length({Y}) = 4 THEN '' WHEN {Y} < '70' THEN '20' ELSE '19' END, {Y})".format_map(_PART)
_MONTH = (
    f"IF({_PART['M']} RLIKE '[0-9]', {_PART['M']}, "
    f"CAST((instr('{time.MONTHS}', lower(left({_PART['M']}, 3))) + 3) div 4 AS STRING))"
)
_DATE = f"CAST(concat({_YEAR}, '-', {_MONTH}, '-', {_PART['D']}) AS DATE)"
_HOURS = "CASE upper({p}) WHEN '' THEN {{h}} WHEN 'AM' THEN {{h}} % 12 ELSE {{h}} % 12 + 12 END".format_map(
    _PART
).format_map(_COUNT)
_SECONDS = "CAST(concat('0', {s}, {f}) AS DECIMAL(18,6))".format_map(_PART)
_CLOCK = f"make_dt_interval(0, {_HOURS}, {_COUNT['m']}, {_SECONDS})"
_AHEAD = f"IF({_PART['+']} = '-', -1, 1) * make_dt_interval(0, {_COUNT['H']}, {_COUNT['O']})"


def _moment(name: str, spark: str, value: str) -> str:
    """Return a date or time from its text; `value` is an expression of the text's parts in $p, by their places."""
    failed = f"CAST(raise_error(concat('unsupported {name} format: ', @0)) AS {spark})"
    parts = f"transform(array(split(`$t`, '[|]')), `$p` -> {value})[0]"
    read = f"transform(array({_parted()}), `$t` -> IF(`$t` = @0, {failed}, {parts}))[0]"
    return f"CASE WHEN @0 IS NULL THEN NULL WHEN @0 RLIKE {_PLAIN[name]} THEN CAST(@0 AS {spark}) ELSE {read} END"


def _time(name: str, spark: str, value: str, zone: str = "") -> str:
    """Return a time from its text, in the years 1 to 9999, since 24:00 and zones may lead out of them."""
    bounds = f"{spark}'0001-01-01 00:00:00{zone}' AND {spark}'9999-12-31 23:59:59.999999{zone}'"
    failed = f"CAST(raise_error(concat('{name} out of range: ', @0)) AS {spark})"
    return _moment(name, spark, f"transform(array({value}), `$m` -> IF(`$m` BETWEEN {bounds}, `$m`, {failed}))[0]")


def _time_of_day() -> str:
    """Return the microseconds of a time of day from its text."""
    parts = "|".join(f"${time.TIME_PARTS.index(part) + 1}" for part in "hmsfp")
    form = f"r'(?i)^{_BLANK}{time.TIME_FORM}{_BLANK}$'"
    part = {name: f"`$p`[{place}]" for place, name in enumerate("hmsfp")}
    hour = f"CAST({part['h']} AS INT)"
    half = f"CASE upper({part['p']}) WHEN '' THEN {hour} WHEN 'AM' THEN {hour} % 12 ELSE {hour} % 12 + 12 END"
    seconds = f"CAST(CAST(concat('0', {part['s']}, {part['f']}) AS DECIMAL(18,6)) * 1000000 AS BIGINT)"
    micros = f"({half}) * 3600000000L + CAST({part['m']} AS INT) * 60000000L + {seconds}"
    read = f"transform(array(split(regexp_replace(@0, {form}, '{parts}'), '[|]')), `$p` -> {micros})[0]"
    failed = "CAST(raise_error(concat('unsupported time format: ', @0)) AS BIGINT)"
    late = f"@0 RLIKE r'^{_BLANK}[Tt]?24'"
    return f"CASE WHEN @0 IS NULL THEN NULL WHEN NOT @0 RLIKE {form} OR {late} THEN {failed} ELSE {read} END"


# Spark reads numbers of up to 38 digits as decimals, and longer ones, or those with an exponent, as double precision
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
    "date": _moment("date", "DATE", _DATE),
    "time": _time_of_day(),
    "timestamp": _time("timestamp", "TIMESTAMP_NTZ", f"CAST({_DATE} AS TIMESTAMP_NTZ) + {_CLOCK}"),
    "timestamptz": _time("timestamptz", "TIMESTAMP", f"CAST({_DATE} AS TIMESTAMP) + {_CLOCK} - {_AHEAD}", zone=" UTC"),
    "uuid": (
        f"CASE WHEN @0 IS NULL THEN NULL WHEN @0 RLIKE {_IS_UUID} "
        "THEN regexp_replace(lower(regexp_replace(@0, '[{}-]', '')), "
        "'^(.{8})(.{4})(.{4})(.{4})(.{12})$', '$1-$2-$3-$4-$5') "
        "ELSE CAST(raise_error('invalid input syntax for type uuid') AS STRING) END"
    ),
    "bytea": (
        r"CASE WHEN @0 IS NULL THEN NULL WHEN @0 RLIKE r'^\\x([0-9a-fA-F][0-9a-fA-F])*\z' THEN unhex(substring(@0, 3)) "
        r"WHEN contains(@0, r'\') THEN CAST(raise_error('unsupported bytea text') AS BINARY) "
        "ELSE encode(@0, 'UTF-8') END"
    ),
}  # fmt: skip

# A product of doubles and its rounding error, by halves of their digits (T. J. Dekker, 1971).
_HALF_DIGITS = "{0} * 134217729D - ({0} * 134217729D - {0})"
_PRODUCT_LESS = (
    "transform(array(named_struct('a', {u}, 'b', {v}, 'w', {w})), `$p` -> transform(array(named_struct("
    f"'h', {_HALF_DIGITS.format('`$p`.a')}, 'i', {_HALF_DIGITS.format('`$p`.b')})), `$h` -> "
    "(`$p`.a * `$p`.b - `$p`.w) + ((((`$h`.h * `$h`.i - `$p`.a * `$p`.b) + `$h`.h * (`$p`.b - `$h`.i)) "
    "+ (`$p`.a - `$h`.h) * `$h`.i) + (`$p`.a - `$h`.h) * (`$p`.b - `$h`.i)))[0])[0]"
)


def _float_to_numeric(source: str, target: str) -> str:
    """Return the form of a cast that keeps 15 digits of a double, or 6 of a real, as C prints them.

    Java rounds the shortest text of a number. If that text has more digits, twice the number is compared with the
    whole numbers next to twice its digits, which is exact for exact powers of ten.
    """
    digits, spark = (15, "DOUBLE") if source == "double precision" else (6, "FLOAT")
    scaled = "power(10D, abs(`$d`.q))"
    above = _PRODUCT_LESS.format(u="2D * `$d`.x", v=scaled, w="`$c`")
    below = f"-{_PRODUCT_LESS.format(u='`$c`', v=scaled, w='2D * `$d`.x')}"
    signs = (
        "transform(array(CAST(2 * `$d`.m + 1 AS DOUBLE), CAST(2 * `$d`.m - 1 AS DOUBLE)), "
        f"`$c` -> CASE WHEN abs(`$d`.q) > 22 THEN NULL WHEN `$d`.q >= 0 THEN {above} ELSE {below} END)"
    )
    step = (
        f"transform(array({signs}), `$r` -> CASE WHEN `$r`[0] > 0 OR `$r`[0] = 0 AND `$d`.m % 2 = 1 THEN 1 "
        "WHEN `$r`[1] < 0 OR `$r`[1] = 0 AND `$d`.m % 2 = 1 THEN -1 ELSE 0 END)[0]"
    )
    parts = (
        "named_struct('x', CAST(abs(@0) AS DOUBLE), 'm', CAST(replace(regexp_extract(`$e`, '([0-9.]+)e', 1), '.', '') "
        f"AS BIGINT), 'q', {digits - 1} - CAST(regexp_extract(`$e`, 'e([+-][0-9]+)', 1) AS INT))"
    )
    rounded = f"concat(IF(@0 < 0, '-', ''), `$d`.m + {step}, 'e', -`$d`.q)"
    exact = f"transform(array({parts}), `$d` -> CAST({rounded} AS {target}))[0]"
    return (
        # NULL first: format_string prints it as null
        f"CASE WHEN @0 IS NULL THEN NULL WHEN isnan(@0) OR abs(@0) = {spark.lower()}('Infinity') "
        f"THEN {raised('cannot convert NaN or infinity to numeric', target)} "
        f"ELSE transform(array(format_string('%.{digits - 1}e', @0)), `$e` -> "
        f"IF(CAST(CAST(`$e` AS DOUBLE) AS {spark}) = @0, CAST(`$e` AS {target}), {exact}))[0] END"
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
    """Return a date or time as text; Spark writes a sign before years with five digits and years before Christ."""
    early = raised("the text of a date before the year 1 is not supported", "STRING")
    return f"IF(@0 < {least}, {early}, trim(LEADING '+' FROM CAST(@0 AS STRING)))"


TO_TEXT = {
    "date": _shown("DATE'0001-01-01'"),
    "time": "substring(CAST(timestamp_micros(@0) AS STRING), 12)",
    "timestamp": _shown("TIMESTAMP_NTZ'0001-01-01'"),
    "timestamptz": "concat(" + _shown("TIMESTAMP'0001-01-01 00:00:00 UTC'") + ", '+00')",
    "bytea": r"concat('\\x', lower(hex(@0)))",
    "uuid": "@0",
    "interval": "@0",
    "jsonb": "@0",
    **dict.fromkeys(SUBTYPES, "@0"),
}
"""The text forms of values, by the names of their types."""
_OF_DAY = "pmod(unix_micros(@0), 86400000000L)"
_IS_WHOLE = f"r'^{_BLANK}[+-]?[0-9]+{_BLANK}$'"
_NOT_WHOLE = "invalid input syntax for type {}"
_HALF = "9223372036854775808"
_UINT8 = (  # Spark makes a decimal from the shortest digits that identify a double
    f"CASE WHEN @0 < 0 OR @0 >= 18446744073709551616D THEN {raised('uint8 out of range', 'DECIMAL(20,0)')} "
    f"WHEN @0 < {_HALF}D THEN CAST(CAST(@0 AS BIGINT) AS DECIMAL(20,0)) "
    f"ELSE CAST(CAST(@0 - {_HALF}D AS BIGINT) + {_HALF}BD AS DECIMAL(20,0)) END"
)


_READ_JSON = Form(
    f"IF(left({READ_JSON}(@0), 1) = '!', CAST(raise_error(substring({READ_JSON}(@0), 2)) AS STRING), {READ_JSON}(@0))",
    apart=True,
)


def cast_form(cast: Cast) -> Form:
    """Return the form of a cast by its types; the default is Spark's plain CAST."""
    source, target = cast.operand.type, cast.type
    if (source.name, target.name) == ("integer", "boolean"):
        return Form("@0 <> 0", PREDICATE)
    if (source.name, target.name) == ("text", "jsonb"):
        return _READ_JSON
    return Form(_template(source, target) or f"CAST(@0 AS {spark_type(target)})")


def _template(source: Type, target: Type) -> str | None:
    spark = spark_type(target)
    if target.name in UNSIGNED:
        return _unsigned(source, target)
    match source.name, target.name:
        case "text", "numeric":
            return _checked(_IS_NUMBER, f"CAST(@0 AS {spark})", spark, "invalid input syntax for type numeric")
        case "text", name:
            return _FROM_TEXT.get(name)
        case name, "text":
            return TO_TEXT.get(name)
        case "timestamp", "time":
            return _OF_DAY.replace("@0", "CAST(@0 AS TIMESTAMP)")
        case "timestamptz", "time":
            return _OF_DAY
        case "numeric", name if name in SIGNED:
            return f"CAST(round(@0, 0) AS {spark})"
        case ("real" | "double precision") as name, "bigint":
            return _DOUBLE_TO_BIGINT.replace("@0", _double(name))
        case ("real" | "double precision") as name, ("smallint" | "integer"):
            return f"CAST(rint({_double(name)}) AS {spark})"
        case ("real" | "double precision") as name, "numeric":
            return _float_to_numeric(name, spark)
        case "double precision", "real":
            return _DOUBLE_TO_REAL
        case (("integer" | "bigint" | "uint4"), "real"):  # Spark optimizes a FLOAT between an INT and a DOUBLE away
            return "CAST(CAST(@0 AS DECIMAL(20,0)) AS FLOAT)"
        case _:
            return None


def _unsigned(source: Type, target: Type) -> str:
    """Return the form of a cast to an unsigned integer."""
    match source.name:
        case "text":
            value = _checked(_IS_WHOLE, "CAST(@0 AS DECIMAL(38,0))", "DECIMAL(38,0)", _NOT_WHOLE.format(target))
            return f"transform(array({value}), `$u` -> {within('`$u`', target)})[0]"
        case "numeric":
            return within("round(@0, 0)", target)
        case ("real" | "double precision") as name if target.name == "uint8":
            return _UINT8.replace("@0", f"rint({_double(name)})")
        case ("real" | "double precision") as name:
            return within(f"rint({_double(name)})", target)
        case name if name in UNSIGNED and UNSIGNED.index(name) < UNSIGNED.index(target.name):
            return f"CAST(@0 AS {spark_type(target)})"
        case _:
            return within("@0", target)


def _double(source: str) -> str:
    return "@0" if source == "double precision" else "CAST(@0 AS DOUBLE)"
