"""Functions of dates, times and intervals as Spark SQL; the session's time zone is UTC.

Intervals in columns are stored as Postgres's text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from sinkql.logical import Call, Expression, Interval, Literal, time
from sinkql.logical.expression import as_call, constant_value
from sinkql.logical.number_format import ENDINGS
from sinkql.logical.time import show_interval
from sinkql.logical.time_format import NAMES, ROMAN, ROMAN_WIDTH, TimeForm, TimePart, read_time_form, read_to_char
from sinkql.logical.type import DAY, SECOND
from sinkql.lowering.spark.sql import Form, Spelling, raised, text_literal
from sinkql.lowering.spark.string import constant_text

_INSTANTS = {"timestamp": "TIMESTAMP_NTZ", "timestamptz": "TIMESTAMP"}
# Spark's word for each unit that both engines can truncate to
_UNITS = {
    "microseconds": "microsecond", "milliseconds": "millisecond", "second": "second", "minute": "minute",
    "hour": "hour", "day": "day", "week": "week", "month": "month", "quarter": "quarter", "year": "year",
}  # fmt: skip
_WITHIN_A_DAY = ("microseconds", "milliseconds", "second", "minute", "hour")
_YEARS = {
    "decade": "floor(year(@0) / 10) * 10",
    "century": "floor((year(@0) - 1) / 100) * 100 + 1",
    "millennium": "floor((year(@0) - 1) / 1000) * 1000 + 1",
}


def _since(number: str) -> str:
    """Return a year, century or millennium as Postgres counts: -1 comes before 1."""
    return f"{number} - CAST({number} <= 0 AS INT)"


_FIELDS = {
    "year": _since("year(@0)"), "month": "month(@0)", "day": "day(@0)", "quarter": "quarter(@0)",
    "week": "weekofyear(@0)", "dow": "dayofweek(@0) - 1", "isodow": "weekday(@0) + 1", "doy": "dayofyear(@0)",
    "isoyear": _since("extract(YEAROFWEEK FROM @0)"), "century": _since("floor((year(@0) + 99) / 100)"),
    "decade": "floor(year(@0) / 10)", "millennium": _since("floor((year(@0) + 999) / 1000)"),
    "hour": "hour(@0)", "minute": "minute(@0)", "second": "extract(SECOND FROM @0)",
    "milliseconds": "extract(SECOND FROM @0) * 1000", "microseconds": "extract(SECOND FROM @0) * 1000000",
}  # fmt: skip
_EPOCHS = {
    "date": "unix_date(@0) * 86400L",
    "timestamp": "CAST(unix_micros(CAST(@0 AS TIMESTAMP)) AS DECIMAL(38,10)) / 1000000",
    "timestamptz": "CAST(unix_micros(@0) AS DECIMAL(38,10)) / 1000000",
}
_TIME_FIELDS = {
    "hour": "@0 div 3600000000", "minute": "@0 div 60000000 % 60",
    "second": "CAST(@0 % 60000000 AS DECIMAL(38,10)) / 1000000",
    "milliseconds": "CAST(@0 % 60000000 AS DECIMAL(38,10)) / 1000",
    "microseconds": "@0 % 60000000", "epoch": "CAST(@0 AS DECIMAL(38,10)) / 1000000",
}  # fmt: skip
_DIFFERENCES = {
    "epoch": "{0} / CAST(1000000 AS DECIMAL(38,10))",
    "day": "{0} div 86400000000",
    "hour": "{0} div 3600000000 % 24",
    "minute": "{0} div 60000000 % 60",
    "second": "({0} % 60000000) / CAST(1000000 AS DECIMAL(38,10))",
    "milliseconds": "({0} % 60000000) / CAST(1000 AS DECIMAL(38,10))",
    "microseconds": "{0} % 60000000",
}
# the days are added to the rest, which rounds differently from one quotient
_FLOAT_EPOCH = "{0} % 86400000000 / 1000000D + {0} div 86400000000 * 86400D"
# the letters of Spark's date_format for parts of to_char()
_LETTERS = {
    "MM": "MM", "DD": "dd", "DDD": "DDD", "HH24": "HH", "HH12": "hh", "HH": "hh", "MI": "mm",
    "SS": "ss", "MS": "SSS", "US": "SSSSSS", "AM": "a", "PM": "a", "Mon": "MMM", "Dy": "EEE",
    **{f"FF{digits}": "S" * digits for digits in range(1, 7)},
}  # fmt: skip
_UNFILLED = {
    "Month": "MMMM", "Day": "EEEE", "DD": "d", "MM": "M", "HH24": "H", "HH12": "h", "HH": "h", "MI": "m", "SS": "s",
    **{part: _LETTERS[part] for part in ("AM", "PM", "Mon", "Dy")},
}  # fmt: skip
_NAME_LETTERS = {"MONTH": "MMMM", "MON": "MMM", "DAY": "EEEE", "DY": "EEE"}


def _of_era(year: str) -> str:
    """Return a year as Postgres counts it, also before Christ, where Spark's year 0 is the first."""
    return f"IF({year} > 0, {year}, 1 - {year})"


