"""An expression's tree → DuckDB's SQL with the values and errors of Postgres."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sinkql.logical import Call, Case, Cast, Expression, Interval, Literal, Reference, Type
from sinkql.logical.expression import walk

Form = str | Callable[[Call, list[str]], str]
"""A template, in which {0} is the first argument, or a function that writes the SQL."""

_TYPES = {
    "uint2": "USMALLINT",
    "uint4": "UINTEGER",
    "uint8": "UBIGINT",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "text": "VARCHAR",
    "uuid": "VARCHAR",
    "jsonb": "VARCHAR",
    "bytea": "BLOB",
}
_WHOLE = ("smallint", "integer", "bigint")
_UNSIGNED = ("uint2", "uint4", "uint8")
_FLOATS = ("real", "double precision")
_BITS = {"smallint": 15, "integer": 31, "bigint": 63}
_INSTANTS = ("timestamp", "timestamptz")
_BLANK = r"[ \t\n\r\f\x0B]*"
_NUMBER_TEXT = rf"{_BLANK}[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?{_BLANK}"
_YEAR = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_DATE_TEXT = rf"{_BLANK}{_YEAR}-[0-9]{{1,2}}-[0-9]{{1,2}}{_BLANK}"
_TIMESTAMP_TEXT = (
    rf"{_BLANK}{_YEAR}-[0-9]{{2}}-[0-9]{{2}}([ T][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}(\.[0-9]{{1,6}})?)?)?{_BLANK}"
)
_TRUE = "('t','tr','tru','true','y','ye','yes','on','1')"
_FALSE = "('f','fa','fal','fals','false','n','no','of','off','0')"


_BY_ZERO = "{0} IS NOT NULL AND {1} = 0"


class NoFormError(Exception):
    """DuckDB has no equivalent of an expression."""


def duck_sql(expression: Expression) -> str:
    """Return an expression as DuckDB's SQL, in brackets if it needs them; raise NoFormError if DuckDB has none."""
    match expression:
        case Reference():
            return quoted(expression.name)
        case Literal():
            return _literal(expression)
        case Cast():
            return _cast(duck_sql(expression.operand), expression.operand.type, expression.type)
        case Case():
            parts = [f"WHEN {duck_sql(each.when)} THEN {duck_sql(each.then)}" for each in expression.branches]
            parts += [] if expression.otherwise is None else [f"ELSE {duck_sql(expression.otherwise)}"]
            return f"(CASE {' '.join(parts)} END)"
        case Call():
            return _call(expression)


def quoted(name: str) -> str:
    """Return a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def duck_type(type_: Type) -> str:
    """Return DuckDB's name of a type."""
    if type_.name == "numeric":
        return f"DECIMAL({type_.precision},{type_.scale})"
    if type_.element is not None:
        raise NoFormError("arrays and lists")
    return _TYPES.get(type_.name, type_.name.upper())


def _call(call: Call) -> str:
    form = FORMS.get(call.function)
    if form is None:
        raise NoFormError(call.function)
    places = [duck_sql(each) for each in call.arguments]
    text = form.format(*places) if isinstance(form, str) else form(call, places)
    return f"({text})"


def _text(value: str) -> str:
    if "\0" in value:
        raise NoFormError("a text with U+0000")
    return "'" + value.replace("'", "''") + "'"


def _literal(literal: Literal) -> str:
    type_ = duck_type(literal.type) if literal.type.name != "unknown" else "VARCHAR"
    value = literal.value
    if value is None:
        return f"CAST(NULL AS {_TYPES.get(type_, type_)})"
    match value:
        case Interval():
            return f"(to_months({value.months}) + to_days({value.days}) + to_microseconds({value.micros}))"
        case bytes():
            return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
        case str():
            return _text(value)
        case _:
            return f"CAST({_text(literal.text or '')} AS {_TYPES.get(type_, type_)})"


def raised(message: str) -> str:
    """Return an expression that raises an error."""
    return f"error('{message}')"


def _guarded(test: str, value: str, message: str) -> str:
    return f"CASE WHEN {test} THEN {raised(message)} ELSE {value} END"


# --- operators -----------------------------------------------------------------------------------------------------


def _safe(expression: Expression) -> bool:
    """Return whether an expression never raises."""
    return all(
        isinstance(each, Reference | Literal)
        or (isinstance(each, Call) and each.function.split("(")[0] in _NEVER_RAISE)
        for each in walk(expression)
    )


