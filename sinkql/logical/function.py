"""SinkQL's list of operators, functions, casts and aggregates, each with the version of its meaning.

An entry has a function's parameters, result and nullability. The planner, lowering, evaluation and printer find their
parts of a function by the same id, `name(parameters)`. A parameter is a type's name, or `any` for any type; `…` after
the last parameter means one or more. The planner computes a result `any`.

The version increases if the same call returns other values than before for any row: it is in the identity of every plan
that contains the call. A faster or safer implementation with the same values keeps the version. If only some constants
change the values, `meaning_version` counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from sinkql.errors import Span
from sinkql.logical.expression import NOWHERE, Call, Cast, Expression
from sinkql.logical.meaning_version import meaning_offset
from sinkql.logical.numeric_type import SIGNED, UNSIGNED
from sinkql.logical.range import SUBTYPES
from sinkql.logical.type import NUMERIC, Type

ANY = "any"
MORE = "…"


class Nullable(StrEnum):
    """When a call's result may be NULL."""

    STRICT = "an argument may be NULL"
    ALL = "all arguments may be NULL"
    ALWAYS = "always"
    FIRST = "the first argument may be NULL"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Function:
    """One overload; the planner computes a result of None. Names that begin with $ are internal."""

    name: str
    parameters: tuple[str, ...]
    result: Type | None
    nullable: Nullable = Nullable.STRICT
    version: int = 1

    @property
    def id(self) -> str:
        return f"{self.name}({','.join(self.parameters)})"


def call(function: str, arguments: Sequence[Expression], span: Span = NOWHERE, *, type_: Type | None = None) -> Call:
    """Return the call of a function by its id; `type_` is required if the list has no result type."""
    found = FUNCTIONS[function]
    result = found.result or type_
    assert result is not None, function
    version = found.version + meaning_offset(function, arguments)
    return Call(function, version, tuple(arguments), result, _nullable(found, arguments), span)


def _nullable(function: Function, arguments: Sequence[Expression]) -> bool:
    match function.nullable:
        case Nullable.STRICT:
            return any(argument.nullable for argument in arguments)
        case Nullable.ALL:
            return all(argument.nullable for argument in arguments)
        case Nullable.FIRST:
            return arguments[0].nullable
        case Nullable.ALWAYS:
            return True
        case Nullable.NEVER:
            return False


def cast(operand: Expression, target: Type, span: Span | None = None) -> Cast:
    """Return an expression cast to another type; the cast must be in the list."""
    version = CASTS[operand.type.name, target.name]
    return Cast(operand, target, version, operand.span if span is None else span)


def whole_divisor(divisor: Expression) -> bool:
    """Return whether a numeric is a whole number that fits bigint, so that an exact numeric is divided by it."""
    if isinstance(divisor, Cast) and divisor.operand.type.name in (*SIGNED, "uint2", "uint4"):
        return True
    return divisor.type.scale == 0 and (divisor.type.precision or 0) <= 19


_ENTRY = re.compile(r"(.+?)\((.*)\) → ([a-z0-9 ]+)")


def _entries(*signatures: str, nullable: Nullable = Nullable.STRICT, version: int = 1) -> Iterable[Function]:
    """Parse entries written as `name(parameter,parameter) → result`."""
    for signature in signatures:
        match = _ENTRY.fullmatch(signature)
        assert match is not None, signature
        parameters = tuple(match[2].split(",")) if match[2] else ()
        result = None if match[3] == ANY else NUMERIC if match[3] == "numeric" else Type(match[3])
        yield Function(match[1], parameters, result, nullable, version)


def _each(signature: str, *types: str) -> list[str]:
    """Return the signature once for each type, which replaces T."""
    return [re.sub(r"\bT\b", type_, signature) for type_ in types]


_NUMBERS = (*SIGNED, "numeric", "real", "double precision")
_INSTANTS = ("timestamp", "timestamptz")

_ROUNDED = "/(numeric,numeric) → numeric"

