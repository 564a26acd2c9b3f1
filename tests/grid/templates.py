"""A template for every overload, cast and constant that functions have: SQL over columns of the edge values.

`@i0` is the first column of integers, `@i1` the second one; other texts are as both SinkQL and Postgres read them. What
Postgres has not, or spells otherwise, is judged by the text beside it; None where nothing judges but the other engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from grid.edges import COLUMNS, VALUES
from sinkql.logical.pattern import matches_empty, read_regex

_PLACE = re.compile(r"@([a-z]{1,2})([0-2])\b")
SAME = "the same"


@dataclass(frozen=True, slots=True)
class Template:
    """An expression of SinkQL, and the one of Postgres that judges it."""

    text: str
    judged: str | None = SAME

    @property
    def sql(self) -> str:
        """The expression over the grid's columns."""
        return _PLACE.sub(r"\1\2", self.text)

    @property
    def judge(self) -> str | None:
        """What Postgres is asked for."""
        return self.sql if self.judged == SAME else None if self.judged is None else _PLACE.sub(r"\1\2", self.judged)

    @property
    def places(self) -> tuple[str, ...]:
        """The columns that stand in it, in order."""
        return tuple("".join(each) for each in _PLACE.findall(self.text))


FOUND = (
    "power(@d0, @d1)",
    "power(@d0, 0.5)",
    "div(@n0, @n1)",
    "div(@i0, @i1)",
    "factorial(@l0)",
    "width_bucket(@d0, @d1, @d2, 5)",
    "width_bucket(@d0, 0, 10, @i1)",
    "right(@s0, @i1)",
    "right(@s0, -2147483648)",
    "lpad(@s0, @i1)",
    "repeat(@s0, @i1)",
    "split_part(@s0, @s1, @i2)",
    "array_to_string(ARRAY[@s0, NULL, 'c'], ',', @s1)",
    "array_to_string(@as0, @s1, @s2)",
    "@ai0[@i1:@i2]",
    "@t0 AT TIME ZONE 'America/New_York'",
    "@t0 AT TIME ZONE 'Australia/Lord_Howe'",
    "date_trunc('hour', @z0, 'America/New_York')",
    "date_trunc('day', @z0, 'Europe/Berlin')",
    "@u0 + @i1",
    "@u0 - @i1",
    "to_char(@u0, 'TZ')",
    "make_date(@i0, @i1, @i2)",
    "@s0 ~ '\\s'",
    "regexp_replace(@s0, 'b*', '<\\&>', 'g')",
    "regexp_count(@s0, 'b*')",
    "@s0 NOT LIKE ALL (ARRAY['a%', '%b', ''])",
    "sign(@d0)",
    "radians(@d0)",
    "atan2(@d0, @d1)",
)
"""What was wrong once in one of the engines: all of it is tried with each change."""
_INTEGERS = ("h", "i", "l")
_UNSIGNED = ("v", "w", "x")
_NUMERICS = ("n", "m", "f")
_FLOATS = ("r", "d")
_NUMBERS = (*_INTEGERS, *_NUMERICS, *_FLOATS)
_TIMES = ("u", "t", "z")
_RANGES = {"ri": "i", "rl": "l", "rn": "n", "ru": "u", "rt": "t", "rz": "z"}
_ARRAYS = {"ai": "i", "al": "l", "as": "s", "ad": "d", "an": "n", "ap": "p", "au": "u", "at": "t"}
_COMPARED = ("p", *_INTEGERS, *_UNSIGNED, *_NUMERICS, *_FLOATS, "s", "b", "u", "c", "t", "z", "y", "g", *_RANGES)
_ORDERED = tuple(each for each in _COMPARED if each not in _RANGES)
_SIGNS = ("=", "<>", "<", "<=", ">", ">=")
_PAIRS = (
    ("h", "i"),
    ("i", "l"),
    ("l", "n"),
    ("m", "n"),
    ("i", "d"),
    ("r", "d"),
    ("n", "d"),
    ("l", "r"),
    ("i", "m"),
    ("f", "n"),
    ("u", "t"),
    ("t", "z"),
    ("u", "z"),
)
_SPELLED = {
    "p": "boolean",
    "h": "smallint",
    "i": "integer",
    "l": "bigint",
    "n": "numeric",
    "r": "real",
    "d": "double precision",
    "s": "text",
    "b": "bytea",
    "u": "date",
    "c": "time",
    "t": "timestamp",
    "z": "timestamptz",
    "g": "uuid",
    "j": "jsonb",
}
_JUDGED_AS = {"v": "uint2", "w": "uint4", "x": "uint8"}
"""Functions of the judge, which checks that a number is one of these types."""


