"""Functions of text and bytes, LIKE and regular expressions as Spark SQL."""

from __future__ import annotations

from collections.abc import Callable

from sinkql.logical import Call, Expression, Literal, function, letter_case
from sinkql.logical import letter_case as letters
from sinkql.logical.expression import constant_value
from sinkql.logical.letter_case import SEVERAL
from sinkql.logical.pattern import ENDS_IN_ESCAPE, LETTERS, format_pieces, java_replacement, read_match, read_regex
from sinkql.logical.type import TEXT
from sinkql.lowering.spark.sql import PREDICATE, Form, Spelling, raised, text_literal

_GREEK = {
    letter: letters.upper_mapping()[letter]
    for letter in (*range(0x1F80, 0x1F88), *range(0x1F90, 0x1F98), *range(0x1FA0, 0x1FA8), 0x1FB3, 0x1FC3, 0x1FF3)
}
"""Letters with several upper-case letters in Java that have one here; the rest are their own upper case."""


def lower(text: str) -> str:
    """Return Spark SQL for a text in lower case, one letter for one: not ς at the end of a word, nor i̇ with its dot."""
    return f"lower(translate({text}, 'İΣ', 'iσ'))"


def _upper(text: str) -> str:
    """Return Spark SQL for a piece in upper case; in Java, all or none of its letters have a longer upper case."""
    greek, others = ("".join(map(chr, chars)) for chars in (_GREEK.keys(), _GREEK.values()))
    return f"IF({text} RLIKE '[{SEVERAL}]', translate({text}, '{greek}', '{others}'), upper({text}))"


_UPPER = (
    f"IF(@0 RLIKE '[{SEVERAL}]', array_join(transform(regexp_extract_all(@0, '[{SEVERAL}]+|[^{SEVERAL}]+', 0), "
    f"w -> {_upper('w')}), ''), upper(@0))"
)
_INITCAP = (
    f"array_join(transform(regexp_extract_all(@0, r'[{LETTERS}0-9]+|[^{LETTERS}0-9]+', 0), "
    f"w -> concat({_upper('left(w, 1)')}, {lower('substring(w, 2)')})), '')"
)
_CHR = (
    "CASE WHEN @0 IS NULL THEN NULL WHEN @0 BETWEEN 1 AND 1114111 THEN decode(unhex(lpad(hex(@0), 8, '0')), 'UTF-32') "
    f"ELSE {raised('character number', 'STRING')} END"
)
_FROM_HEX = (
    "CASE WHEN @0 IS NULL OR @0 RLIKE r'^([0-9a-fA-F]{2})*\\z' THEN unhex(@0) "
    f"ELSE {raised('invalid hexadecimal data', 'BINARY')} END"
)
_OVERLAY = (
    # Spark's function treats a start below 1 and a negative length differently
    "CASE WHEN @0 IS NULL OR @1 IS NULL OR @3 IS NULL THEN NULL "
    f"WHEN @2 < 1 THEN {raised('negative substring length not allowed', 'STRING')} "
    "ELSE concat(substring(@0, 1, @2 - 1), @1, substring(@0, IF(@2 + @3 < 1, 1, @2 + @3))) END"
)
_LEAST, _MOST = -(2**31), 2**31 - 1
"""The smallest integer, whose negation overflows: Postgres removes nothing from a text for it."""
_FROM_BYTES = f"IF(contains(@0, X'00'), {raised('invalid byte sequence', 'STRING')}, decode(@0, 'UTF-8'))"


def _constant_number(call: Call, place: int) -> int | None:
    """Return the value of a constant integer argument; None for any other argument."""
    argument = call.arguments[place]
    value = argument.value if isinstance(argument, Literal) else None
    return value if isinstance(value, int) else None


def _rest(call: Call) -> Form:
    """Return the rest from a position; a position before the first character is the first."""
    start = _constant_number(call, 1)
    return Form("substring(@0, IF(@1 < 1, 1, @1))" if start is None else f"substring(@0, {max(start, 1)})")


