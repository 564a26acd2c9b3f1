"""Functions of numbers."""

from __future__ import annotations

from collections.abc import Iterator

from grid.templates.template import NUMBERS, NUMERICS, Template, plain


def numbers() -> Iterator[Template]:
    yield from plain(
        "@n0 / @n1 * @n2",
        "@n0 / @n1 + @n2",
        "@n0 / @n1 / @n2",
        "(@n0 - @m1) / @n1 * 100",
        "@m0 / @m1 * @m2",
        "@m0 / 7 * 7",
        "@i0 / 3.0 * @i1",
        "round(@m0 / @m1 * 100, 2)",
        "trunc(@m0 / 7 * 3, 1)",
        "floor(@m0 / 7 * 3)",
        "-(@m0 / 7 * 3)",
        "abs(@m0 / 7 - @m1)",
        "@m0 / @m1 % 3",
        "(@m0 / @m1)::double precision",
        "(@m0 / 7 * 3)::double precision",
        "@m0 ^ 2",
        "@m0 ^ 3",
        "@m0 ^ 0",
        "@m0 ^ -1",
        "@m0 ^ @h1",
        "@m0 ^ 0.5",
        "@n0 ^ @n1",
        "2.5 ^ @m0",
        "power(@m0, @m1)",
        "power(@h0, 1.5)",
        "0.07 / @i0 * 1000",
        "@m0 * 3 / 7 + 1",
        "(@m0 / 3 + @m1 / 3) * 1.5",
        "round(@m0 / @m1, 2)",
        "trunc(@n0 / @n1, 1)",
        "ceil(@m0 / @n1)",
        "(@m0 / @m1)::numeric(20,3)",
        "(@m0 / @m1)::bigint",
        "-(@m0 / @m1) * 1000",
        "coalesce(@m0 / nullif(@m1, 0), @h0) * 100",
        "CASE WHEN @m1 <> 0 THEN @m0 / @m1 ELSE 1 END * 100",
        "round(CASE WHEN @m1 <> 0 THEN @m0 / @m1 END, 3)",
    )
    yield from plain(*(f"abs(@{code}0)" for code in NUMBERS))
    for code in ("d", *NUMERICS, "i"):
        yield from plain(*(f"{name}(@{code}0)" for name in ("ceil", "floor", "sign", "round", "trunc", "ceiling")))
    for code in NUMERICS:
        yield from plain(
            *(f"{name}(@{code}0, {digits})" for name in ("round", "trunc") for digits in (-28, -12, -1, 0, 1, 2, 5, 10))
        )
    yield from plain(
        *(
            f"{name}(@{code}0)"
            for code in ("d", "r", "i")
            for name in ("sqrt", "ln", "log", "log10", "exp", "cbrt", "radians", "degrees", "sin", "cos", "tan")
        )
    )
    yield from plain(
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
            yield from plain(f"to_char(@{code}0, '{form}')")
