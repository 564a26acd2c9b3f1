"""Functions of texts and byte strings, and patterns."""

from __future__ import annotations

from collections.abc import Iterator

from grid.templates.template import INTEGERS, Template, plain
from sinkql.logical.pattern import matches_empty, read_regex


def texts() -> Iterator[Template]:
    yield from plain(
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
    yield from plain(
        *(f"{name}(@b0)" for name in ("length", "octet_length", "md5", "sha224", "sha256", "sha384", "sha512"))
    )
    yield from plain(*(f"{name}(@s0, @s1)" for name in ("btrim", "ltrim", "rtrim", "strpos", "starts_with")))
    yield from plain(
        *(
            f"{name}(@s0, {count})"
            for name in ("lpad", "rpad", "left", "right", "substring", "substr")
            for count in (
                "@i1",
                "0",
                "2",
                "-1",
                "5",
                "2147483647",  # no text can be this long
            )
        )
    )
    yield from plain(
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
    yield from plain(
        *(f"encode(@b0, '{kind}')" for kind in ("hex", "base64")),
        "decode(@s0, 'hex')",
        "decode('SGVsbG8=', 'base64')",
        "convert_to(@s0, 'UTF8')",
        "convert_from(@b0, 'UTF8')",
    )
    for code in ("p", *INTEGERS, "m", "f", "s", "b", "u", "c", "t", "z", "y", "g", "ri", "ru", "rt", "rz"):
        yield from plain(f"concat(@{code}0, '-', @{code}1)", f"concat_ws(@s0, @{code}1, @{code}2)")
    yield from plain("format('%s-%s', @s0, @i1)", "format('%%%s', @p0)", "format('x')", "format('%s%s', @u0, @z1)")


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


def patterns() -> Iterator[Template]:
    for word in ("LIKE", "ILIKE", "NOT LIKE"):
        yield from plain(
            f"@s0 {word} @s1",
            f"@s1 {word} @s0",
            f"@s0 {word} (@s1 || '\\' || @s2)",
            f"@s0 {word} (@s1 || '!' || @s2) ESCAPE '!'",
            f"@s0 {word} (@s1 || '`' || @s2) ESCAPE '`'",
            *(
                f"@s0 {word} '{each}'"
                for each in ("", "%", "_", "a%", "%b", "%a%b%", r"%\%%", "_b_", "😀%", "%\u00e4%", "A%")
            ),
        )
        yield from plain(f"@s0 {word} '%!_%' ESCAPE '!'", f"@s0 {word} @s1 ESCAPE '!'")
        yield from plain(*(f"@s0 {word} {every} (ARRAY['a%', '%b', ''])" for every in ("ANY", "ALL")))
    yield from plain("@s0 NOT ILIKE ALL (ARRAY[@s1, 'A%'])", "@s0 !~~ ANY (ARRAY['a%', NULL])", "@s0 ~~* 'A%'")
    for each in _EXPRESSIONS:
        yield from plain(f"@s0 ~ '{each}'", f"@s0 !~ '{each}'", f"@s0 ~* '{each}'")
        if "|" not in each:
            yield from plain(
                f"regexp_count(@s0, '{each}')",
                f"regexp_replace(@s0, '{each}', '<\\&>', 'g')",
                f"substring(@s0 FROM '{each}')",
                f"(regexp_match(@s0, '{each}'))[1]",
            )
            if "^" not in each.replace("[^", ""):
                yield from plain(f"regexp_replace(@s0, '{each}', '-')", f"regexp_replace(@s0, '{each}', '', 'i')")
            if not matches_empty(read_regex(each).java):
                yield from plain(f"regexp_split_to_array(@s0, '{each}')")
    yield from plain(
        r"regexp_replace(@s0, '(a)(b)', '\2$\1', 'g')",
        r"regexp_replace(@s0, 'b', '\\', 'gi')",
        "regexp_like(@s0, 'ab')",
        "regexp_like(@s0, 'AB', 'i')",
        "regexp_count(@s0, '[a-c]', 2, 'i')",
        "regexp_count(@s0, 'b*', 1, 'i')",
        "regexp_substr(@s0, '[aA]b*')",
        "regexp_substr(@s0, '([A-C])', 2, 2, 'i', 1)",
        "regexp_substr(@s0, '.', 1, 3, '', 0)",
        "(regexp_match(@s0, '(x)(a)'))[2]",
    )
