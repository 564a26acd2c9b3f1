"""LIKE and regular expressions → Spark SQL."""

from __future__ import annotations

import re

from sinkql.errors import SinkqlError, Span
from sinkql.planner import pattern as patterns
from sinkql.planner import types
from sinkql.planner.expressions_literal import coerced
from sinkql.planner.expressions_typed import PREDICATE, Typed, constant_in_form, form
from sinkql.planner.functions_overload import Handler, arity, constant_text, typed


def like(subject: Typed, pattern: Typed, escape: Typed | None, *, ignore_case: bool) -> Typed:
    """Plan `subject LIKE pattern`."""
    if any(value.type not in (types.TEXT, types.UNKNOWN) for value in (subject, pattern)):
        wrong = next(value for value in (subject, pattern) if value.type not in (types.TEXT, types.UNKNOWN))
        raise SinkqlError("SQ2211", f"LIKE takes text, found {wrong.type.name}", wrong.span)
    values = [coerced(value, types.TEXT) for value in (subject, pattern)]
    suffix = ""
    if escape is not None:
        if not isinstance(escape.constant, str) or len(escape.constant) != 1:
            raise SinkqlError("SQ2214", "ESCAPE takes one constant character", escape.span)
        suffix = f" ESCAPE {constant_in_form(escape.constant)}" if escape.constant != "\\" else ""
    if isinstance(pattern.constant, str):
        _check_escapes(pattern.constant, str(escape.constant) if escape else "\\", pattern)
    word = "ILIKE" if ignore_case else "LIKE"
    return form(f"@0 {word} @1{suffix}", values, types.BOOLEAN, binds=PREDICATE)


def _check_escapes(text: str, escape: str, pattern: Typed) -> None:
    """Refuse an escape before any other character: Postgres takes that one as it is, Spark raises."""
    position = 0
    while position < len(text):
        if text[position] == escape:
            if text[position + 1 : position + 2] not in ("%", "_", escape):
                hint = "Escape only %, _ and the escape character itself."
                raise SinkqlError("SQ2214", f"the pattern escapes what needs none: {text!r}", pattern.span, hint=hint)
            position += 1
        position += 1


def _read(name: str, pattern: Typed, *, exact_match: bool) -> patterns.Pattern:
    """Translate a constant pattern; with `exact_match` what it matches matters, not only whether it does."""
    found = patterns.read(constant_text(name, pattern, "pattern"), pattern.span)
    if exact_match and (found.alternatives or found.lazy):
        # Postgres takes the longest of the alternatives, Java the first
        message = "alternatives and lazy quantifiers have no exact form where the match itself is taken"
        raise SinkqlError("SQ2214", message, pattern.span)
    return found


def matches(subject: Typed, pattern: Typed, *, ignore_case: bool) -> Typed:
    """Plan `subject ~ 'pattern'`."""
    java = _read("~", pattern, exact_match=False).java
    flags = "(?iu)" if ignore_case else ""
    return form(
        f"@0 RLIKE {constant_in_form(flags + java)}", (typed("~", subject, types.TEXT),), types.BOOLEAN, binds=PREDICATE
    )


def substring(text: Typed, pattern: Typed, span: Span) -> Typed:
    """Plan substring(text FROM 'pattern'): its first group, or all of it."""
    found = _read("substring", pattern, exact_match=True)
    return _group(typed("substring", text, types.TEXT), found, min(found.groups, 1), pattern.span)


def match_group(text: Typed, pattern: Typed, index: int) -> Typed:
    """Plan (regexp_match(text, 'pattern'))[index]."""
    found = _read("regexp_match", pattern, exact_match=True)
    if not 1 <= index <= max(found.groups, 1):
        raise SinkqlError("SQ2214", f"the pattern has no group {index}", pattern.span)
    return _group(typed("regexp_match", text, types.TEXT), found, index if found.groups else 0, pattern.span)


def _group(text: Typed, found: patterns.Pattern, index: int, span: Span) -> Typed:
    if index and found.optional:
        raise SinkqlError("SQ2214", "a group that may take no part has no exact form", span)
    java = constant_in_form(found.java)
    template = f"IF(@0 RLIKE {java}, regexp_extract(@0, {java}, {index}), NULL)"
    return form(template, (text,), types.TEXT, nullable=True)


def _replace(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 3, 4)
    found = _read(name, arguments[1], exact_match=True)
    flags = constant_text(name, arguments[3], "flags") if len(arguments) == 4 else ""
    if not set(flags) <= {"g", "i"}:
        raise SinkqlError(
            "SQ2214", f"the flags '{flags}' of {name}() have no exact form: only g and i", arguments[3].span
        )
    shift = 0 if "g" in flags else 1
    into = _replacement(constant_text(name, arguments[2], "replacement"), found, shift, arguments[2].span)
    java = ("(?iu)" if "i" in flags else "") + found.java
    if shift:  # only the first: all before it goes into a group of its own
        bare = java.replace("(?s)", "")
        if bare.startswith("(?iu)"):
            java, into = f"(?siu)^(.*?)({bare[5:]})", "$1" + into
        else:
            java, into = f"(?s)^(.*?)({bare})", "$1" + into
        if "^" in re.sub(r"\[\^|\\\^", "", bare):
            raise SinkqlError("SQ2214", "an anchored pattern needs the flag g here", arguments[1].span)
    template = f"regexp_replace(@0, {constant_in_form(java)}, {constant_in_form(into)})"
    return form(template, (typed(name, arguments[0], types.TEXT),), types.TEXT)


def _replacement(text: str, found: patterns.Pattern, shift: int, span: Span) -> str:
    """Translate a replacement: \\1 is a group, \\& the match, \\\\ a backslash; the shift is that of the groups."""
    shown, position = "", 0
    while position < len(text):
        char, following = text[position], text[position + 1 : position + 2]
        position += 1
        if char == "$":
            shown += r"\$"
        elif char != "\\":
            shown += char
        elif following.isdigit() and 1 <= int(following) <= found.groups and not found.optional:
            shown, position = shown + f"${int(following) + 2 * shift}", position + 1
            if text[position : position + 1].isdigit():
                raise SinkqlError("SQ2214", "a digit after a group has no exact form", span)
        elif following == "&":
            shown, position = shown + f"${2 * shift}", position + 1
        elif following == "\\":
            shown, position = shown + r"\\", position + 1
        else:
            raise SinkqlError("SQ2214", f"'\\{following}' in a replacement has no exact form", span)
    return shown


def _count(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    java = constant_in_form(_read(name, arguments[1], exact_match=True).java)
    return form(f"regexp_count(@0, {java})", (typed(name, arguments[0], types.TEXT),), types.INTEGER)


def _like(name: str, arguments: tuple[Typed, ...], span: Span) -> Typed:
    arity(name, arguments, span, 2, 2)
    return matches(arguments[0], arguments[1], ignore_case=False)


HANDLERS: dict[str, Handler] = {"regexp_replace": _replace, "regexp_count": _count, "regexp_like": _like}