_YEAR, _ISO_YEAR = _of_era("year(@0)"), _of_era("extract(YEAROFWEEK FROM @0)")
_NUMBERS = {
    "YYYY": _YEAR, "YYY": f"{_YEAR} % 1000", "YY": f"{_YEAR} % 100", "Y": f"{_YEAR} % 10", "Y,": f"{_YEAR} div 1000",
    "IYYY": _ISO_YEAR, "IYY": f"{_ISO_YEAR} % 1000", "IY": f"{_ISO_YEAR} % 100", "I": f"{_ISO_YEAR} % 10",
    "CC": "IF(year(@0) > 0, (year(@0) + 99) div 100, year(@0) div 100 - 1)", "Q": "quarter(@0)",
    "IDDD": "weekofyear(@0) * 7 - 7 + weekday(@0) + 1",
    "IW": "weekofyear(@0)", "WW": "(dayofyear(@0) + 6) div 7", "W": "(day(@0) + 6) div 7", "DDD": "dayofyear(@0)",
    "D": "dayofweek(@0)", "ID": "weekday(@0) + 1", "J": "datediff(@0, DATE'1970-01-01') + 2440588",
    **dict.fromkeys(("SSSSS", "SSSS"), "hour(@0) * 3600 + minute(@0) * 60 + second(@0)"),
}  # fmt: skip


def _micros(place: str, type_: str) -> str:
    return f"unix_micros(CAST({place} AS TIMESTAMP))" if type_ == "timestamp" else f"unix_micros({place})"


def _extract(spark: str) -> Callable[[Call], Form]:
    def form(call: Call) -> Form:
        field, value = constant_text(call.arguments[0]), call.arguments[1]
        if value.type.name == "time":
            return Form(f"CAST({_TIME_FIELDS[field]} AS {spark})", operands=(value,))
        if value.type.name != "interval":
            template = _EPOCHS[value.type.name] if field == "epoch" else _FIELDS[field]
            return Form(f"CAST({template} AS {spark})", operands=(value,))
        timestamps = as_call(value).arguments  # the difference of two timestamps
        first, second = (_micros(f"@{place}", timestamp.type.name) for place, timestamp in enumerate(timestamps))
        shown = _FLOAT_EPOCH if (field, spark) == ("epoch", "DOUBLE") else _DIFFERENCES[field]
        template = shown.format(f"({first} - {second})")
        return Form(f"CAST({template} AS {spark})", operands=timestamps)

    return form


def _date_trunc(call: Call) -> Form:
    unit, value = constant_text(call.arguments[0]), call.arguments[1]
    spark = _INSTANTS[value.type.name]
    if len(call.arguments) == 3:
        zone = text_literal(constant_text(call.arguments[2]))
        cut = f"date_trunc('{_UNITS[unit]}', `$l`)"
        # truncation to a part of a day keeps the zone's offset; a day or more has the offset of the result
        moved = f"@0 - (`$l` - {cut})" if unit in _WITHIN_A_DAY else _instant_of(cut, zone)
        local = f"from_utc_timestamp(@0, {zone})"
        return Form(f"transform(array({local}), `$l` -> {moved})[0]", operands=(value,))
    if unit in _YEARS:
        return Form(f"CAST(make_date(CAST({_YEARS[unit]} AS INT), 1, 1) AS {spark})", operands=(value,))
    cut = f"date_trunc('{_UNITS[unit]}', @0)"
    return Form(f"CAST({cut} AS TIMESTAMP_NTZ)" if value.type.name == "timestamp" else cut, operands=(value,))


def _at_time_zone(call: Call) -> Form:
    zone, local = constant_text(call.arguments[1]), call.arguments[0].type.name == "timestamp"
    if local:
        form = "CAST(@0 AS TIMESTAMP)"
        return Form(form if zone == "UTC" else _instant_of(form, text_literal(zone)))
    form = "@0" if zone == "UTC" else f"from_utc_timestamp(@0, {text_literal(zone)})"
    return Form(f"CAST({form} AS TIMESTAMP_NTZ)")


