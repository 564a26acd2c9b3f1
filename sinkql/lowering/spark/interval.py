"""Intervals in columns, which Spark has as Postgres's text → Spark SQL: their order, their parts, and their making."""

from __future__ import annotations

from sinkql.logical import Call, Interval, Literal
from sinkql.logical.interval import show_interval
from sinkql.logical.type import DAY, SECOND
from sinkql.lowering.spark.sql import Form, Spelling, raised, text_literal


def _count(place: str, unit: str) -> str:
    return f"coalesce(try_cast(regexp_extract({place}, '([+-]?[0-9]+) {unit}', 1) AS INT), 0)"


def _months(place: str) -> str:
    return f"{_count(place, 'year')} * 12 + {_count(place, 'mon')}"


def _micros(place: str) -> str:
    part = [f"regexp_extract({place}, '([0-9]+):([0-9]+):([0-9.]+)$', {number})" for number in (1, 2, 3)]
    whole = [f"CAST(concat('0', {each}) AS BIGINT)" for each in part[:2]]
    seconds = f"CAST(CAST(concat('0', {part[2]}) AS DECIMAL(18,6)) * {SECOND} AS BIGINT)"
    total = f"{whole[0]} * {3600 * SECOND}L + {whole[1]} * {60 * SECOND}L + {seconds}"
    return f"IF({place} RLIKE '-[0-9]+:', -1L, 1L) * ({total})"


def _order(call: Call) -> Form:
    days = f"CAST(({_months('@0')}) * 30L + {_count('@0', 'day')} AS DECIMAL(20,0))"
    return Form(f"IF(@0 IS NULL, NULL, CAST({days} * {DAY}BD + ({_micros('@0')}) AS DECIMAL(38,0)))")


def shift_by_text(sign: str, call: Call) -> Form:
    """Add an interval of a column to a timestamp, or take it off: months first, then days and time."""
    time = f"CAST(CAST({_micros('@1')} AS DECIMAL(19,0)) / {SECOND}BD AS DECIMAL(18,6))"
    moved = (
        f"@0 {sign} make_ym_interval(0, {_months('@1')}) "
        f"{sign} make_dt_interval({_count('@1', 'day')}) {sign} make_dt_interval(0, 0, 0, {time})"
    )
    return Form(f"IF(@1 IS NULL, NULL, {moved})", operands=call.arguments)


def _held(call: Call) -> Form:
    (value,) = call.arguments
    if isinstance(value, Literal):
        assert isinstance(value.value, Interval)
        return Form(text_literal(show_interval(value.value)), operands=())
    assert isinstance(value, Call)  # the difference of two timestamps
    micros = [f"unix_micros(CAST(@{place} AS TIMESTAMP))" for place in (0, 1)]
    return Form(f"transform(array({micros[0]} - {micros[1]}), `$d` -> {_SHOWN})[0]", operands=value.arguments)


_DAYS, _REST = f"`$d` div {DAY}L", f"abs(`$d` % {DAY}L)"


def _two(micros: int, most: int) -> str:
    return f"lpad(CAST({_REST} div {micros}L % {most} AS STRING), 2, '0')"


_FRACTION = (
    f"IF({_REST} % {SECOND}L = 0, '', "
    f"concat('.', trim(TRAILING '0' FROM lpad(CAST({_REST} % {SECOND}L AS STRING), 6, '0'))))"
)
_TIME = (
    f"concat(IF(`$d` < 0, '-', ''), {_two(3600 * SECOND, 24)}, ':', {_two(60 * SECOND, 60)}, ':', "
    f"{_two(SECOND, 60)}, {_FRACTION})"
)
_SHOWN = (
    f"IF(`$d` IS NULL, NULL, concat_ws(' ', IF({_DAYS} = 0, NULL, concat({_DAYS}, IF({_DAYS} = 1, ' day', ' days'))), "
    f"IF({_REST} = 0 AND `$d` <> 0, NULL, {_TIME})))"
)
_CLOCK = "abs(CAST(`$m` AS DECIMAL(20,0)))"


def _amount(value: str, unit: str, sign: str = "''") -> str:
    return f"IF({value} = 0, NULL, concat({sign}, {value}, IF({value} = 1, ' {unit}', ' {unit}s')))"


def _clock(micros: int, most: int | None = None) -> str:
    count = f"{_CLOCK} div {micros}BD{f' % {most}' if most else ''}"
    return f"IF({count} < 10, concat('0', {count}), CAST({count} AS STRING))"


_MICROS = f"CAST({_CLOCK} % {SECOND}BD AS STRING)"
_PLUS = "IF(@0 < 0 AND @1 > 0, '+', '')"
_MADE = (
    f"concat_ws(' ', {_amount('(@0 div 12)', 'year')}, {_amount('(@0 % 12)', 'mon')}, "
    f"{_amount('@1', 'day', _PLUS)}, "
    "IF(`$m` = 0 AND (@0 <> 0 OR @1 <> 0), NULL, concat("
    "CASE WHEN `$m` < 0 THEN '-' WHEN @1 < 0 OR @1 = 0 AND @0 < 0 THEN '+' ELSE '' END, "
    f"{_clock(3600 * SECOND)}, ':', {_clock(60 * SECOND, 60)}, ':', {_clock(SECOND, 60)}, "
    f"IF({_MICROS} = '0', '', concat('.', trim(TRAILING '0' FROM lpad({_MICROS}, 6, '0')))))))"
)
_BOUNDS = "BETWEEN -2147483648L AND 2147483647L"
_OF_PARTS = Form(  # the time of day is what may fail: it stands here once, so that it is not computed beside a NULL
    "IF(@0 IS NULL OR @1 IS NULL, NULL, transform(array(@2), `$m` -> CASE WHEN `$m` IS NULL THEN NULL "
    f"WHEN @0 NOT {_BOUNDS} OR @1 NOT {_BOUNDS} THEN {raised('interval out of range', 'STRING')} ELSE {_MADE} END)[0])"
)
FORMS: dict[str, Spelling] = {
    "$held(interval)": _held,
    "$order(interval)": _order,
    "$interval(bigint,bigint,bigint)": _OF_PARTS,
}
"""By id."""