_NEVER_RAISE = ("AND", "OR", "NOT", "=", "<>", "<", "<=", ">", ">=", "IN", "BETWEEN", "IS NULL", "IS TRUE", "IS FALSE")


def _logic(word: str, ends: str) -> Form:
    def form(call: Call, places: list[str]) -> str:
        plain = f" {word} ".join(places)
        if all(map(_safe, call.arguments[1:])):
            return plain
        # DuckDB evaluates all operands, so it must not see the operands after the deciding one
        tests = "".join(f" WHEN {place} IS {ends} THEN {ends}" for place in places[:-1])
        return f"CASE{tests} ELSE {plain} END"

    return form


def _in(call: Call, places: list[str]) -> str:
    subject, *values = places
    if all(map(_safe, call.arguments[1:])):
        return f"{subject} IN ({', '.join(values)})"
    tests = "".join(f" WHEN {subject} = {value} THEN true" for value in values)
    return f"CASE{tests} ELSE {subject} IN ({', '.join(values)}) END"


def _compared(operator: str) -> Form:
    def form(call: Call, places: list[str]) -> str:
        types = [each.type for each in call.arguments]
        if types[0].name == "numeric" and not _fits(*types):
            places = [f"CAST({place} AS DECIMAL(38,10))" for place in places]
        return f"{places[0]} {operator} {places[1]}"

    return form


def _fits(*types: Type) -> bool:
    digits = max((each.precision or 0) - (each.scale or 0) for each in types)
    return digits + max(each.scale or 0 for each in types) <= 38


def _between(call: Call, places: list[str]) -> str:
    types = [each.type for each in call.arguments]
    if types[0].name == "numeric" and not _fits(*types):
        places = [f"CAST({place} AS DECIMAL(38,10))" for place in places]
    return f"CASE WHEN {places[0]} < {places[1]} THEN false ELSE {places[0]} BETWEEN {places[1]} AND {places[2]} END"


def _numeric(operator: str) -> Form:
    def form(call: Call, places: list[str]) -> str:
        left, right = (f"CAST({place} AS DECIMAL(38,10))" for place in places)
        return f"CAST({left} {operator} {right} AS DECIMAL(38,10))"

    return form


def _product(call: Call, places: list[str]) -> str:
    # DuckDB raises if a product has more than 38 digits; its scale is the sum of both scales
    scales = [each.type.scale or 0 for each in call.arguments]
    if sum(scales) > 38:
        raise NoFormError("a product of more than 38 fraction digits")
    left, right = (f"CAST({place} AS DECIMAL(38,{scale}))" for place, scale in zip(places, scales, strict=True))
    return f"CAST({left} * {right} AS DECIMAL(38,10))"


_UNIT = 10**10


def _quotient(call: Call, places: list[str]) -> str:
    left, right = (f"CAST({place} AS DECIMAL(38,10))" for place in places)
    units = [f"CAST(replace(CAST({place} AS VARCHAR), '.', '') AS HUGEINT)" for place in (left, right)]
    rounded = f"((abs({units[0]}) * {2 * _UNIT} + abs({units[1]})) // (2 * abs({units[1]})))"
    sign = f"(CASE WHEN ({left} < 0) = ({right} < 0) THEN 1 ELSE -1 END)"
    whole, rest = f"({rounded} // {_UNIT})", f"lpad(CAST({rounded} % {_UNIT} AS VARCHAR), 10, '0')"
    value = f"{sign} * CAST(CAST({whole} AS VARCHAR) || '.' || {rest} AS DECIMAL(38,10))"
    null = f"WHEN {left} IS NULL OR {right} IS NULL THEN NULL"
    return f"CASE {null} WHEN {right} = 0 THEN {raised('division by zero')} ELSE {value} END"


def _float(operator: str, type_: str) -> str:
    """Return a sum, or a product, that raises on overflow. A product also raises if it underflows to 0."""
    name = _TYPES[type_]
    value = f"CAST({{0}} {operator} {{1}} AS {name})"
    tests = [f"isinf({value}) AND NOT isinf({{0}}) AND NOT isinf({{1}})"]
    if operator == "*":
        tests.append(f"{value} = 0 AND {{0}} <> 0 AND {{1}} <> 0")
    return _guarded(" OR ".join(tests), value, "value out of range")


def _whole_quotient(operator: str, type_: str) -> str:
    value = f"CAST({{0}}::HUGEINT {operator} {{1}}::HUGEINT AS {_TYPES.get(type_, type_)})"
    return _guarded(_BY_ZERO, value, "division by zero")