_OPERATORS = (
    *_entries(
        "AND(boolean…) → boolean",
        "OR(boolean…) → boolean",
        "NOT(boolean) → boolean",
        *(f"{operator}(any,any) → boolean" for operator in ("=", "<>", "<", "<=", ">", ">=")),
        *(f"{operator}(interval,interval) → boolean" for operator in ("=", "<>", "<", "<=", ">", ">=")),
        "BETWEEN(any,any,any) → boolean",
        "IN(any,any…) → boolean",
    ),
    *_entries(
        "IS NULL(any) → boolean",
        "IS TRUE(boolean) → boolean",
        "IS FALSE(boolean) → boolean",
        "IS NOT DISTINCT FROM(any,any) → boolean",
        "IS NOT DISTINCT FROM(interval,interval) → boolean",
        nullable=Nullable.NEVER,
    ),
    *_entries(
        *(each for operator in "+-*/" for each in _each(f"{operator}(T,T) → T", *_NUMBERS) if each not in _ROUNDED),
        *(each for operator in "+-*/" for each in _each(f"{operator}(T,T) → T", *UNSIGNED)),
        *_each("%(T,T) → T", *SIGNED, *UNSIGNED, "numeric"),
        *_each("-(T) → any", *SIGNED, "real", "double precision"),
        *(each for operator in "&|#" for each in _each(f"{operator}(T,T) → T", *SIGNED, *UNSIGNED)),
        *_each("<<(T,integer) → T", "integer", "bigint"),
        *_each(">>(T,integer) → T", "integer", "bigint"),
        *_each("~(T) → T", *SIGNED, *UNSIGNED),
        *_each("||(T,T) → T", "text", "bytea"),
    ),
    # several steps (`evaluate.exact`) over numerics, rounded once
    *_entries("$exact(text,any…) → any"),
    # more than 34 digits, rounded once
    *_entries("-(numeric) → any", _ROUNDED, version=2),
    *_entries(
        *_each("+(T,interval) → T", *_INSTANTS),
        *_each("-(T,interval) → T", *_INSTANTS),
        *_each("T(time,interval) → time", "+", "-"),
        "+(date,time) → timestamp",
        *_each("-(T,T) → interval", *_INSTANTS),
        *_each("*(T,interval) → interval", *SIGNED),
        # an interval as columns store it, and its order
        "$held(interval) → interval",
        "$order(interval) → any",
        *_each("+(date,T) → date", "smallint", "integer"),
        *_each("-(date,T) → date", "smallint", "integer"),
        "-(date,date) → integer",
    ),
)
_AGGREGATE_RESULTS = _entries(
    # a sum of double precision, guarded by the greatest absolute input
    "$sum(double precision,double precision) → double precision",
    # the same divided by a count
    "$avg(double precision,double precision,bigint) → double precision",
    # the root of a variance, with 15 digits
    "$root(numeric) → numeric",
    nullable=Nullable.ALWAYS,
)

_NUMBER = (
    *_entries(
        *_each("abs(T) → T", "double precision", "smallint", "integer", "bigint", "real"),
        *(
            each
            for name in ("ceil", "floor", "sign")
            for each in _each(f"{name}(T) → T", "double precision", "numeric")
        ),
        *(
            f"{name}(double precision) → double precision"
            for name in ("sqrt", "ln", "log", "exp", "cbrt", "degrees", "sin", "cos", "tan")
        ),
        "power(double precision,double precision) → double precision",
        "to_hex(bigint) → text",
        "to_hex(integer) → text",
        "round(double precision) → double precision",
        "round(numeric,integer) → numeric",
        "trunc(double precision) → double precision",
        "trunc(numeric,integer) → numeric",
    ),
    *_entries(
        "abs(numeric) → numeric",
        "radians(double precision) → double precision",
        "atan2(double precision,double precision) → double precision",
        "factorial(bigint) → numeric",
        "width_bucket(double precision,double precision,double precision,integer) → integer",
        "div(numeric,numeric) → numeric",
        version=2,
    ),
    *_entries("pi() → double precision", nullable=Nullable.NEVER),
)

_CONDITION = (
    *_entries("coalesce(any…) → any", "greatest(any…) → any", "least(any…) → any", nullable=Nullable.ALL),
    *_entries("nullif(any,any) → any", nullable=Nullable.ALWAYS),
    *_entries("num_nulls(any…) → integer", "num_nonnulls(any…) → integer", nullable=Nullable.NEVER),
)
_JSONB = (
    *_entries("->>(jsonb,text) → text", "#>>(jsonb,text) → text", "#>(jsonb,text) → jsonb", nullable=Nullable.ALWAYS),
    # in Postgres's text with every engine; a null element is NULL
    *_entries(
        "->(jsonb,text) → jsonb",
        "->(jsonb,integer) → jsonb",
        "->>(jsonb,integer) → text",
        nullable=Nullable.ALWAYS,
        version=2,
    ),
    *_entries(
        "?(jsonb,text) → boolean",
        "@>(jsonb,text) → boolean",
        "jsonb_typeof(jsonb) → text",
        "jsonb_array_length(jsonb) → integer",
        *_each("to_jsonb(T) → jsonb", "text", "integer", "smallint", "bigint", "boolean", "numeric"),
        # for set-returning functions: an array of elements, of keys, or of records of key and value
        "$jsonb_array_elements_text(jsonb) → any",
        "$jsonb_object_keys(jsonb) → any",
        "$jsonb_each_text(jsonb) → any",
    ),
    *_entries("$jsonb_array_elements(jsonb) → any", "$jsonb_each(jsonb) → any", version=2),
    *_entries(
        "jsonb_build_array() → jsonb",
        "jsonb_build_array(any…) → jsonb",
        # the key of jsonb_object_agg(); fails for NULL
        "$key(text) → text",
        nullable=Nullable.NEVER,
    ),
    # keys and values in turn
    *_entries("jsonb_build_object(any…) → jsonb", nullable=Nullable.NEVER, version=2),
)

