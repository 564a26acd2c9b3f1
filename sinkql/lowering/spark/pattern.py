"""LIKE and regular expressions → Spark SQL."""

from __future__ import annotations

from collections.abc import Callable

from sinkql.logical import Call, Literal, letter_case
from sinkql.logical.pattern import ENDS_IN_ESCAPE, java_replacement, read_match, read_regex
from sinkql.lowering.spark.sql import PREDICATE, Form, Spelling, raised, text_literal
from sinkql.lowering.spark.string import constant_number, constant_text, lower


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
    """Return what a text is like by a pattern that Spark may not take as it is.

    An escape before any other letter is left out. One at the end is an error where a text comes to it.
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
    """Return Java's pattern; its flags are the argument at a place, if there is one."""
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
    """Take the first group, or all where there is none."""
    return _group(call, min(read_regex(constant_text(call.arguments[1])).groups, 1))


def _match(call: Call) -> Form:
    index = constant_number(call.arguments[2])
    return _group(call, index if read_regex(constant_text(call.arguments[1])).groups else 0)


def _replace(call: Call) -> Form:
    pattern, replacement, *flags = (constant_text(each) for each in call.arguments[1:])
    java, into = java_replacement(pattern, replacement, flags[0] if flags else "")
    return Form(f"regexp_replace(@0, {text_literal(java)}, {text_literal(into)})")


FORMS: dict[str, Spelling] = {
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
"""By id; patterns are constants, which Java reads as its own."""