def _float_quotient(type_: str) -> str:
    value = f"CAST({{0}} / {{1}} AS {_TYPES[type_]})"
    return (
        f"CASE WHEN isnan({{0}}) AND {{1}} = 0 THEN {{0}} WHEN {_BY_ZERO} THEN {raised('division by zero')} "
        f"WHEN isinf({value}) AND NOT isinf({{0}}) OR {value} = 0 AND {{0}} <> 0 AND NOT isinf({{1}}) "
        f"THEN {raised('value out of range')} ELSE {value} END"
    )


def _known(call: Call, place: int) -> object:
    argument = call.arguments[place]
    if not isinstance(argument, Literal):
        raise NoFormError(f"{call.function} of an argument that is not constant")
    return argument.value


def _round(function: str) -> Form:
    def form(call: Call, places: list[str]) -> str:
        digits = _known(call, 1)
        if not isinstance(digits, int) or not 0 <= digits <= 10:
            raise NoFormError("rounding to tens")
        scaled = f"{function}({places[0]}, {digits})" if function == "round" else None
        if scaled is None:
            cut = f"CAST({places[0]} AS VARCHAR)"
            point = f"strpos({cut}, '.')"
            scaled = f"CASE WHEN {point} = 0 THEN {cut} ELSE left({cut}, {point} + {digits}) END"
        return f"CAST({scaled} AS DECIMAL(38,10))"

    return form