def templates() -> tuple[Template, ...]:
    """Return all, each once."""
    made = (_operators, _conditions, _numbers, _texts, _patterns, _times, _json, _arrays, _ranges, _composites, _casts)
    return tuple(dict.fromkeys(each for make in made for each in make()))


def _plain(*texts: str) -> Iterator[Template]:
    yield from map(Template, texts)


def _operators() -> Iterator[Template]:
    yield from _plain("@p0 AND @p1", "@p0 OR @p1", "NOT @p0", "@p0 AND @p1 AND @p2", "@p0 OR @p1 OR @p2")
    yield from _plain("@p0 IS TRUE", "@p0 IS FALSE", "@p0 IS NOT TRUE", "@p0 IS NOT FALSE", "@p0 IS UNKNOWN")
    for code in _COMPARED:
        yield from _plain(*(f"@{code}0 {sign} @{code}1" for sign in _SIGNS))
        yield from _plain(f"@{code}0 IS NOT DISTINCT FROM @{code}1", f"@{code}0 IS DISTINCT FROM @{code}1")
        yield from _plain(f"@{code}0 IN (@{code}1, @{code}2)", f"@{code}0 NOT IN (@{code}1, @{code}2)")
        if code != "y" and code not in _RANGES:
            yield from _plain(f"@{code}0 BETWEEN @{code}1 AND @{code}2")
    for code in VALUES:
        if code not in ("k", *_UNSIGNED):
            yield Template(f"@{code}0 IS NULL", None if code in ("q", "li") else SAME)
    yield from _plain(
        "@y0 = INTERVAL '1 month'",
        "@y0 < INTERVAL '1 day'",
        "@t0 - @t1 > INTERVAL '1 day'",
        *(f"@z0 - @z1 {sign} INTERVAL '36 hours'" for sign in _SIGNS),
        "@t0 - @t1 IS NOT DISTINCT FROM INTERVAL '1 day'",
    )
    for one, other in _PAIRS:
        yield from _plain(*(f"@{one}0 {sign} @{other}1" for sign in _SIGNS), f"@{one}0 IS DISTINCT FROM @{other}1")
    for code in _NUMBERS:
        yield from _plain(*(f"@{code}0 {sign} @{code}1" for sign in "+-*/"), f"-@{code}0")
        if code not in _FLOATS:
            yield from _plain(f"@{code}0 % @{code}1", f"mod(@{code}0, @{code}1)")
    for one, other in _PAIRS[:10]:
        yield from _plain(*(f"@{one}0 {sign} @{other}1" for sign in "+-*/"))
    yield from _plain(
        "@i0 + 1",
        "@i0 - 1",
        "@l0 * 2",
        "@i0 / 2",
        "@i0 % 4",
        "@n0 * 1.5",
        "@n0 / 3",
        "@m0 / 7",
        "@n0 % 0.07",
        "@d0 / 3.0::double precision",
        "@m0 * @i1",
        "@n0 + 0.5",
        "10 / @i0",
        "1.0 / @n0",
    )
    for code in _INTEGERS:
        yield from _plain(*(f"@{code}0 {sign} @{code}1" for sign in "&|#"), f"~@{code}0")
    for code in ("i", "l"):
        yield from _plain(*(f"@{code}0 {sign} {by}" for sign in ("<<", ">>") for by in ("1", "31")))
    for code in _UNSIGNED:
        yield from _unsigned(code)
    yield from _plain("@s0 || @s1", "@b0 || @b1", "@s0 || @i1", "@i0 || @s1", "@s0 || @p1", "@s0 || @u1", "@s0 || @m1")
    yield from _plain(
        *(
            f"@{code}0 {sign} INTERVAL '{each}'"
            for code in "tz"
            for sign in "+-"
            for each in (
                "1 day",
                "1 month",
                "-1 month",
                "1 year 2 months 3 days 04:05:06.789",
                "36 hours",
                "0.000001 seconds",
                "8000 years",
                "-00:00:00.5",
                "1 month -1 day",
            )
        )
    )
    yield from _plain(*(f"@{code}0 {sign} @y1" for code in "tz" for sign in "+-"))
    yield from _plain(*(f"@u0 {sign} INTERVAL '{each}'" for sign in "+-" for each in ("1 month", "25 hours")))
    yield from _plain("coalesce(@t0 - @t1, @y2)", "coalesce(@z0 - @z1, @y2)", "@u0 - @u1")
    yield from _plain(
        *(
            f"@{code}0 {sign} @{by}1 * INTERVAL '{each}'"
            for code in "tz"
            for by in _INTEGERS
            for sign, each in (("+", "1 day"), ("-", "3 seconds"), ("+", "2 days"))
        )
    )
    yield from _plain(
        *(
            f"@c0 {sign} INTERVAL '{each}'"
            for sign in "+-"
            for each in ("1 hour", "25:00:00.5", "-00:30", "3 days", "1 month")
        )
    )
    yield from _plain(
        "@u0 + @c1", "@c0 + @u1", *(f"@u0 {sign} @{by}1" for sign in "+-" for by in "hi"), "@i0 + @u1", "@u0 + 1"
    )


