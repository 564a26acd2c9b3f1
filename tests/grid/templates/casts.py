"""Casts, and constants in texts."""

from __future__ import annotations

from collections.abc import Iterator

from grid.edges import COLUMNS
from grid.templates.template import INTEGERS, JUDGED_AS, SPELLED, UNSIGNED, Template, plain

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


_NUMBERS = "hilnrd"


def casts() -> Iterator[Template]:
    for source, targets in _CASTS.items():
        for target in targets:
            yield from plain(f"@{source}0::{SPELLED[target]}")
    # an optimizer may drop the inner cast
    for source in _NUMBERS:
        for between in filter(_CASTS[source].__contains__, "hilrd"):
            for target in filter(_CASTS[between].__contains__, _NUMBERS):
                yield from plain(f"@{source}0::{SPELLED[between]}::{SPELLED[target]}")
    for source in ("n", "m", "d", "s", "i", "l", "f"):
        yield from plain(f"@{source}0::numeric(10,2)", f"@{source}0::numeric(3,1)", f"@{source}0::numeric(38,0)")
    for target, texts in _TEXTS_OF.items():
        for text in texts:
            # with a column, so that it is not a constant for the planner
            yield from plain(
                f"CASE WHEN @p0 THEN @s0 ELSE '{text}' END::{SPELLED[target]}".replace("CASE", "(CASE").replace(
                    "END::", "END)::"
                )
            )
    for source in UNSIGNED:
        for target in "hilrd":
            yield from plain(f"@{source}0::{SPELLED[target]}")
        yield from plain(f"@{source}0::numeric", f"@{source}0::text")
        for other in UNSIGNED:
            yield Template(f"@{other}0::{COLUMNS[f'{source}0']}", f"{JUDGED_AS[source]}(@{other}0)")
        for other in (*INTEGERS, "n", "m", "r", "d"):
            rounded = f"round(@{other}0)" if other in "nmrd" else f"@{other}0"
            yield Template(
                f"@{other}0::{COLUMNS[f'{source}0']}",
                f"{JUDGED_AS[source]}(of_double({rounded}))" if other in "rd" else f"{JUDGED_AS[source]}({rounded})",
            )
        yield Template(f"@s0::{COLUMNS[f'{source}0']}", f"{JUDGED_AS[source]}(whole_text(@s0))")
