"""Functions of dates and times."""

from __future__ import annotations

from collections.abc import Iterator

from grid.templates.template import TIMES, Template, plain

_DATE_FIELDS = (
    "year",
    "month",
    "day",
    "quarter",
    "week",
    "dow",
    "isodow",
    "doy",
    "isoyear",
    "century",
    "decade",
    "millennium",
    "epoch",
)
_CLOCK_FIELDS = ("hour", "minute", "second", "milliseconds", "microseconds")
_UNITS = ("microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
_LONG_UNITS = ("decade", "century", "millennium")
ZONES = ("America/New_York", "Europe/Berlin", "UTC", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia")
_FORMS = (
    "YYYY-MM-DD HH24:MI:SS.US",
    "FMDD FMMonth YYYY",
    "Dy DD Mon YY",
    "DAY, MONTH",
    "day month",
    "HH12:MI AM",
    "hh:mi p.m.",
    "IYYY-IW-ID",
    "IYY IY I IDDD",
    "DDD J Q CC",
    "WW W D",
    "Y,YYY",
    "YYY Y",
    "MS FF1 FF3 FF6",
    "SSSSS",
    "RM rm FMRM",
    "DDth YYYYTH",
    "TZ",
    "tz OF TZH:TZM",
    '"T"YYYY',
    "FMHH24:FMMI",
    "FMDDD FMYY",
)
_READ = (
    ("to_date", "YYYY-MM-DD"),
    ("to_date", "DD.MM.YYYY"),
    ("to_date", "YYYYMMDD"),
    ("to_date", "DD Mon YYYY"),
    ("to_timestamp", "YYYY-MM-DD HH24:MI:SS"),
    ("to_timestamp", "YYYY-MM-DD"),
    ("to_timestamp", "YYYY-MM-DD HH12:MI:SS AM"),
)


def times() -> Iterator[Template]:
    for code in ("u", "t", "z", "c"):
        fields = (
            _DATE_FIELDS
            if code == "u"
            else (*_CLOCK_FIELDS, "epoch")
            if code == "c"
            else (*_DATE_FIELDS, *_CLOCK_FIELDS)
        )
        yield from plain(*(f"extract({field} FROM @{code}0)" for field in fields))
        yield from plain(*(f"date_part('{field}', @{code}0)" for field in fields))
    # before Christ, without a year 0; Python leaves these times to Spark
    early = ("year", "isoyear", "decade", "century", "millennium", "doy", "isodow", "week", "quarter")
    yield from plain(*(f"extract({field} FROM @u0 - {days})" for field in early for days in (800_000, 1_100_000)))
    for field in ("epoch", "day", "hour"):
        yield from plain(*(f"extract({field} FROM @{code}0 - @{code}1)" for code in "tz"))
        yield from plain(f"date_part('{field}', @t0 - @t1)")
    for code in "tz":
        yield from plain(*(f"date_trunc('{unit}', @{code}0)" for unit in (*_UNITS, *_LONG_UNITS)))
        yield from plain(
            *(
                f"date_bin('{stride}', @{code}0, @{code}1)"
                for stride in ("1 hour", "15 minutes", "7 days", "0.000001 seconds", "1 day 1 second")
            )
        )
        yield from plain(*(f"@{code}0 AT TIME ZONE '{zone}'" for zone in ZONES))
        yield from plain(
            *(
                f"to_char(@{code}0, '{form}')"
                for form in _FORMS
                if code == "z" or "TZ" not in form.replace("TZH:TZM", "")
            )
        )
    yield from plain(*(f"date_trunc('{unit}', @z0, '{zone}')" for zone in ZONES for unit in _UNITS))
    yield from plain(
        "date_trunc('month', @u0)",
        "to_char(@u0, 'YYYY-MM-DD')",
        "to_char(@u0, 'TZ')",
        *(
            f"to_char({time} years', '{form}')"
            for time in ("@t0 - INTERVAL '2100", "@z0 - INTERVAL '2100", "@z0 + INTERVAL '20000")
            for form in ("YYYY FMYYYY YYY YY Y Y,YYY", "CC FMCC CCth", "IYYY IYY IY I IDDD J")
        ),
        "make_date(@i0, @i1, @i2)",
        "make_date(2024, @i1, @i2)",
        "make_date(@i0, 2, 29)",
        "make_timestamp(2024, 2, 29, 12, 30, 15.5)",
        "make_timestamp(2024, 12, 31, 23, 59, 60)",
        "make_timestamp(@i0, @i1, @i2, 12, 30, 15.5)",
        "make_timestamp(2024, 2, 28, 23, 59, @d0)",
        "make_timestamp(2024, 12, @h1, @h0, @i0, @n1)",
        "make_interval(@i0, @i1, @i2, @i0, @i1, @i2, @d0)",
        "make_interval(@i0, @i1, 1, 2, @i2, 3, @d1)",
        "make_interval(months => @i0, secs => @d1)",
        "make_interval(days => @h0, hours => @h1)",
        "make_interval(months => @h0, years => @h1, secs => @r0)",
        "make_interval(weeks => @i0, mins => @i1, days => 3)",
        "make_interval(secs => @n0)",
        "make_interval(months => @i0)::text",
        "(@h0 * INTERVAL '1 month 2 days')::text",
        "(@i0 * INTERVAL '1.5 seconds')::text",
        "@h0 * INTERVAL '1 month' < @h1 * INTERVAL '29 days'",
        "@t0 + @h0 * INTERVAL '1 month'",
        "@t0 - make_interval(weeks => @h0, secs => 1.5)",
        "to_timestamp(@l0)",
        "to_timestamp(@i0)",
        "to_timestamp(@d0)",
        "to_timestamp(@n0)",
        *(f"isfinite(@{code}0)" for code in TIMES),
    )
    yield from plain(*(f"{name}(@s0, '{form}')" for name, form in _READ))
    yield from plain(*(f"{name}(to_char(@t0, '{form}'), '{form}')" for name, form in _READ))
    yield from plain(
        "to_date(to_char(@t0, 'FMDDD-YYYY'), 'DDD-YYYY')", "to_date(to_char(@t0, 'FMDD FMMonth YYYY'), 'DD Month YYYY')"
    )