def _unsigned(code: str) -> Iterator[Template]:
    check = _JUDGED_AS[code]
    for sign in "+-*":
        yield Template(f"@{code}0 {sign} @{code}1", f"{check}(@{code}0 {sign} @{code}1)")
    yield Template(f"@{code}0 / @{code}1", f"{check}(div(@{code}0, @{code}1))")
    yield Template(f"@{code}0 % @{code}1", f"{check}(@{code}0 % @{code}1)")
    for sign in "&|#":
        yield Template(f"@{code}0 {sign} @{code}1", f"bits('{sign}', @{code}0, @{code}1)")
    yield Template(f"~@{code}0", f"{check}({2 ** {'v': 16, 'w': 32, 'x': 64}[code] - 1} - @{code}0)")


def _conditions() -> Iterator[Template]:
    for code in VALUES:
        judged = None if code in ("q", "li", "k") else SAME
        if code != "k":
            yield Template(f"coalesce(@{code}0, @{code}1, @{code}2)", judged)
            yield Template(f"CASE WHEN @p0 THEN @{code}0 WHEN @p1 THEN @{code}1 END", judged)
    for code in _COMPARED:
        yield from _plain(f"nullif(@{code}0, @{code}1)")
    for code in _ORDERED:
        if code != "y":
            yield from _plain(f"greatest(@{code}0, @{code}1, @{code}2)", f"least(@{code}0, @{code}1, @{code}2)")
    yield from _plain(
        "coalesce(@i0, @l1)",
        "coalesce(@i0, @n1)",
        "greatest(@i0, @d1)",
        "least(@m0, @n1)",
        "nullif(@i0, @l1)",
        "num_nulls(@i0, @s1, @d2)",
        "num_nonnulls(@i0, @s1, @j2)",
        "num_nulls(@as0, @u1)",
        "CASE @i0 WHEN @i1 THEN 'a' WHEN @i2 THEN 'b' ELSE 'c' END",
        "CASE WHEN @i1 <> 0 THEN @i0 / @i1 END",
        "coalesce(@d0, @r1)",
    )


