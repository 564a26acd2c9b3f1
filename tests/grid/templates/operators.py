"""Operators, comparisons and conditions."""

from __future__ import annotations

from collections.abc import Iterator

from grid.edges import VALUES
from grid.templates.template import (
    COMPARED,
    FLOATS,
    INTEGERS,
    JUDGED_AS,
    NUMBERS,
    ORDERED,
    PAIRS,
    RANGES,
    SAME,
    SIGNS,
    UNSIGNED,
    Template,
    plain,
)


def operators() -> Iterator[Template]:
    yield from plain("@p0 AND @p1", "@p0 OR @p1", "NOT @p0", "@p0 AND @p1 AND @p2", "@p0 OR @p1 OR @p2")
    yield from plain("@p0 IS TRUE", "@p0 IS FALSE", "@p0 IS NOT TRUE", "@p0 IS NOT FALSE", "@p0 IS UNKNOWN")
    for code in COMPARED:
        yield from plain(*(f"@{code}0 {sign} @{code}1" for sign in SIGNS))
        yield from plain(f"@{code}0 IS NOT DISTINCT FROM @{code}1", f"@{code}0 IS DISTINCT FROM @{code}1")
        yield from plain(f"@{code}0 IN (@{code}1, @{code}2)", f"@{code}0 NOT IN (@{code}1, @{code}2)")
        if code != "y" and code not in RANGES:
            yield from plain(f"@{code}0 BETWEEN @{code}1 AND @{code}2")
    for code in VALUES:
        if code not in ("k", *UNSIGNED):
            yield Template(f"@{code}0 IS NULL", None if code in ("q", "li") else SAME)
    yield from plain(
        "@y0 = INTERVAL '1 month'",
        "@y0 < INTERVAL '1 day'",
        "@t0 - @t1 > INTERVAL '1 day'",
        *(f"@z0 - @z1 {sign} INTERVAL '36 hours'" for sign in SIGNS),
        "@t0 - @t1 IS NOT DISTINCT FROM INTERVAL '1 day'",
    )
    for one, other in PAIRS:
        yield from plain(*(f"@{one}0 {sign} @{other}1" for sign in SIGNS), f"@{one}0 IS DISTINCT FROM @{other}1")
    for code in NUMBERS:
        yield from plain(*(f"@{code}0 {sign} @{code}1" for sign in "+-*/"), f"-@{code}0")
        if code not in FLOATS:
            yield from plain(f"@{code}0 % @{code}1", f"mod(@{code}0, @{code}1)")
    for one, other in PAIRS[:10]:
        yield from plain(*(f"@{one}0 {sign} @{other}1" for sign in "+-*/"))
    for code in INTEGERS:
        yield from plain(f"1 + @{code}0 + @{code}1 + 2", f"0 * @{code}0 * coalesce(@{code}0, @{code}1)")
    yield from plain(
        "@i0 + 1",
        "@i0 - 1",
        "@l0 * 2",
        "@i0 / 2",
        "@i0 % 4",
        "@f0 % @m1",
        "@f0 % 0.07",
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
    for code in INTEGERS:
        yield from plain(*(f"@{code}0 {sign} @{code}1" for sign in "&|#"), f"~@{code}0")
    for code in ("i", "l"):
        yield from plain(*(f"@{code}0 {sign} {by}" for sign in ("<<", ">>") for by in ("1", "31")))
    for code in UNSIGNED:
        yield from _unsigned(code)
    yield from plain("@s0 || @s1", "@b0 || @b1", "@s0 || @i1", "@i0 || @s1", "@s0 || @p1", "@s0 || @u1", "@s0 || @m1")
    yield from plain(
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
    yield from plain(*(f"@{code}0 {sign} @y1" for code in "tz" for sign in "+-"))
    yield from plain(*(f"@u0 {sign} INTERVAL '{each}'" for sign in "+-" for each in ("1 month", "25 hours")))
    yield from plain("coalesce(@t0 - @t1, @y2)", "coalesce(@z0 - @z1, @y2)", "@u0 - @u1")
    yield from plain(
        *(
            f"@{code}0 {sign} @{by}1 * INTERVAL '{each}'"
            for code in "tz"
            for by in INTEGERS
            for sign, each in (("+", "1 day"), ("-", "3 seconds"), ("+", "2 days"))
        )
    )
    yield from plain(
        *(
            f"@c0 {sign} INTERVAL '{each}'"
            for sign in "+-"
            for each in ("1 hour", "25:00:00.5", "-00:30", "3 days", "1 month")
        )
    )
    yield from plain(
        "@u0 + @c1", "@c0 + @u1", *(f"@u0 {sign} @{by}1" for sign in "+-" for by in "hi"), "@i0 + @u1", "@u0 + 1"
    )


def _unsigned(code: str) -> Iterator[Template]:
    check = JUDGED_AS[code]
    for sign in "+-*":
        yield Template(f"@{code}0 {sign} @{code}1", f"{check}(@{code}0 {sign} @{code}1)")
    yield Template(f"@{code}0 / @{code}1", f"{check}(div(@{code}0, @{code}1))")
    yield Template(f"@{code}0 % @{code}1", f"{check}(@{code}0 % @{code}1)")
    for sign in "&|#":
        yield Template(f"@{code}0 {sign} @{code}1", f"bits('{sign}', @{code}0, @{code}1)")
    yield Template(f"~@{code}0", f"{check}({2 ** {'v': 16, 'w': 32, 'x': 64}[code] - 1} - @{code}0)")


def conditions() -> Iterator[Template]:
    for code in VALUES:
        judged = None if code in ("q", "li", "k") else SAME
        if code != "k":
            yield Template(f"coalesce(@{code}0, @{code}1, @{code}2)", judged)
            yield Template(f"CASE WHEN @p0 THEN @{code}0 WHEN @p1 THEN @{code}1 END", judged)
    for code in COMPARED:
        yield from plain(f"nullif(@{code}0, @{code}1)")
    for code in ORDERED:
        if code != "y":
            yield from plain(f"greatest(@{code}0, @{code}1, @{code}2)", f"least(@{code}0, @{code}1, @{code}2)")
    yield from plain(
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
        # a constant decides, wherever it is
        "1 / @i0 > 0 AND false AND 1 / @i1 > 0",
        "1 / @i0 > 0 OR 1 / @i1 > 0 OR true",
        "NOT (1 / @i0 > 0 AND false)",
        # two decimals that fit no common type
        "@f0 < round(@m1, 2)",
        "@f0 BETWEEN @n1 AND @f2",
        "@n0 NOT BETWEEN @f1 AND @f2",
        "@f0 NOT IN (@n1, @m2)",
        "@f0 IS NOT DISTINCT FROM @n1",
    )
