"""Functions of jsonb, arrays, ranges, maps and records."""

from __future__ import annotations

from collections.abc import Iterator

from grid.edges import COLUMNS
from grid.templates.template import ARRAYS, RANGES, SIGNS, Template, plain


def json() -> Iterator[Template]:
    for step in ("'a'", "1", "'b'"):
        yield from plain(f"@j0 -> {step}", f"@j0 ->> {step}")
    yield from plain(
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
        "@j0::text",
    )
    for step in ("0", "-1", "-2", "''", "'a\"b'", "@i1", "@s1"):
        yield from plain(f"@j0 -> {step}", f"@j0 ->> {step}", f"@j0 -> 'a' -> {step}", f"@j0 -> 0 ->> {step}")
    for path in ("{b,0,a}", "{0}", "{-1}", "{0,0}", "{}", "{a,null}", '{"a b",0}', "{a, 0}", "{ +1}", "{b,a}"):
        yield from plain(f"@j0 #> '{path}'", f"@j0 #>> '{path}'")
    yield from plain("jsonb_extract_path_text(@j0, 'a', '0')", "jsonb_extract_path(@j0, 'b', '0')")


_FAILING = (
    "array_remove(@ai0, 1 / @i1)",
    "array_replace(@ai0, 1 / @i1, @i2)",
    "array_replace(@ai0, @i1, 1 / @i2)",
    "@ai0[array_length(ARRAY[@ai2, @ai1], 2):@i0]",
    "@ai0[@i0:array_length(ARRAY[@ai2, @ai1], 2)]",
    "@ai0[array_length(ARRAY[@ai2, @ai1], 2)]",
    "(ARRAY[1, 2 / @i0])[0]",
    "(ARRAY[1, 2 / @i0])[@i1]",
    "array_to_string(@ai0, ',', (1 / @i1)::text)",
    "string_to_array(@s0, ',', (1 / @i1)::text)",
)
"""An operand fails beside an array that is empty or NULL."""


def arrays() -> Iterator[Template]:
    for code in ARRAYS:
        yield from plain(*(f"@{code}0 {sign} @{code}1" for sign in SIGNS), f"@{code}0 IS DISTINCT FROM @{code}1")
    yield from plain("@ai0 BETWEEN @ai1 AND @ai2", "@as0 IN (@as1, '{a}')", "nullif(@ai0, @ai1)")
    yield from plain(*(f"ARRAY[@ai0, @ai1] {sign} ARRAY[@ai1, @ai2]" for sign in ("=", "<", ">=")))
    yield from plain("ARRAY[@i0, NULL] < ARRAY[@i1, @i2]", "ARRAY[@d0] = ARRAY[@d1]")
    for code in ARRAYS:
        yield from plain(f"greatest(@{code}0, @{code}1)", f"least(@{code}0, @{code}1, @{code}2)")
    # a failing operand beside an array that is NULL or empty
    yield from plain(*_FAILING)
    yield from plain("@ai0[1 / @i1]", "@ai0[1 / @i1:@i2]", "@ai0[@i1:1 / @i2]", "(1 / @i1)::text = ANY (@as0)")
    yield from plain(*(f"1 / @i1 {sign} {word} (@ai0)" for sign in SIGNS for word in ("ANY", "ALL")))
    yield from plain(*(f"@i0 {sign} {word} (ARRAY[1, 1 / @i1])" for sign in SIGNS for word in ("ANY", "ALL")))
    for code, element in ARRAYS.items():
        yield from plain(
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
        yield from plain(
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
        for sign in SIGNS:
            yield from plain(*(f"@{element}0 {sign} {every} (@{code}1)" for every in ("ANY", "ALL")))
    yield from plain(
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


def ranges() -> Iterator[Template]:
    for code, element in RANGES.items():
        name = COLUMNS[f"{code}0"]
        yield from plain(
            *(
                f"{each}(@{code}0)"
                for each in ("lower", "upper", "isempty", "lower_inc", "upper_inc", "lower_inf", "upper_inf")
            )
        )
        yield from plain(
            f"@{code}0 @> @{element}1",
            f"@{element}0 <@ @{code}1",
            f"@{code}0 @> @{code}1",
            f"@{code}0 <@ @{code}1",
            f"@{code}0 && @{code}1",
            f"{name}(@{element}0, @{element}1)",
            *(f"{name}(@{element}0, @{element}1, '{bounds}')" for bounds in ("[]", "()", "(]")),
        )


def composites() -> Iterator[Template]:
    one, other = "(@i0, (@i1, @s0, @d0))", "(@i1, (@i0, @s1, @d1))"
    yield from plain(*(f"{one} {sign} {other}" for sign in SIGNS), f"{one} IS DISTINCT FROM {other}")
    yield from plain(f"{one} IN ({other}, {one})", f"(@p0, {one}) BETWEEN (@p1, {other}) AND (@p2, {one})")
    # a comparison of rows stops at a NULL; if one field of a row is read, no other field is computed
    yield from plain(*(f"(@i0, 1 / @i1, @i2) {sign} (@i1, 1 / @i2, @i0)" for sign in SIGNS))
    yield from plain("@p0 OR (@ri0, 1 / @i1) < (@ri1, 2) OR @p1", "(ROW(1 / @i0, @s1)).f2")
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