_OPERATORS: dict[str, Form] = {
    "AND(boolean…)": _logic("AND", "false"),
    "OR(boolean…)": _logic("OR", "true"),
    "NOT(boolean)": "NOT {0}",
    **{f"{operator}(any,any)": _compared(operator) for operator in ("=", "<>", "<", "<=", ">", ">=")},
    "BETWEEN(any,any,any)": _between,
    "IN(any,any…)": _in,
    "IS NULL(any)": "{0} IS NULL",
    "IS TRUE(boolean)": "{0} IS TRUE",
    "IS FALSE(boolean)": "{0} IS FALSE",
    "IS NOT DISTINCT FROM(any,any)": _compared("IS NOT DISTINCT FROM"),
    **{f"{sign}({type_},{type_})": f"{{0}} {sign} {{1}}" for sign in "+-*" for type_ in (*_WHOLE, *_UNSIGNED)},
    **{
        f"{operator}({type_},{type_})": _whole_quotient(duck, type_)
        for operator, duck in (("/", "//"), ("%", "%"))
        for type_ in (*_WHOLE, *_UNSIGNED)
    },
    **{f"{operator}({type_},{type_})": _float(operator, type_) for operator in "+-*" for type_ in _FLOATS},
    **{f"/({type_},{type_})": _float_quotient(type_) for type_ in _FLOATS},
    "+(numeric,numeric)": _numeric("+"),
    "-(numeric,numeric)": _numeric("-"),
    "*(numeric,numeric)": _product,
    "/(numeric,numeric)": _quotient,
    "%(numeric,numeric)": _guarded(_BY_ZERO, "CAST({0} % {1} AS DECIMAL(38,10))", "division by zero"),
    **{f"-({type_})": "-{0}" for type_ in (*_WHOLE, *_FLOATS, "numeric")},
    **{f"&({type_},{type_})": "{0} & {1}" for type_ in (*_WHOLE, *_UNSIGNED)},
    **{f"|({type_},{type_})": "{0} | {1}" for type_ in (*_WHOLE, *_UNSIGNED)},
    **{f"#({type_},{type_})": "xor({0}, {1})" for type_ in (*_WHOLE, *_UNSIGNED)},
    **{f"~({type_})": "~{0}" for type_ in (*_WHOLE, *_UNSIGNED)},
    "||(text,text)": "{0} || {1}",
    "||(bytea,bytea)": "{0} || {1}",
    **{f"+({type_},interval)": "{0} + {1}" for type_ in _INSTANTS},
    **{f"-({type_},interval)": "{0} - {1}" for type_ in _INSTANTS},
    **{
        f"{operator}(date,{type_})": f"{{0}} {operator} CAST({{1}} AS INTEGER)"
        for operator in "+-"
        for type_ in ("smallint", "integer")
    },
    "-(date,date)": "CAST({0} - {1} AS INTEGER)",
    "$sum(double precision,double precision)": _guarded("isinf({0}) AND NOT isinf({1})", "{0}", "value out of range"),
    "$avg(double precision,double precision,bigint)": _guarded(
        "isinf({0}) AND NOT isinf({1})", "{0} / nullif({2}, 0)", "value out of range"
    ),
}  # fmt: skip
_CONDITIONS: dict[str, Form] = {
    "coalesce(any…)": lambda call, places: f"coalesce({', '.join(places)})",
    "greatest(any…)": lambda call, places: f"greatest({', '.join(places)})",
    "least(any…)": lambda call, places: f"least({', '.join(places)})",
    "nullif(any,any)": "nullif({0}, {1})",
    "num_nulls(any…)": lambda call, places: " + ".join(f"({place} IS NULL)::INTEGER" for place in places),
    "num_nonnulls(any…)": lambda call, places: " + ".join(f"({place} IS NOT NULL)::INTEGER" for place in places),
}
_NUMBERS: dict[str, Form] = {
    **{f"abs({type_})": "abs({0})" for type_ in (*_WHOLE, *_FLOATS, "numeric")},
    "ceil(double precision)": "ceil({0})",
    "floor(double precision)": "floor({0})",
    "sign(double precision)": "CAST(CASE WHEN isnan({0}) THEN 0 ELSE sign({0}) END AS DOUBLE)",
    "ceil(numeric)": "CAST(ceil({0}) AS DECIMAL(38,10))",
    "floor(numeric)": "CAST(floor({0}) AS DECIMAL(38,10))",
    "sign(numeric)": "CAST(sign({0}) AS DECIMAL(38,10))",
    "sqrt(double precision)": _guarded("{0} < 0", "sqrt({0})", "cannot take square root of a negative number"),
    "ln(double precision)": _guarded("{0} <= 0", "ln({0})", "cannot take logarithm"),
    "log(double precision)": _guarded("{0} <= 0", "log10({0})", "cannot take logarithm"),
    "cbrt(double precision)": "cbrt({0})",
    "radians(double precision)": "radians({0})",
    "pi()": "pi()",
    "atan2(double precision,double precision)": "atan2({0}, {1})",
    "to_hex(bigint)": "lower(to_hex({0}))",
    "round(double precision)": "round_even({0}, 0)",
    "trunc(double precision)": "trunc({0})",
    "round(numeric,integer)": _round("round"),
    "trunc(numeric,integer)": _round("trunc"),
}
_TEXTS: dict[str, Form] = {
    "lower(text)": "lower({0})",
    "upper(text)": "upper({0})",
    "reverse(text)": "reverse({0})",
    "md5(text)": "md5({0})",
    "length(text)": "CAST(length({0}) AS INTEGER)",
    "char_length(text)": "CAST(length({0}) AS INTEGER)",
    "octet_length(text)": "CAST(strlen({0}) AS INTEGER)",
    "bit_length(text)": "CAST(8 * strlen({0}) AS INTEGER)",
    "length(bytea)": "CAST(octet_length({0}) AS INTEGER)",
    "octet_length(bytea)": "CAST(octet_length({0}) AS INTEGER)",
    "btrim(text)": "trim({0}, ' ')",
    "ltrim(text)": "ltrim({0}, ' ')",
    "rtrim(text)": "rtrim({0}, ' ')",
    "left(text,integer)": "left({0}, {1})",
    "right(text,integer)": "right({0}, {1})",
    "repeat(text,integer)": "repeat({0}, CASE WHEN {1} < 0 THEN 0 ELSE {1} END)",
    "replace(text,text,text)": "CASE WHEN {1} = '' AND {2} IS NOT NULL THEN {0} ELSE replace({0}, {1}, {2}) END",
    "strpos(text,text)": "CAST(strpos({0}, {1}) AS INTEGER)",
    "starts_with(text,text)": "starts_with({0}, {1})",
    "substring(text,integer)": "substring({0}, CASE WHEN {1} < 1 THEN 1 ELSE {1} END)",
    "substring(text,integer,integer)": _guarded(
        "{0} IS NOT NULL AND {1} IS NOT NULL AND {2} < 0",
        "CASE WHEN {1} >= 1 THEN substring({0}, {1}, {2}) WHEN {1}::BIGINT + {2} < 1 THEN left({0}, 0) "
        "ELSE substring({0}, 1, {1}::BIGINT + {2} - 1) END",
        "negative substring length",
    ),
    "concat(any…)": lambda call, places: f"concat({', '.join(places)})" if _all_text(call) else _refused(call),
}  # fmt: skip


def _all_text(call: Call) -> bool:
    return all(each.type.name == "text" for each in call.arguments)


def _refused(call: Call) -> str:
    raise NoFormError(call.function)