def _instant_of(local: str, zone: str) -> str:
    """Return the instant of a local time: the later one of a repeated hour, where Spark returns the earlier one."""
    next_day = "(`$u` + INTERVAL '1' DAY)"
    later = f"`$t` - (from_utc_timestamp({next_day}, {zone}) - {next_day})"
    chosen = f"IF(from_utc_timestamp(`$w`, {zone}) = `$t` AND `$w` > `$u`, `$w`, `$u`)"
    found = f"transform(array({later}), `$w` -> {chosen})[0]"
    found = f"transform(array(to_utc_timestamp(`$t`, {zone})), `$u` -> {found})[0]"
    return f"transform(array({local}), `$t` -> {found})[0]"


def _date_bin(call: Call) -> Form:
    stride, value, origin = call.arguments
    width = constant_value(stride, Interval)
    first, zero = (_micros(place, value.type.name) for place in ("@0", "@1"))
    template = f"timestamp_micros({first} - pmod({first} - {zero}, {width.days * DAY + width.micros}L))"
    template = f"CAST({template} AS TIMESTAMP_NTZ)" if value.type.name == "timestamp" else template
    return Form(template, operands=(value, origin))


def _make_timestamp(call: Call) -> Form:
    if all(isinstance(argument, Literal) for argument in call.arguments) and call.arguments[5].type.name == "numeric":
        return Form("make_timestamp_ntz(@0, @1, @2, @3, @4, @5)")
    micros = "rint(@5 * 1000000D)"
    clock = f"(@3 * 60L + @4) * 60000000L + CAST({micros} AS BIGINT)"
    wrong = (
        f"@3 NOT BETWEEN 0 AND 24 OR @4 NOT BETWEEN 0 AND 59 OR {micros} NOT BETWEEN 0D AND 60000000D "
        f"OR {clock} > 86400000000L"
    )
    failed = raised("time field value out of range", "TIMESTAMP_NTZ")
    known = " AND ".join(f"@{place} IS NOT NULL" for place in range(6))
    value = f"CAST(timestamp_micros(unix_date(make_date(@0, @1, @2)) * 86400000000L + {clock}) AS TIMESTAMP_NTZ)"
    early = raised("date field value out of range", "TIMESTAMP_NTZ")
    return Form(
        f"CASE WHEN NOT ({known}) THEN NULL WHEN @0 < 1 OR @1 < 1 OR @2 < 1 THEN {early} "
        f"WHEN {wrong} THEN {failed} ELSE {value} END"
    )


def _make_date(call: Call) -> Form:
    # a negative year is before Christ in Postgres, and zero is an error
    unknown = [place for place, argument in enumerate(call.arguments) if not _positive(argument)]
    if not unknown:
        return Form("make_date(@0, @1, @2)")
    wrong = " OR ".join(f"@{place} < 1" for place in unknown)
    known = " AND ".join(f"@{place} IS NOT NULL" for place in unknown)
    return Form(f"IF({known} AND ({wrong}), {raised('date field value out of range', 'DATE')}, make_date(@0, @1, @2))")


def _positive(argument: Expression) -> bool:
    value = argument.value if isinstance(argument, Literal) else None
    return isinstance(value, int) and value >= 1


def _read(name: str, spark: str, zone: str = "") -> Callable[[Call], Form]:
    def form(call: Call) -> Form:
        read = read_time_form(constant_text(call.arguments[1]))
        expression = text_literal(rf"^{read.expression}\z")
        failed = f"CAST(raise_error(concat('the text does not have the form of {name}(): ', @0)) AS {spark})"
        if read.canonical is None:
            made = f"CAST({_composed(read, expression, zone)} AS {spark})"
        else:
            made = f"CAST(regexp_replace(@0, {expression}, '{read.canonical}{zone}') AS {spark})"
        return Form(f"CASE WHEN @0 IS NULL THEN NULL WHEN @0 RLIKE {expression} THEN {made} ELSE {failed} END",
                    operands=call.arguments[:1])  # fmt: skip

    return form


