"""Random trees of expressions, of every type that both Python and the engines evaluate, and rows for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from random import Random
from typing import Any

from sinkql import logical
from sinkql.logical import Branch, Case, Expression, Interval, Reference, Type, function, literal
from sinkql.logical.type import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, NUMERIC, TEXT, TIME, TIMESTAMP
from sinkql.logical.type import INTERVAL as INTERVAL_TYPE

_PRICE = Type("numeric", 10, 2)
COLUMNS: dict[str, Type] = {
    "ok": BOOLEAN,
    "i": INTEGER,
    "b": BIGINT,
    "n": NUMERIC,
    "p": _PRICE,
    "f": DOUBLE,
    "s": TEXT,
    "d": DATE,
    "t": TIMESTAMP,
    "c": TIME,
}
ROWS: Sequence[tuple[Any, ...]] = (
    (True, 1, 5_000_000_000, Decimal("1.5000000000"), Decimal("2.25"), 1.5, "abc", date(2024, 1, 31),
     datetime(2024, 1, 31, 12, 30, 15, 500_000), time(12, 30)),
    (False, -7, -3, Decimal("-0.3333333333"), Decimal("-0.01"), -2.0, "", date(1999, 12, 31),
     datetime(2024, 2, 29, 23, 59, 59), time(23, 59, 59, 999_999)),
    (None, 0, 0, Decimal("0.0000000000"), Decimal("0.00"), 0.0, "it's a 'b'", date(2000, 2, 29),
     datetime(1969, 7, 20), time()),
    (True, None, 2**63 - 1, None, Decimal("99999999.99"), 1e300, None, None, None, None),
    (None, 2**31 - 1, None, Decimal("123456789012.0000000001"), None, None, "XyZ  ", date(2024, 3, 1),
     datetime(2024, 3, 31, 2, 30), None),
    (False, -(2**31), 12, Decimal("7.0000000000"), Decimal("3.00"), 7.25, "b", date(2023, 3, 1),
     datetime(2023, 1, 1, 0, 0, 0, 1), time(7, 8, 9, 250_000)),
)  # fmt: skip
_LITERALS: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False, None),
    "integer": (0, 1, 2, -1, 7, None),
    "bigint": (0, 3, -2, 10_000_000_000, None),
    "numeric": (Decimal("0.5"), Decimal("-2"), Decimal("3.14"), Decimal(0), None),
    "double precision": (0.5, -1.25, 0.0, 3.0, None),
    "text": ("", "b", "abc", "it's", " x ", None),
    "date": (date(2024, 2, 29), date(1999, 12, 31), None),
    "time": (time(12), time(0, 0, 1), time(23, 59, 59, 500_000), None),
    "timestamp": (datetime(2024, 2, 29, 12), datetime(1999, 12, 31, 23, 59, 59, 999_999), None),
}
_INTERVALS = (Interval(months=1), Interval(days=-3), Interval(months=-13, days=1, micros=1_500_000), Interval())
_MOMENTS = (
    "2024-02-29", " 2024-02-29 23:59:59.999999 ", "2/29/24", "1.2.2003 3:04 PM", "29-Feb-68 24:00", "feb 29 2023",
    "13.1.2024", "Thu, 29 Feb 2024 15:30:00 GMT", "Thu Feb 29 15:30:00 +02 2024", "20240229T153000Z", "epoch",
)  # fmt: skip
_CLOCKS = ("12:30", " 3:04:05.25 pm ", "T23:59:59.999999Z", "24:00", "12:60", "noon", "0:0:0+02")
_TYPES = tuple(dict.fromkeys(COLUMNS.values()))


class Trees:
    """Makes random expressions; `depth` limits the nesting of calls."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def any(self, depth: int) -> Expression:
        """Return an expression of any type."""
        return self.of(self._random.choice(_TYPES), depth)

    def of(self, type_: Type, depth: int) -> Expression:
        """Return an expression of the given type."""
        if depth == 0 or self._random.random() < 0.15:
            return self._leaf(type_)
        makers = [*self._shared(type_), *self._own(type_)]
        return self._random.choice(makers)(depth - 1)

    def _leaf(self, type_: Type) -> Expression:
        columns = [name for name, each in COLUMNS.items() if each == type_]
        if columns and self._random.random() < 0.7:
            return Reference(self._random.choice(columns), type_)
        return literal(self._random.choice(_LITERALS[type_.name]), type_)

    def _call(self, id_: str, *types: Type, type_: Type | None = None) -> Callable[[int], Expression]:
        return lambda depth: function.call(id_, [self.of(each, depth) for each in types], type_=type_)

    def _cast(self, source: Type, target: Type) -> Callable[[int], Expression]:
        return lambda depth: function.cast(self.of(source, depth), target)

    def _of_moment(self, type_: Type) -> Callable[[int], Expression]:
        return lambda depth: function.cast(literal(self._random.choice(_MOMENTS), TEXT), type_)

    def _shared(self, type_: Type) -> list[Callable[[int], Expression]]:
        """Return makers that work for any type."""

        def case(depth: int) -> Expression:
            count = self._random.choice((1, 2))
            branches = tuple(Branch(self.of(BOOLEAN, depth), self.of(type_, depth)) for _ in range(count))
            return Case(branches, self.of(type_, depth) if self._random.random() < 0.7 else None, type_)

        return [
            case,
            self._call("coalesce(any…)", type_, type_, type_=type_),
            self._call("nullif(any,any)", type_, type_, type_=type_),
            self._call("greatest(any…)", type_, type_, type_=type_),
            self._call("least(any…)", type_, type_, type_=type_),
        ]

    def _own(self, type_: Type) -> list[Callable[[int], Expression]]:
        match type_.name:
            case "boolean":
                return self._conditions()
            case "integer" | "bigint":
                name = type_.name
                return [
                    *(self._call(f"{operator}({name},{name})", type_, type_) for operator in "+-*/%&|#"),
                    self._call(f"-({name})", type_, type_=type_),
                    self._call(f"abs({name})", type_),
                    self._cast(NUMERIC, type_),
                    *self._whole(type_),
                ]
            case "numeric":
                return self._numbers(type_)
            case "double precision":
                return [
                    *(self._call(f"{each}(double precision,double precision)", DOUBLE, DOUBLE) for each in "+-*/"),
                    *(self._call(f"{each}(double precision)", DOUBLE) for each in ("abs", "ceil", "floor", "sqrt")),
                    *(self._cast(each, DOUBLE) for each in (INTEGER, BIGINT, _PRICE)),
                ]
            case "text":
                return self._texts()
            case "date":
                return [
                    self._call("+(date,integer)", DATE, INTEGER),
                    self._call("-(date,integer)", DATE, INTEGER),
                    self._cast(TIMESTAMP, DATE),
                    self._of_moment(DATE),
                ]
            case "time":
                return [
                    self._cast(TIMESTAMP, TIME),
                    self._turned("+"),
                    self._turned("-"),
                    lambda depth: function.cast(literal(self._random.choice(_CLOCKS), TEXT), TIME),
                ]
            case _:
                return [
                    self._call("+(date,time)", DATE, TIME),
                    self._cast(DATE, TIMESTAMP),
                    self._of_moment(TIMESTAMP),
                    self._shifted("+"),
                    self._shifted("-"),
                    self._of_word("date_trunc(text,timestamp)", "year", "quarter", "month", "week", "day", "hour"),
                ]

    def _whole(self, type_: Type) -> list[Callable[[int], Expression]]:
        if type_ == BIGINT:
            return [self._cast(INTEGER, BIGINT)]
        return [
            self._cast(BIGINT, INTEGER),
            self._cast(BOOLEAN, INTEGER),
            self._call("length(text)", TEXT),
            self._call("strpos(text,text)", TEXT, TEXT),
            self._call("-(date,date)", DATE, DATE),
            self._call("num_nulls(any…)", TEXT, DATE, BOOLEAN),
        ]

    def _numbers(self, type_: Type) -> list[Callable[[int], Expression]]:
        casts = [self._cast(each, type_) for each in (INTEGER, BIGINT, NUMERIC, _PRICE) if each != type_]
        if type_ != NUMERIC:
            return casts
        return [
            *casts,
            *(self._call(f"{each}(numeric,numeric)", *self._pair()) for each in "+-*/%"),
            *(self._call(f"{each}(numeric)", _PRICE) for each in ("ceil", "floor", "sign")),
            lambda depth: function.call(
                "round(numeric,integer)", [self.of(NUMERIC, depth), literal(self._random.choice((0, 1, 3)), INTEGER)]
            ),
            self._of_word("EXTRACT(text,timestamp)", "year", "month", "day", "hour", "doy", "isodow", "week"),
        ]

    def _pair(self) -> tuple[Type, Type]:
        return self._random.choice((NUMERIC, _PRICE)), self._random.choice((NUMERIC, _PRICE))

    def _texts(self) -> list[Callable[[int], Expression]]:
        return [
            self._call("||(text,text)", TEXT, TEXT),
            self._call("concat(any…)", TEXT, TEXT, TEXT),
            *(self._call(f"{each}(text)", TEXT) for each in ("upper", "lower", "reverse", "btrim", "ltrim", "rtrim")),
            *(self._call(f"{each}(text,integer)", TEXT, INTEGER) for each in ("left", "right", "substring")),
            self._call("replace(text,text,text)", TEXT, TEXT, TEXT),
            self._call("substring(text,integer,integer)", TEXT, INTEGER, INTEGER),
            *(self._cast(each, TEXT) for each in (INTEGER, BOOLEAN, DATE, TIME, TIMESTAMP, _PRICE)),
        ]

    def _conditions(self) -> list[Callable[[int], Expression]]:
        def compared(depth: int) -> Expression:
            type_ = self._random.choice(_TYPES)
            comparison = self._random.choice(("=", "<>", "<", "<=", ">", ">=", "IS NOT DISTINCT FROM"))
            return self._call(f"{comparison}(any,any)", type_, type_)(depth)

        def among(depth: int) -> Expression:
            type_ = self._random.choice(_TYPES)
            return self._call(self._random.choice(("IN(any,any…)", "BETWEEN(any,any,any)")), type_, type_, type_)(depth)

        def known(depth: int) -> Expression:
            return function.call("IS NULL(any)", [self.any(depth)])

        return [
            compared,
            compared,
            among,
            known,
            *(self._call(f"{word}(boolean…)", BOOLEAN, BOOLEAN, BOOLEAN) for word in ("AND", "OR")),
            *(self._call(f"{word}(boolean)", BOOLEAN) for word in ("NOT", "IS TRUE", "IS FALSE")),
            self._call("starts_with(text,text)", TEXT, TEXT),
        ]

    def _shifted(self, sign: str) -> Callable[[int], Expression]:
        def make(depth: int) -> Expression:
            interval = literal(self._random.choice(_INTERVALS), INTERVAL_TYPE)
            return function.call(f"{sign}(timestamp,interval)", [self.of(TIMESTAMP, depth), interval])

        return make

    def _turned(self, sign: str) -> Callable[[int], Expression]:
        def make(depth: int) -> Expression:
            interval = literal(self._random.choice(_INTERVALS), INTERVAL_TYPE)
            return function.call(f"{sign}(time,interval)", [self.of(TIME, depth), interval])

        return make

    def _of_word(self, id_: str, *words: str) -> Callable[[int], Expression]:
        return lambda depth: function.call(id_, [literal(self._random.choice(words), TEXT), self.of(TIMESTAMP, depth)])