_TEXT = (
    *_entries(
        *_each("T(text) → text", "reverse", "md5"),
        *_each("T(text) → integer", "length", "char_length", "octet_length", "bit_length", "ascii"),
        "length(bytea) → integer",
        "octet_length(bytea) → integer",
        *_each("T(text) → text", "btrim", "ltrim", "rtrim"),
        *_each("T(text,text) → text", "btrim", "ltrim", "rtrim"),
        *_each("T(text,integer) → text", "lpad", "rpad", "left", "right", "repeat", "substring"),
        *_each("T(text,integer,text) → text", "lpad", "rpad"),
        *_each("T(text,text,text) → text", "replace", "translate"),
        "split_part(text,text,integer) → text",
        "strpos(text,text) → integer",
        "starts_with(text,text) → boolean",
        "substring(text,integer,integer) → text",
        "chr(integer) → text",
        "md5(bytea) → text",
        *_each("T(bytea) → bytea", "sha224", "sha256", "sha384", "sha512"),
        # the format or encoding is a constant
        "encode(bytea,text) → text",
        "decode(text,text) → bytea",
        "convert_to(text,text) → bytea",
        "convert_from(bytea,text) → text",
    ),
    *_entries(*_each("T(text) → text", "lower", "upper", "initcap"), version=2),
    *_entries("overlay(text,text,integer,integer) → text", version=2),
    # values as text: a boolean is t or f, NULL is skipped; the pattern of format() is a constant
    *_entries("concat(any…) → text", "format(any…) → text", nullable=Nullable.NEVER),
    *_entries("concat_ws(text,any…) → text", nullable=Nullable.FIRST),
)

_PATTERN = (
    # escape characters and regular expressions are constants
    *_entries(
        *_each("T(text,text) → boolean", "LIKE", "~"),
        "LIKE(text,text,text) → boolean",
        *_each("regexp_count(T) → integer", "text,text", "text,text,integer,text"),
        "regexp_replace(text,text,text) → text",
        "regexp_replace(text,text,text,text) → text",
    ),
    *_entries("ILIKE(text,text) → boolean", "ILIKE(text,text,text) → boolean", "~*(text,text) → boolean", version=2),
    *_entries(
        "substring(text,text) → text",
        # pattern, start (1), occurrence, flags, and group (0 for the whole match)
        "regexp_substr(text,text,integer,integer,text,integer) → text",
        # (regexp_match(text, pattern))[n]
        "REGEXP_MATCH(text,text,integer) → text",
        nullable=Nullable.ALWAYS,
    ),
)

_TIME = (
    # fields, units, zones, patterns and strides are constants; an interval is the difference of two timestamps
    *_entries(
        *_each("EXTRACT(text,T) → numeric", "date", "time", *_INSTANTS, "interval"),
        *_each("date_part(text,T) → double precision", "date", "time", *_INSTANTS, "interval"),
        *_each("date_trunc(text,T) → T", *_INSTANTS),
        "date_trunc(text,timestamptz,text) → timestamptz",
        *_each("date_bin(interval,T,T) → T", *_INSTANTS),
        "AT TIME ZONE(timestamptz,text) → timestamp",
        "AT TIME ZONE(timestamp,text) → timestamptz",
        "make_date(integer,integer,integer) → date",
        "make_timestamp(integer,integer,integer,integer,integer,any) → timestamp",
        # of months, days and microseconds, as columns store it
        "$interval(bigint,bigint,bigint) → interval",
        "to_date(text,text) → date",
        "to_timestamp(text,text) → timestamptz",
        "to_timestamp(bigint) → timestamptz",
        "to_timestamp(double precision) → timestamptz",
        *_each("to_char(T,text) → text", *_INSTANTS, "integer", "bigint", "numeric", "real", "double precision"),
        *_each("isfinite(T) → boolean", "timestamptz", "timestamp", "date"),
    ),
)