def _composed(read: TimeForm, expression: str, zone: str) -> str:
    """Return the text of a time with a computed part."""
    part = {name: f"regexp_extract(@0, {expression}, {number})" for name, number in read.groups.items()}
    year = part.get("YYYY") or f"concat(IF({part['YY']} < '70', '20', '19'), {part['YY']})"
    month, day, hour = part.get("MM", "'1'"), part.get("DD", "'1'"), part.get("HH24", "'0'")
    if "MON" in part:
        month = f"CAST((instr('{time.MONTHS}', lower(left({part['MON']}, 3))) + 3) div 4 AS STRING)"
    date = f"concat({year}, '-', {month}, '-', {day})"
    if "DDD" in part:
        number = f"CAST({part['DDD']} AS INT)"
        last = f"make_date(CAST({year} AS INT), 12, 31)"  # the last valid day of the year
        day = f"date_add(make_date(CAST({year} AS INT), 1, 1), {number} - 1)"
        date = f"IF({number} > dayofyear({last}), 'none', CAST({day} AS STRING))"
    if "HH12" in part:
        later = f" + IF(lower({part['half']}) LIKE 'p%', 12, 0)" if "half" in part else ""
        hour = f"CAST(CAST({part['HH12']} AS INT) % 12{later} AS STRING)"
    fraction = part.get("MS") or part.get("US")
    pieces = [date, "' '", hour, "':'", part.get("MI", "'0'"), "':'", part.get("SS", "'0'")]
    if fraction:
        pieces += ["'.'", fraction]
    return f"concat({', '.join(pieces)}, '{zone}')"


def _to_char(call: Call) -> Form:
    pieces: list[str] = []
    letters = ""
    zoned = call.arguments[0].type.name == "timestamptz"
    for part in read_to_char(constant_text(call.arguments[1]), zoned=zoned):
        spelled = (
            "" if isinstance(part, str) or part.ending else (_LETTERS if part.filled else _UNFILLED).get(part.name, "")
        )
        if isinstance(part, str):
            letters += _literally(part)
        elif spelled:
            letters += spelled
        else:
            pieces += [*_formatted(letters), _part(part)]
            letters = ""
    pieces += _formatted(letters)
    if not pieces:
        return Form("left(CAST(@0 AS STRING), 0)", operands=call.arguments[:1])
    return Form(pieces[0] if len(pieces) == 1 else f"concat({', '.join(pieces)})", operands=call.arguments[:1])


def _part(part: TimePart) -> str:
    """Return a part that date_format cannot write."""
    if part.ending:
        letters = (_LETTERS if part.filled else _UNFILLED).get(part.name)
        number = f"date_format(@0, '{letters}')" if letters else _part(replace(part, ending=""))
        endings = [ending.upper() if part.ending == "TH" else ending for ending in ENDINGS]
        cases = " ".join(f"WHEN `$n` RLIKE '(^|[^1]){digit}$' THEN '{endings[digit]}'" for digit in (1, 2, 3))
        return f"transform(array({number}), `$n` -> concat(`$n`, CASE {cases} ELSE '{endings[0]}' END))[0]"
    if part.number:
        number, width = _NUMBERS[part.name], part.width
        if width == 1:
            return f"CAST({number} AS STRING)"
        if part.name == "CC":  # lpad would truncate the century 100
            return f"concat(IF({number} < 0, '-', ''), lpad(abs({number}), IF(abs({number}) > 99, 3, 2), '0'))"
        if part.name in ("YYYY", "IYYY"):
            return f"IF({number} > 9999, CAST({number} AS STRING), lpad({number}, {width}, '0'))"
        return f"lpad({number}, {width}, '0')"
    kind = part.name.upper()
    if kind == "RM":
        month = f"split_part('{part.cased('|'.join(ROMAN))}', '|', month(@0))"
        return f"rpad({month}, {ROMAN_WIDTH}, ' ')" if part.blanks else month
    if kind not in NAMES:
        early, late = (part.cased(letter + part.name[1:]) for letter in "AP")
        return f"CASE WHEN hour(@0) < 12 THEN '{early}' WHEN hour(@0) >= 12 THEN '{late}' END"
    name = f"date_format(@0, '{_NAME_LETTERS[kind]}')"
    if not part.name.istitle():
        name = f"{'upper' if part.name.isupper() else 'lower'}({name})"
    return f"rpad({name}, {NAMES[kind]}, ' ')" if part.blanks and NAMES[kind] > 3 else name


def _literally(text: str) -> str:
    """Quote a text for date_format; digits, blanks and the common separators need no quotes."""
    if re.fullmatch(r"[0-9 .,:;/_+-]*", text):
        return text
    return "'" + text.replace("'", "''") + "'"


def _formatted(letters: str) -> list[str]:
    return [f"date_format(@0, {text_literal(letters)})"] if letters else []


_FIRST_SECOND = -210_866_803_200
"""The start of Postgres's timestamps, 4713 BC, relative to 1970."""


def _count(place: str, unit: str) -> str:
    return f"coalesce(try_cast(regexp_extract({place}, '([+-]?[0-9]+) {unit}', 1) AS INT), 0)"


def _months(place: str) -> str:
    return f"{_count(place, 'year')} * 12 + {_count(place, 'mon')}"