def _numbers() -> Iterator[Template]:
    yield from _plain(*(f"abs(@{code}0)" for code in _NUMBERS))
    for code in ("d", *_NUMERICS, "i"):
        yield from _plain(*(f"{name}(@{code}0)" for name in ("ceil", "floor", "sign", "round", "trunc", "ceiling")))
    for code in _NUMERICS:
        yield from _plain(
            *(f"{name}(@{code}0, {digits})" for name in ("round", "trunc") for digits in (-28, -12, -1, 0, 1, 2, 5, 10))
        )
    yield from _plain(
        *(
            f"{name}(@{code}0)"
            for code in ("d", "r", "i")
            for name in ("sqrt", "ln", "log", "log10", "exp", "cbrt", "radians", "degrees", "sin", "cos", "tan")
        )
    )
    yield from _plain(
        "power(@d0, @d1)",
        "pow(@d0, @i1)",
        "power(@i0, 2)",
        "power(@d0, 0.5)",
        "atan2(@d0, @d1)",
        "pi()",
        "factorial(@l0)",
        "factorial(@i0)",
        "to_hex(@l0)",
        "to_hex(@i0)",
        "div(@n0, @n1)",
        "div(@m0, @m1)",
        "div(@i0, @i1)",
        "div(@f0, @f1)",
        "div(@n0, @m1)",
        "width_bucket(@d0, @d1, @d2, 5)",
        "width_bucket(@d0, 0, 10, @i1)",
        "width_bucket(@d0, 10, 0, 4)",
        "width_bucket(@i0, @i1, @i2, 3)",
        "width_bucket(@d0, @d1, 10, 2147483647)",
    )
    for form in (
        "9",
        "999",
        "0000",
        "9,999.99",
        "FM999.99",
        "S999",
        "999PR",
        "MI999.9",
        "9.99EEEE",
        "RN",
        "FMRN",
        "999V99",
        "99th",
        "FM0.0000000000",
        "SG9999999999999999999.99",
        "999.9S",
        "FM9999TH",
    ):
        for code in ("h", "i", "l", "n", "m", "r", "d"):
            yield from _plain(f"to_char(@{code}0, '{form}')")


def _texts() -> Iterator[Template]:
    yield from _plain(
        *(
            f"{name}(@s0)"
            for name in (
                "lower",
                "upper",
                "initcap",
                "reverse",
                "md5",
                "length",
                "char_length",
                "octet_length",
                "bit_length",
                "ascii",
                "btrim",
                "ltrim",
                "rtrim",
                "trim",
                "character_length",
            )
        )
    )
    yield from _plain(
        *(f"{name}(@b0)" for name in ("length", "octet_length", "md5", "sha224", "sha256", "sha384", "sha512"))
    )
    yield from _plain(*(f"{name}(@s0, @s1)" for name in ("btrim", "ltrim", "rtrim", "strpos", "starts_with")))
    yield from _plain(
        *(
            f"{name}(@s0, {count})"
            for name in ("lpad", "rpad", "left", "right", "substring", "substr")
            for count in (
                "@i1",
                "0",
                "2",
                "-1",
                "5",
                "2147483647",  # a text as long as that is no text
            )
        )
    )
    yield from _plain(
        "left(@s0, -2147483648)",
        "right(@s0, -2147483648)",
        "repeat(@s0, @i1)",
        "repeat(@s0, @h1)",
        "repeat(@s0, 3)",
        "lpad(@s0, 5, @s1)",
        "rpad(@s0, 7, @s1)",
        "lpad(@s0, @h1, 'ab')",
        "rpad(@s0, @h1, '😀')",
        "lpad(@s0, @h1, '')",
        "replace(@s0, @s1, @s2)",
        "translate(@s0, @s1, @s2)",
        "translate(@s0, 'ab😀', 'x')",
        "split_part(@s0, @s1, @i2)",
        "split_part(@s0, ',', 2)",
        "split_part(@s0, ',', -1)",
        "substring(@s0, @i1, @i2)",
        "substring(@s0, 0, 2)",
        "substring(@s0 FROM -1 FOR @i1)",
        "overlay(@s0 PLACING 'XY' FROM 2 FOR @i1)",
        "overlay(@s0 PLACING @s1 FROM @i1 FOR @i2)",
        "position(@s1 IN @s0)",
        "chr(@i0)",
        "@s0 ^@ @s1",
        "trim(LEADING @s1 FROM @s0)",
        "trim(TRAILING ' a' FROM @s0)",
    )
    yield from _plain(
        *(f"encode(@b0, '{kind}')" for kind in ("hex", "base64")),
        "decode(@s0, 'hex')",
        "decode('SGVsbG8=', 'base64')",
        "convert_to(@s0, 'UTF8')",
        "convert_from(@b0, 'UTF8')",
    )
    for code in ("p", *_INTEGERS, "m", "f", "s", "b", "u", "c", "t", "z", "y", "g", "ri", "ru", "rt", "rz"):
        yield from _plain(f"concat(@{code}0, '-', @{code}1)", f"concat_ws(@s0, @{code}1, @{code}2)")
    yield from _plain("format('%s-%s', @s0, @i1)", "format('%%%s', @p0)", "format('x')", "format('%s%s', @u0, @z1)")