def _substring(call: Call) -> Form:
    start, count = _constant_number(call, 1), _constant_number(call, 2)
    if start is not None and count is not None and count >= 0:
        # a start below 1 shortens the length
        return Form(f"substring(@0, {max(start, 1)}, {max(count + min(start, 1) - 1, 0)})")
    return Form(
        f"CASE WHEN @0 IS NOT NULL AND @1 IS NOT NULL AND @2 < 0 THEN {raised('negative substring length', 'STRING')} "
        "ELSE substring(@0, IF(@1 < 1, 1, @1), "
        # greatest() would ignore a NULL
        "IF(@1 < 1, CAST(IF(CAST(@1 AS BIGINT) + @2 < 1, 0, CAST(@1 AS BIGINT) + @2 - 1) AS INT), @2)) END"
    )


_TOO_LONG = raised("requested length too large", "STRING")
_MOST_BYTES, _MOST_CHARACTERS = 2**30 - 5, 2**28 - 2
"""The maximum bytes of a text, or characters of a padded text, as in Postgres, to limit memory."""


def _padded(template: str, test: str = "") -> Callable[[Call], Form]:
    def form(call: Call) -> Form:
        count = _constant_number(call, 1)
        if count is not None and count <= _MOST_CHARACTERS:
            return Form(template)
        return Form(f"IF(@1 > {_MOST_CHARACTERS} AND @0 IS NOT NULL{test}, {_TOO_LONG}, {template})")

    return form


def _repeat(call: Call) -> Form:
    return Form(f"IF(CAST(octet_length(@0) AS BIGINT) * @1 > {_MOST_BYTES}, {_TOO_LONG}, repeat(@0, @1))")


def _split_part(call: Call) -> Form:
    if _constant_number(call, 2) is not None:
        return Form("split_part(@0, @1, @2)")
    return Form(f"split_part(@0, @1, IF(@2 = {_LEAST}, {_LEAST + 1}, @2))")  # Spark negates the number


def _left(call: Call) -> Form:
    count = _constant_number(call, 1)
    if count is None:
        return Form("IF(@1 < 0, substring(@0, 1, greatest(length(@0) + @1, 0)), left(@0, @1))")
    return Form(f"left(@0, {count})" if count >= 0 else f"substring(@0, 1, greatest(length(@0) - {-count}, 0))")


def _right(call: Call) -> Form:
    count = _constant_number(call, 1)
    if count is None:
        return Form(
            f"CASE WHEN @1 = {_LEAST} THEN @0 WHEN @1 < 0 THEN substring(@0, 1 - greatest(@1, {_LEAST + 2})) "
            "ELSE right(@0, @1) END"
        )
    if count == _LEAST:
        return Form("@0")
    return Form(f"right(@0, {count})" if count >= 0 else f"substring(@0, {min(1 - count, _MOST)})")


def constant_number(argument: Expression) -> int:
    """Return the number of a constant argument."""
    return constant_value(argument, int)


def constant_text(argument: Expression) -> str:
    """Return the text of a constant argument."""
    return constant_value(argument, str)


def _by_constant(forms: dict[str, str]) -> Callable[[Call], Form]:
    """Choose a form by the second argument."""
    return lambda call: Form(forms[constant_text(call.arguments[1]).lower()])


def _shown(values: tuple[Expression, ...]) -> tuple[list[str], tuple[Expression, ...]]:
    """Return the text form of each value, as a place in a `Form`, and the operands of these places."""
    places = [
        f"CASE WHEN @{place} THEN 't' WHEN NOT @{place} THEN 'f' END" if value.type.name == "boolean" else f"@{place}"
        for place, value in enumerate(values)
    ]
    text_types = ("boolean", "text")
    return places, tuple(value if value.type.name in text_types else function.cast(value, TEXT) for value in values)


def _concat(call: Call) -> Form:
    places, operands = _shown(call.arguments)
    return Form(f"concat({', '.join(map(_or_empty, places, operands))})", operands=operands)


def _or_empty(place: str, value: Expression) -> str:
    return f"coalesce({place}, '')" if value.nullable else place