def _date_trunc(call: Call, places: list[str]) -> str:
    unit = _known(call, 0)
    if str(unit).lower() in ("century", "millennium"):  # these begin a year earlier in DuckDB
        return _refused(call)
    return f"CAST(date_trunc({_text(str(unit).lower())}, {places[1]}) AS {duck_type(call.type)})"


def _extract(call: Call, places: list[str]) -> str:
    field = str(_known(call, 0)).lower()
    if field not in ("year", "month", "day", "hour", "minute", "doy", "quarter", "week", "isodow", "isoyear", "dow"):
        return _refused(call)
    return f"CAST(extract({field} FROM {places[1]}) AS DECIMAL(38,10))"


_TIMES: dict[str, Form] = {
    **{f"date_trunc(text,{type_})": _date_trunc for type_ in _INSTANTS},
    "+(date,time)": "{0} + {1}",
    "+(time,interval)": "{0} + {1}",
    "-(time,interval)": "{0} - {1}",
    **{f"EXTRACT(text,{type_})": _extract for type_ in ("date", *_INSTANTS)},
    "AT TIME ZONE(timestamptz,text)": "{0} AT TIME ZONE {1}",
    "AT TIME ZONE(timestamp,text)": "{0} AT TIME ZONE {1}",
}
FORMS: Mapping[str, Form] = {**_OPERATORS, **_CONDITIONS, **_NUMBERS, **_TEXTS, **_TIMES}
"""DuckDB's equivalents of functions, by function id."""


# --- casts ---------------------------------------------------------------------------------------------------------


def _cast(operand: str, source: Type, target: Type) -> str:
    name = duck_type(target)
    plain = f"CAST({operand} AS {name})"
    match source.name, target.name:
        case "text", "text":
            return operand
        case "text", other:
            return _from_text(operand, other, plain)
        case "timestamptz", "time":
            return f"CAST(CAST({operand} AS TIMESTAMP) AS TIME)"
        case "bytea", "text":
            return f"('\\x' || lower(hex({operand})))"
        case "uuid", "text":
            return operand
        case (("real" | "double precision"), "numeric"):
            raise NoFormError("a cast of floats to numeric")
        case "double precision", "real":
            finite = f"abs({operand}) > 3.4028235677973362e38 AND isfinite({operand})"
            test = f"{finite} OR {plain} = 0 AND {operand} <> 0"
            return f"({_guarded(test, plain, 'value out of range')})"
        case "integer", "boolean":
            return f"({operand} <> 0)"
        case (("real" | "double precision"), whole) if whole in _BITS:
            nearest, bound = f"round_even({operand}, 0)", 2 ** _BITS[whole]
            test = f"NOT ({nearest} >= -{bound}::DOUBLE AND {nearest} < {bound}::DOUBLE)"
            return f"({_guarded(test, f'CAST({nearest} AS {name})', 'out of range')})"
        case _:
            return plain


def _from_text(operand: str, target: str, plain: str) -> str:
    match target:
        case "smallint" | "integer" | "bigint" | "uint2" | "uint4" | "uint8":
            test = rf"NOT regexp_full_match({operand}, '{_BLANK}[+-]?[0-9]+{_BLANK}')"
            return f"({_guarded(test, plain, 'invalid input syntax')})"
        case "numeric":
            test = f"NOT regexp_full_match({operand}, '{_NUMBER_TEXT}')"
            return f"({_guarded(test, plain, 'invalid input syntax')})"
        case "boolean":
            text = f"lower(trim({operand}, ' \t\n\r\f\v'))"
            return (
                f"(CASE WHEN {text} IS NULL THEN NULL WHEN {text} IN {_TRUE} THEN true "
                f"WHEN {text} IN {_FALSE} THEN false ELSE {raised('invalid input syntax')} END)"
            )
        case "date":
            test = f"NOT regexp_full_match({operand}, '{_DATE_TEXT}')"
            return f"({_guarded(test, plain, 'unsupported date format')})"
        case "timestamp":
            zone = "' ?(Z|[+-](0[0-9]|1[0-5])(:?[0-9]{2})?)[ \\t\\n\\r\\f\\x0B]*$'"
            operand = (
                f"(CASE WHEN contains({operand}, ':') THEN regexp_replace({operand}, {zone}, '') ELSE {operand} END)"
            )
            plain = f"CAST({operand} AS TIMESTAMP)"
            test = f"NOT regexp_full_match({operand}, '{_TIMESTAMP_TEXT}')"
            return f"({_guarded(test, plain, 'unsupported timestamp format')})"
        case _:
            raise NoFormError(f"a cast of text to {target}")