_EXPRESSIONS = (
    "a",
    "^a",
    "b$",
    "a.b",
    "[a-z]+",
    "[^a-z]",
    r"\d+",
    r"\D",
    r"\s",
    r"\S",
    r"\w+",
    r"\W",
    "a|b",
    "(ab)+",
    "a{2,3}",
    "x?",
    "a*",
    "😀",
    r"\.",
    r"[\s\d]",
    r"^\s*$",
    "[[]",
    "A",
    "ä",
    r"[^\w]",
    "(a)(b)",
    "b*",
    ".",
    "^.$",
    r"\n",
)


def _patterns() -> Iterator[Template]:
    for word in ("LIKE", "ILIKE", "NOT LIKE"):
        yield from _plain(
            f"@s0 {word} @s1",
            *(
                f"@s0 {word} '{each}'"
                for each in ("", "%", "_", "a%", "%b", "%a%b%", r"%\%%", "_b_", "😀%", "%\u00e4%", "A%")
            ),
        )
        yield from _plain(f"@s0 {word} '%!_%' ESCAPE '!'", f"@s0 {word} @s1 ESCAPE '!'")
        yield from _plain(*(f"@s0 {word} {every} (ARRAY['a%', '%b', ''])" for every in ("ANY", "ALL")))
    yield from _plain("@s0 NOT ILIKE ALL (ARRAY[@s1, 'A%'])", "@s0 !~~ ANY (ARRAY['a%', NULL])", "@s0 ~~* 'A%'")
    for each in _EXPRESSIONS:
        yield from _plain(f"@s0 ~ '{each}'", f"@s0 !~ '{each}'", f"@s0 ~* '{each}'")
        if "|" not in each:
            yield from _plain(
                f"regexp_count(@s0, '{each}')",
                f"regexp_replace(@s0, '{each}', '<\\&>', 'g')",
                f"substring(@s0 FROM '{each}')",
                f"(regexp_match(@s0, '{each}'))[1]",
            )
            if "^" not in each.replace("[^", ""):
                yield from _plain(f"regexp_replace(@s0, '{each}', '-')", f"regexp_replace(@s0, '{each}', '', 'i')")
            if not matches_empty(read_regex(each).java):
                yield from _plain(f"regexp_split_to_array(@s0, '{each}')")
    yield from _plain(
        r"regexp_replace(@s0, '(a)(b)', '\2$\1', 'g')",
        r"regexp_replace(@s0, 'b', '\\', 'gi')",
        "regexp_like(@s0, 'ab')",
        "(regexp_match(@s0, '(x)(a)'))[2]",
    )


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