def _concat_ws(call: Call) -> Form:
    places, operands = _shown(call.arguments)
    return Form(f"concat_ws({', '.join(places)})", operands=operands)


def _format(call: Call) -> Form:
    pattern, *values = call.arguments
    places, operands = _shown(tuple(values))
    parts = []
    for index, piece in enumerate(format_pieces(constant_text(pattern))):
        if index:
            parts.append(_or_empty(places[index - 1], operands[index - 1]))
        if piece:
            parts.append(text_literal(piece))
    return Form(f"concat({', '.join(parts) or text_literal('')})", operands=operands)


def _like(call: Call) -> Form:
    escape = _escape(call)
    suffix = _suffix(escape)
    if isinstance(call.arguments[1], Literal):
        return Form(f"@0 LIKE @1{suffix}", PREDICATE)
    return Form(_computed(lambda pattern: f"@0 LIKE {pattern}{suffix.replace('`', _BACKQUOTE)}", ord(escape)))


def _ilike(call: Call) -> Form:
    escape, pattern = _escape(call), call.arguments[1]
    text, suffix = lower("@0"), _suffix(letter_case.lower(escape))
    if isinstance(pattern, Literal):
        wanted = "@1" if pattern.value is None else text_literal(letter_case.lower(constant_text(pattern)))
        return Form(f"{text} LIKE {wanted}{suffix}", PREDICATE)
    suffix = suffix.replace("`", _BACKQUOTE)
    return Form(_computed(lambda pattern: f"{text} LIKE {lower(pattern)}{suffix}", ord(escape)))


def _escape(call: Call) -> str:
    return constant_text(call.arguments[2]) if len(call.arguments) == 3 else "\\"


def _suffix(escape: str) -> str:
    return f" ESCAPE {text_literal(escape)}" if escape != "\\" else ""


_BACKQUOTE = r"\u0060"


def _computed(like: Callable[[str], str], escape: int) -> str:
    """Return LIKE with a computed pattern that Spark may refuse.

    An escape before any other character is removed. A trailing escape is an error if the text reaches it.
    """
    char = rf"\x{{{escape:x}}}"
    plain = rf"(?s)\G((?:[^{char}]|{char}[{char}%_])*+){char}(?=[^{char}%_])"
    pattern = f"regexp_replace(@1, {text_literal(plain)}, '$1')"
    ends = text_literal(rf"(?s)\A(?:[^{char}]|{char}.)*+{char}\z")
    before = like(f"concat(left({pattern}, length({pattern}) - 1), '_%')")
    at_end = f"CASE {before} WHEN true THEN {raised(ENDS_IN_ESCAPE, 'BOOLEAN')} WHEN false THEN false END"
    return f"CASE WHEN @1 RLIKE {ends} THEN {at_end} ELSE {like(pattern)} END"


def _java(call: Call, *, any_case: bool = False) -> str:
    return read_regex(constant_text(call.arguments[1]), any_case=any_case).java


def _java_of_match(call: Call, flags: int = 3) -> str:
    """Return Java's pattern with the flags in the argument at a place, if it exists."""
    any_case = len(call.arguments) > flags and constant_text(call.arguments[flags]) == "i"
    return read_match(constant_text(call.arguments[1]), any_case=any_case).java


def _count(call: Call) -> Form:
    return Form(f"regexp_count(@0, {text_literal(_java_of_match(call))})")


def _substr(call: Call) -> Form:
    number, index = (constant_number(call.arguments[place]) for place in (3, 5))
    java = text_literal(_java_of_match(call, flags=4))
    return Form(f"try_element_at(regexp_extract_all(@0, {java}, {index}), {number})")


def _matches(*, any_case: bool) -> Callable[[Call], Form]:
    return lambda call: Form(f"@0 RLIKE {text_literal(_java(call, any_case=any_case))}", PREDICATE)


def _group(call: Call, index: int) -> Form:
    java = text_literal(_java(call))
    return Form(f"IF(@0 RLIKE {java}, regexp_extract(@0, {java}, {index}), NULL)")


def _first_group(call: Call) -> Form:
    """Return the first group, or the whole match without groups."""
    return _group(call, min(read_regex(constant_text(call.arguments[1])).groups, 1))