class Guards:
    """Makes conditions of operands that fail on some rows, behind guards that exclude these rows."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def any(self, depth: int) -> Expression:
        """Return a condition that fails on no row."""
        word = self._random.choice(("AND", "OR"))
        if depth and self._random.random() < 0.6:
            return function.call(f"{word}(boolean…)", [self.any(depth - 1) for _ in range(self._random.choice((2, 3)))])
        return self._guarded()

    def _guarded(self) -> Expression:
        safe, value = self._random.choice(self._failing())
        unsafe = function.call("IS NULL(any)", [function.call("nullif(any,any)", [safe, literal(False, BOOLEAN)],
                                                              type_=BOOLEAN)])  # fmt: skip
        first, second = self._test(value), self._test(value)
        match self._random.randrange(6):
            case 0:
                return function.call("AND(boolean…)", [safe, first, second])
            case 1:
                return function.call("OR(boolean…)", [unsafe, first, second])
            case 2:
                return function.call("AND(boolean…)", [safe, function.call("OR(boolean…)", [first, second])])
            case 3:
                return Case((Branch(unsafe, literal(None, BOOLEAN)), Branch(first, second)), second, BOOLEAN)
            case 4:
                return Case((Branch(safe, function.call("OR(boolean…)", [first, second])),), None, BOOLEAN)
            case _:
                zero = literal(0, value.type) if value.type != DOUBLE else literal(0.0, DOUBLE)
                harmless = Case((Branch(unsafe, zero),), None, value.type)
                return self._test(function.call("coalesce(any…)", [harmless, value], type_=value.type))

    def _failing(self) -> list[tuple[Expression, Expression]]:
        """Return operands that fail on some rows, each with the condition under which it does not."""
        i, f, s, n = (Reference(name, COLUMNS[name]) for name in "ifsn")
        not_zero = function.call("<>(any,any)", [i, literal(0, INTEGER)])
        positive = function.call(">=(any,any)", [f, literal(0.0, DOUBLE)])
        short = function.call("IN(any,any…)", [s, literal("7", TEXT), literal("12", TEXT)])
        small = function.call("<(any,any)", [n, literal(Decimal(1000), NUMERIC)])
        return [
            (not_zero, function.call("/(integer,integer)", [literal(100, INTEGER), i])),
            (not_zero, function.call("%(integer,integer)", [literal(100, INTEGER), i])),
            (positive, function.call("sqrt(double precision)", [f])),
            (short, function.cast(s, INTEGER)),
            (small, function.cast(n, INTEGER)),
        ]

    def _test(self, value: Expression) -> Expression:
        """Return a condition over a value, which may occur in it several times."""
        low, high = (literal(each if value.type == INTEGER else float(each), value.type) for each in (2, 50))
        match self._random.randrange(5):
            case 0:
                return function.call("BETWEEN(any,any,any)", [value, low, high])
            case 1:
                return function.call("IN(any,any…)", [value, low, high])
            case 2:
                none = function.call("nullif(any,any)", [value, low], type_=value.type)
                return function.call(">(any,any)", [none, low])
            case 3:
                most = function.call("greatest(any…)", [value, high], type_=value.type)
                return function.call("=(any,any)", [most, value])
            case _:
                return function.call(self._random.choice(("<(any,any)", ">(any,any)")), [value, low])


def shape() -> logical.Shape:
    """Return the columns of the rows."""
    return logical.Shape(tuple(logical.Column(name, type_) for name, type_ in COLUMNS.items()))