def _times() -> Iterator[Template]:
    for code in ("u", "t", "z", "c"):
        fields = (
            _DATE_FIELDS
            if code == "u"
            else (*_CLOCK_FIELDS, "epoch")
            if code == "c"
            else (*_DATE_FIELDS, *_CLOCK_FIELDS)
        )
        yield from _plain(*(f"extract({field} FROM @{code}0)" for field in fields))
        yield from _plain(*(f"date_part('{field}', @{code}0)" for field in fields))
    for field in ("epoch", "day", "hour"):
        yield from _plain(*(f"extract({field} FROM @{code}0 - @{code}1)" for code in "tz"))
        yield from _plain(f"date_part('{field}', @t0 - @t1)")
    for code in "tz":
        yield from _plain(*(f"date_trunc('{unit}', @{code}0)" for unit in (*_UNITS, *_LONG_UNITS)))
        yield from _plain(
            *(
                f"date_bin('{stride}', @{code}0, @{code}1)"
                for stride in ("1 hour", "15 minutes", "7 days", "0.000001 seconds", "1 day 1 second")
            )
        )
        yield from _plain(*(f"@{code}0 AT TIME ZONE '{zone}'" for zone in ZONES))
        yield from _plain(
            *(
                f"to_char(@{code}0, '{form}')"
                for form in _FORMS
                if code == "z" or "TZ" not in form.replace("TZH:TZM", "")
            )
        )
    yield from _plain(*(f"date_trunc('{unit}', @z0, '{zone}')" for zone in ZONES for unit in _UNITS))
    yield from _plain(
        "date_trunc('month', @u0)",
        "to_char(@u0, 'YYYY-MM-DD')",
        "to_char(@u0, 'TZ')",
        "make_date(@i0, @i1, @i2)",
        "make_date(2024, @i1, @i2)",
        "make_date(@i0, 2, 29)",
        "make_timestamp(2024, 2, 29, 12, 30, 15.5)",
        "make_timestamp(2024, 12, 31, 23, 59, 60)",
        "to_timestamp(@l0)",
        "to_timestamp(@i0)",
        "to_timestamp(@d0)",
        "to_timestamp(@n0)",
        *(f"isfinite(@{code}0)" for code in _TIMES),
    )
    yield from _plain(*(f"{name}(@s0, '{form}')" for name, form in _READ))
    yield from _plain(*(f"{name}(to_char(@t0, '{form}'), '{form}')" for name, form in _READ))
    yield from _plain(
        "to_date(to_char(@t0, 'FMDDD-YYYY'), 'DDD-YYYY')", "to_date(to_char(@t0, 'FMDD FMMonth YYYY'), 'DD Month YYYY')"
    )


def _json() -> Iterator[Template]:
    for step in ("'a'", "1", "'b'"):
        yield from _plain(f"@j0 -> {step}", f"@j0 ->> {step}")
    yield from _plain(
        "@j0 -> 'a' -> 'b'",
        "@j0 -> 'a' ->> 'b'",
        "@j0 -> 'a' -> 'b' ->> 0",
        "@j0 #>> '{a,b}'",
        "@j0 #>> '{b,a,0}'",
        "@j0 ? 'a'",
        "@j0 @> '{\"a\": 1}'",
        "jsonb_typeof(@j0)",
        "jsonb_array_length(@j0)",
        *(f"to_jsonb(@{code}0)" for code in "sihlpm"),
        "jsonb_build_object('a', @i0, 'b', @s1)",
        "jsonb_build_object('a', 1, 'a', @i0)",
        "jsonb_build_object('bb', @p0, 'c', @l1)",
        "jsonb_build_array()",
        "jsonb_build_array(@i0, @s1, @p0)",
        "(@j0 ->> 'a')::numeric",
    )


