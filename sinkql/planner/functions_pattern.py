"""LIKE and regular expressions → Spark SQL."""

from __future__ import annotations

from sinkql.errors import SinkqlError, Span
from sinkql.planner import types
from sinkql.planner.expressions_literal import coerced
from sinkql.planner.expressions_typed import PREDICATE, Typed, form, text_literal
from sinkql.planner.functions_overload import Handler


def like(subject: Typed, pattern: Typed, escape: Typed | None, *, ignore_case: bool) -> Typed:
    """Plan `subject LIKE pattern`."""
    values = [coerced(value, types.TEXT) for value in (subject, pattern)]
    if any(value.type != types.TEXT for value in values):
        wrong = next(value for value in values if value.type != types.TEXT)
        raise SinkqlError("SQ2211", f"LIKE takes text, found {wrong.type.name}", wrong.span)
    suffix = ""
    if escape is not None:
        if not isinstance(escape.constant, str) or len(escape.constant) != 1:
            raise SinkqlError("SQ2214", "ESCAPE takes one constant character", escape.span)
        suffix = f" ESCAPE {text_literal(escape.constant)}" if escape.constant != "\\" else ""
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


def matches(subject: Typed, pattern: Typed, *, ignore_case: bool) -> Typed:
    """Plan `subject ~ 'pattern'`."""
    raise SinkqlError("SQ2214", "regular expressions are not supported yet", pattern.span)


def substring(text: Typed, pattern: Typed, span: Span) -> Typed:
    """Plan substring(text FROM 'pattern')."""
    raise SinkqlError("SQ2214", "substring() by a pattern is not supported yet", span)


HANDLERS: dict[str, Handler] = {}