def _interval_micros(place: str) -> str:
    part = [f"regexp_extract({place}, '([0-9]+):([0-9]+):([0-9.]+)$', {number})" for number in (1, 2, 3)]
    whole = [f"CAST(concat('0', {each}) AS BIGINT)" for each in part[:2]]
    seconds = f"CAST(CAST(concat('0', {part[2]}) AS DECIMAL(18,6)) * {SECOND} AS BIGINT)"
    total = f"{whole[0]} * {3600 * SECOND}L + {whole[1]} * {60 * SECOND}L + {seconds}"
    return f"IF({place} RLIKE '-[0-9]+:', -1L, 1L) * ({total})"


def _order(call: Call) -> Form:
    days = f"CAST(({_months('@0')}) * 30L + {_count('@0', 'day')} AS DECIMAL(20,0))"
    return Form(f"IF(@0 IS NULL, NULL, CAST({days} * {DAY}BD + ({_interval_micros('@0')}) AS DECIMAL(38,0)))")


def shift_by_text(sign: str, call: Call) -> Form:
    """Add an interval of a column to a timestamp, or subtract it: months first, then days and time."""
    time = f"CAST(CAST({_interval_micros('@1')} AS DECIMAL(19,0)) / {SECOND}BD AS DECIMAL(18,6))"
    moved = (
        f"@0 {sign} make_ym_interval(0, {_months('@1')}) "
        f"{sign} make_dt_interval({_count('@1', 'day')}) {sign} make_dt_interval(0, 0, 0, {time})"
    )
    return Form(f"IF(@1 IS NULL, NULL, {moved})", operands=call.arguments)


def _held(call: Call) -> Form:
    (value,) = call.arguments
    if isinstance(value, Literal):
        return Form(text_literal(show_interval(constant_value(value, Interval))), operands=())
    timestamps = as_call(value).arguments  # the difference of two timestamps
    micros = [f"unix_micros(CAST(@{place} AS TIMESTAMP))" for place in (0, 1)]
    return Form(f"transform(array({micros[0]} - {micros[1]}), `$d` -> {_SHOWN})[0]", operands=timestamps)


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
_OF_PARTS = Form(  # the time of day may fail: it occurs once, so that it is not evaluated for a NULL
    "IF(@0 IS NULL OR @1 IS NULL, NULL, transform(array(@2), `$m` -> CASE WHEN `$m` IS NULL THEN NULL "
    f"WHEN @0 NOT {_BOUNDS} OR @1 NOT {_BOUNDS} THEN {raised('interval out of range', 'STRING')} ELSE {_MADE} END)[0])"
)
FORMS: dict[str, Spelling] = {
    **{f"EXTRACT(text,{type_})": _extract("DECIMAL(38,10)") for type_ in ("date", "time", *_INSTANTS, "interval")},
    **{f"date_part(text,{type_})": _extract("DOUBLE") for type_ in ("date", "time", *_INSTANTS, "interval")},
    **{f"date_trunc(text,{type_})": _date_trunc for type_ in _INSTANTS},
    "date_trunc(text,timestamptz,text)": _date_trunc,
    **{f"date_bin(interval,{type_},{type_})": _date_bin for type_ in _INSTANTS},
    **{f"AT TIME ZONE({type_},text)": _at_time_zone for type_ in _INSTANTS},
    "make_date(integer,integer,integer)": _make_date,
    "make_timestamp(integer,integer,integer,integer,integer,any)": _make_timestamp,
    "to_date(text,text)": _read("to_date", "DATE"),
    "to_timestamp(text,text)": _read("to_timestamp", "TIMESTAMP", "Z"),
    "to_timestamp(bigint)": Form(
        f"IF(@0 < {_FIRST_SECOND}L, {raised('timestamp out of range', 'TIMESTAMP')}, timestamp_seconds(@0))"
    ),
    # rounded as in Postgres, relative to Postgres's epoch
    "to_timestamp(double precision)": Form(
        f"CASE WHEN @0 >= {_FIRST_SECOND}D AND @0 < 9223372036000D "
        "THEN timestamp_micros(CAST(rint((@0 - 946684800D) * 1000000) AS BIGINT) + 946684800000000L) "
        f"WHEN @0 IS NOT NULL THEN {raised('timestamp out of range', 'TIMESTAMP')} END"
    ),
    **{f"to_char({type_},text)": _to_char for type_ in _INSTANTS},
    **{f"isfinite({type_})": Form("IF(@0 IS NULL, NULL, true)") for type_ in ("date", *_INSTANTS)},
    "$held(interval)": _held,
    "$order(interval)": _order,
    "$interval(bigint,bigint,bigint)": _OF_PARTS,
}
"""By id."""