def _arrays() -> Iterator[Template]:
    for code, element in _ARRAYS.items():
        yield from _plain(
            f"@{code}0[@i1]",
            f"@{code}0[1]",
            f"@{code}0[0]",
            f"@{code}0[-1]",
            f"@{code}0[2:3]",
            f"@{code}0[@i1:@i2]",
            f"@{code}0[:1]",
            f"cardinality(@{code}0)",
            f"array_length(@{code}0, 1)",
            f"ARRAY[@{element}0, @{element}1]",
        )
        yield from _plain(
            f"array_append(@{code}0, @{element}1)",
            f"array_prepend(@{element}0, @{code}1)",
            f"array_cat(@{code}0, @{code}1)",
            f"@{code}0 || @{code}1",
            f"@{code}0 || @{element}1",
            f"array_position(@{code}0, @{element}1)",
            f"array_remove(@{code}0, @{element}1)",
            f"array_replace(@{code}0, @{element}1, @{element}2)",
            f"@{code}0 @> @{code}1",
            f"@{code}0 <@ @{code}1",
            f"@{code}0 && @{code}1",
        )
        for sign in _SIGNS:
            yield from _plain(*(f"@{element}0 {sign} {every} (@{code}1)" for every in ("ANY", "ALL")))
    yield from _plain(
        "array_to_string(@as0, ',')",
        "array_to_string(@as0, @s1)",
        "array_to_string(@ai0, ',')",
        "array_to_string(@as0, ',', @s1)",
        "array_to_string(@as0, @s1, 'x')",
        "array_to_string(@as0, @s1, @s2)",
        "array_to_string(@ai0, ',', '*')",
        "array_to_string(@al0, '-', @s1)",
        "array_to_string(ARRAY[@s0, NULL, 'c'], ',', @s1)",
        "string_to_array(@s0, ',')",
        "string_to_array(@s0, @s1)",
        "string_to_array(@s0, '')",
        "string_to_array(@s0, NULL)",
        "string_to_array(@s0, ',', '')",
        "string_to_array(@s0, @s1, @s2)",
        "string_to_array(@s0, ',', NULL)",
        "cardinality(@am0)",
        "array_length(@am0, 1)",
        "array_length(@am0, 2)",
        "@am0[1][2]",
        "@am0[@i0][@i1]",
        "ARRAY[ARRAY[@i0, @i1], ARRAY[@i2, 1]]",
        "ARRAY[@ai0, @ai1]",
        "@am0 @> @am1",
        "@am0 && @am1",
        "@i0 = ANY (@am1)",
        "@i0 = ANY (ARRAY[@i1, @i2])",
        "@i0 <> ALL (ARRAY[@i1, @i2])",
        "@i0 > ALL (ARRAY[1, @i1])",
        "array_upper(@ai0, 1)",
    )
    yield from (
        Template(*each)
        for each in (
            ("@li0[@i1]", None),
            ("list_length(@li0)", None),
            ("@i0 = ANY (@li1)", None),
            ("@li0 @> @li1", None),
        )
    )


def _ranges() -> Iterator[Template]:
    for code, element in _RANGES.items():
        name = COLUMNS[f"{code}0"]
        yield from _plain(
            *(
                f"{each}(@{code}0)"
                for each in ("lower", "upper", "isempty", "lower_inc", "upper_inc", "lower_inf", "upper_inf")
            )
        )
        yield from _plain(
            f"@{code}0 @> @{element}1",
            f"@{element}0 <@ @{code}1",
            f"@{code}0 @> @{code}1",
            f"@{code}0 <@ @{code}1",
            f"@{code}0 && @{code}1",
            f"{name}(@{element}0, @{element}1)",
            *(f"{name}(@{element}0, @{element}1, '{bounds}')" for bounds in ("[]", "()", "(]")),
        )


def _composites() -> Iterator[Template]:
    yield from (
        Template(*each)
        for each in (
            ("(@k0).a", "(@k0).a"),
            ("(@k0).b", "(@k0).b"),
            ("(ROW(@i0, @s1)).f2", "(ROW(@i0, @s1)).f2"),
            ("@q0 -> 'a'", None),
            ("@q0 -> @s1", None),
            ("@q0 ? @s1", None),
            ("map_length(@q0)", None),
            ("MAP[@s0 => @i1, 'a' => @i0] -> 'a'", None),
            ("@k0 IS NULL", "@k0 IS NULL"),
        )
    )