def _match(call: Call) -> Form:
    index = constant_number(call.arguments[2])
    return _group(call, index if read_regex(constant_text(call.arguments[1])).groups else 0)


def _replace(call: Call) -> Form:
    pattern, replacement, *flags = (constant_text(argument) for argument in call.arguments[1:])
    java, into = java_replacement(pattern, replacement, flags[0] if flags else "")
    return Form(f"regexp_replace(@0, {text_literal(java)}, {text_literal(into)})")


FORMS: dict[str, Spelling] = {
    "lower(text)": Form(lower("@0")),
    "upper(text)": Form(_UPPER),
    "initcap(text)": Form(_INITCAP),
    **{f"{name}(text)": Form(f"{name}(@0)") for name in ("reverse", "ascii")},
    **{f"{name}({type_})": Form(f"{name}(@0)") for name in ("length", "octet_length") for type_ in ("text", "bytea")},
    "char_length(text)": Form("length(@0)"),
    "bit_length(text)": Form("bit_length(@0)"),
    "btrim(text)": Form("trim(@0)"),
    "btrim(text,text)": Form("trim(BOTH @1 FROM @0)"),
    **{f"{name}(text)": Form(f"{name}(@0)") for name in ("ltrim", "rtrim")},
    **{f"{name}(text,text)": Form(f"{name}(@1, @0)") for name in ("ltrim", "rtrim")},
    **{f"{name}(text,integer)": _padded(f"{name}(@0, @1, ' ')") for name in ("lpad", "rpad")},
    **{f"{name}(text,integer,text)": _padded(f"{name}(@0, @1, @2)", " AND @2 <> ''") for name in ("lpad", "rpad")},
    "replace(text,text,text)": Form("replace(@0, @1, @2)"),
    "translate(text,text,text)": Form("translate(@0, @1, @2)"),
    "split_part(text,text,integer)": _split_part,
    "strpos(text,text)": Form("locate(@1, @0)"),
    "starts_with(text,text)": Form("startswith(@0, @1)"),
    "substring(text,integer)": _rest,
    "substring(text,integer,integer)": _substring,
    "left(text,integer)": _left,
    "right(text,integer)": _right,
    "overlay(text,text,integer,integer)": Form(_OVERLAY),
    "repeat(text,integer)": _repeat,
    "chr(integer)": Form(_CHR),
    "md5(text)": Form("md5(@0)"),
    "md5(bytea)": Form("md5(@0)"),
    **{f"sha{bits}(bytea)": Form(f"unhex(sha2(@0, {bits}))") for bits in (224, 256, 384, 512)},
    "encode(bytea,text)": _by_constant({"hex": "lower(hex(@0))", "base64": r"replace(base64(@0), '\r\n', '\n')"}),
    "decode(text,text)": _by_constant({"hex": _FROM_HEX, "base64": "unbase64(@0)"}),
    "convert_to(text,text)": Form("encode(@0, 'UTF-8')"),
    "convert_from(bytea,text)": Form(_FROM_BYTES),
    "concat(any…)": _concat,
    "concat_ws(text,any…)": _concat_ws,
    "format(any…)": _format,
    **{
        f"{word}({parameters})": form
        for word, form in (("LIKE", _like), ("ILIKE", _ilike))
        for parameters in ("text,text", "text,text,text")
    },
    "~(text,text)": _matches(any_case=False),
    "~*(text,text)": _matches(any_case=True),
    "regexp_split_to_array(text,text)": lambda call: Form(f"split(@0, {text_literal(_java(call))}, -1)"),
    "regexp_count(text,text)": _count,
    "regexp_count(text,text,integer,text)": _count,
    "regexp_substr(text,text,integer,integer,text,integer)": _substr,
    "regexp_replace(text,text,text)": _replace,
    "regexp_replace(text,text,text,text)": _replace,
    "substring(text,text)": _first_group,
    "REGEXP_MATCH(text,text,integer)": _match,
}
"""By id; patterns are constants, in Java's syntax."""