_SIGNS = ("=", "<>", "<", "<=", ">", ">=")
_ARRAY = (
    # arrays and lists; a dimension is the constant 1
    *_entries("[](any,integer) → any", "array_length(any,integer) → integer", nullable=Nullable.ALWAYS),
    *_entries(*(f"{sign} ANY(any,any) → boolean" for sign in _SIGNS), nullable=Nullable.ALWAYS),
    *_entries("cardinality(any) → integer", "$flat(any) → any"),
    # slices; containment and overlap across all dimensions
    *_entries("[:](any,integer,integer) → any", "@>(array,array) → boolean", "&&(array,array) → boolean"),
    *_entries(*_each("$series(T,T,T) → any", "integer", "bigint"), *_each("$series(T,T,interval) → any", *_INSTANTS)),
    *_entries("ARRAY(any…) → any", nullable=Nullable.NEVER),
    # arrays of one dimension; appending to a NULL array gives an array of the element
    *_entries("array_append(any,any) → any", "array_prepend(any,any) → any", nullable=Nullable.NEVER),
    *_entries("array_cat(any,any) → any", nullable=Nullable.ALL),
    *_entries("array_position(any,any) → integer", nullable=Nullable.ALWAYS),
    *_entries("array_remove(any,any) → any", "array_replace(any,any,any) → any", nullable=Nullable.FIRST),
    *_entries("array_to_string(any,text) → text"),
    # a NULL delimiter splits between all characters; the last argument is read as NULL
    *_entries("string_to_array(text,text) → any", "string_to_array(text,text,text) → any", nullable=Nullable.FIRST),
    *_entries("regexp_split_to_array(text,text) → any"),
    *_entries("array_to_string(any,text,text) → text", nullable=Nullable.ALWAYS),
)

_COMPOSITE = (
    # MAP has alternating keys and values; a field's name is a constant
    *_entries("ROW(any…) → any", "MAP(any…) → any", nullable=Nullable.NEVER),
    *_entries(".(any,text) → any", "->(any,text) → any", nullable=Nullable.ALWAYS),
    *_entries("?(any,text) → boolean"),
)


_RANGE = (
    *_entries("lower(any) → any", "upper(any) → any", nullable=Nullable.ALWAYS),
    *_entries(*_each("T(any) → boolean", "isempty", "lower_inc", "upper_inc", "lower_inf", "upper_inf")),
    # of two ranges, or of a range and a value; bounds are a constant
    *_entries("@>(any,any) → boolean", "&&(any,any) → boolean"),
    *_entries(*(f"{name}(any,any,text) → {name}" for name in SUBTYPES), nullable=Nullable.NEVER),
    *_entries("$order(any) → any"),  # the order of a range
)


def _listed(functions: Iterable[Function]) -> Mapping[str, Function]:
    found: dict[str, Function] = {}
    for function in functions:
        assert function.id not in found, function.id
        found[function.id] = function
    return MappingProxyType(found)


_SUBQUERY = _entries("$single(bigint,any) → any", nullable=Nullable.ALWAYS)  # the value of 1 row; fails for more
SINGLE = "$single(bigint,any)"
"""The value of a subquery's only row."""
SEVERAL = "more than one row returned by a subquery used as an expression"

FUNCTIONS: Mapping[str, Function] = _listed(
    (
        *_SUBQUERY,
        *_OPERATORS,
        *_CONDITION,
        *_NUMBER,
        *_TEXT,
        *_PATTERN,
        *_TIME,
        *_JSONB,
        *_ARRAY,
        *_RANGE,
        *_COMPOSITE,
        *_AGGREGATE_RESULTS,
    )
)
"""All functions by id."""

_TO_TEXT = (
    "boolean",
    *SIGNED,
    *UNSIGNED,
    "numeric",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "interval",
    "uuid",
    "bytea",
    *(name for name in SUBTYPES if name != "numrange"),
)
_FROM_TEXT = (
    "boolean", *SIGNED, *UNSIGNED, "numeric", "double precision", "date", "time", "timestamp", "timestamptz", "uuid",
    "bytea", "jsonb",
)  # fmt: skip
_MOMENTS = ("date", "timestamp", "timestamptz")
CASTS: Mapping[tuple[str, str], int] = MappingProxyType(
    {
        **{(source, target): 1 for source in (*_NUMBERS, *UNSIGNED) for target in (*_NUMBERS, *UNSIGNED)},
        **{(source, "text"): 1 for source in _TO_TEXT},
        **{("text", target): 2 if target in _MOMENTS else 1 for target in _FROM_TEXT},
        ("text", "jsonb"): 3,
        **{("date", target): 1 for target in _INSTANTS},
        **{(source, target): 1 for source in _INSTANTS for target in ("date", "time")},
        **{(a, b): 1 for a in _INSTANTS for b in _INSTANTS if a != b},
        ("boolean", "integer"): 1,
        ("integer", "boolean"): 1,
        ("jsonb", "text"): 1,
    }
)
"""All casts by the names of their types, with the version of their meaning."""

AGGREGATES: Mapping[str, int] = MappingProxyType({"count": 1, "sum": 1, "min": 1, "max": 1})
"""The functions of an Aggregate, with the versions of their meanings."""