_CASTS = {
    "p": "is",
    "h": "ilnrds",
    "i": "hlnrdsp",
    "l": "hinrds",
    "n": "hilrd",
    "m": "hilnrds",
    "f": "hilnrds",
    "r": "hilnd",
    "d": "hilnr",
    "s": "philnductzgbj",
    "u": "tzs",
    "c": "s",
    "t": "uczs",
    "z": "ucts",
    "y": "s",
    "g": "s",
    "b": "s",
    "ri": "s",
    "rl": "s",
    "ru": "s",
    "rt": "s",
    "rz": "s",
}
_TEXTS_OF = {
    "c": ("12:30", "T010203", "04:05:06.789 PM", " 3:4 ", "24:00", "12:00 AM", "23:59:60", "12:30+02"),
    "n": (
        "1e-11",
        "123456789012345678901234567890",
        "0x1F",
        "1_000",
        "+.5",
        "1.",
        "e",
        "NaN",
        "99999999999999999999999999999e-10",
    ),
    "d": ("1e400", "1e-400", "+inf", "-Infinity", "0x1p3", " 1.5 ", "1.7976931348623159e308", "4.9e-324"),
    "u": (
        "2024-2-3",
        "Feb 29 2024",
        "20240229",
        "29/2/2024",
        "2/29/2024",
        "infinity",
        "2023-02-29",
        "0000-01-01",
        "epoch",
        "10000-01-01",
    ),
    "t": (
        "2024-02-29 12:34:56.1234567",
        "2024-02-29T24:00:00",
        "2024-02-29 1:2:3 PM",
        "2024-02-29 12:00+02",
        "2024-02-29 12:30:60",
    ),
    "z": (
        "2024-02-29 12:34:56+05:30",
        "2024-02-29Z",
        "0001-01-01 00:00+01",
        "9999-12-31 23:59:59-01",
        "2024-02-29 12:00 America/New_York",
    ),
    "p": (" TRUE ", "yes", "of", "o", "1", "tru", "t\u00a0"),
    "i": (" +7 ", "2147483648", "0x10", "1_0", "", "1.0", "\u0661"),
    "g": (
        "{a0eebc999c0b4ef8bb6d6bb9bd380a11}",
        "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
        "a0eebc99-9c0b-4ef8-bb6d",
        " a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    ),
    "b": (r"\xAbC0", r"\x1", r"a\\b", r"\001", "é"),
    "j": (
        "1.0",
        "1e5",
        '{"a":1,"a":2}',
        '{"b":1,"aa":2}',
        '"\\ud83d\\ude00"',
        "[1,2",
        "tru",
        '{"a": 1} ',
        "-0",
        "1e400",
        '"\\u0000"',
    ),
}


def _casts() -> Iterator[Template]:
    for source, targets in _CASTS.items():
        for target in targets:
            yield from _plain(f"@{source}0::{_SPELLED[target]}")
    for source in ("n", "m", "d", "s", "i", "l", "f"):
        yield from _plain(f"@{source}0::numeric(10,2)", f"@{source}0::numeric(3,1)", f"@{source}0::numeric(38,0)")
    for target, texts in _TEXTS_OF.items():
        for text in texts:
            # beside a column, so that it is computed and not known beforehand
            yield from _plain(
                f"CASE WHEN @p0 THEN @s0 ELSE '{text}' END::{_SPELLED[target]}".replace("CASE", "(CASE").replace(
                    "END::", "END)::"
                )
            )
    for source in _UNSIGNED:
        for target in "hilrd":
            yield from _plain(f"@{source}0::{_SPELLED[target]}")
        yield from _plain(f"@{source}0::numeric", f"@{source}0::text")
        for other in _UNSIGNED:
            yield Template(f"@{other}0::{COLUMNS[f'{source}0']}", f"{_JUDGED_AS[source]}(@{other}0)")
        for other in (*_INTEGERS, "n", "m", "r", "d"):
            rounded = f"round(@{other}0)" if other in "nmrd" else f"@{other}0"
            yield Template(
                f"@{other}0::{COLUMNS[f'{source}0']}",
                f"{_JUDGED_AS[source]}(of_double({rounded}))" if other in "rd" else f"{_JUDGED_AS[source]}({rounded})",
            )
        yield Template(f"@s0::{COLUMNS[f'{source}0']}", f"{_JUDGED_AS[source]}(whole_text(@s0))")
