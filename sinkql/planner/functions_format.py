"""to_char's patterns → Spark's date_format and what it lacks."""

from __future__ import annotations

import re

from sinkql.errors import SinkqlError, Span
from sinkql.planner import types
from sinkql.planner.expressions_literal import coerced
from sinkql.planner.expressions_typed import Typed, constant_in_form, form
from sinkql.planner.types import TEXT, TIMESTAMP

# Postgres's pattern → Spark's letters
_LETTERS = {
    "YYYY": "yyyy", "MM": "MM", "DD": "dd", "DDD": "DDD", "HH24": "HH", "HH12": "hh", "HH": "hh", "MI": "mm",
    "SS": "ss", "MS": "SSS", "US": "SSSSSS", "AM": "a", "PM": "a", "Mon": "MMM", "Dy": "EEE", "FMMonth": "MMMM",
    "FMDay": "EEEE", "FMDD": "d", "FMMM": "M", "FMHH24": "H", "FMHH12": "h", "FMMI": "m", "FMSS": "s",
}  # fmt: skip
# patterns with a form of their own
_FORMS = {
    "Month": "rpad(date_format(@0, 'MMMM'), 9, ' ')",
    "Day": "rpad(date_format(@0, 'EEEE'), 9, ' ')",
    "Q": "CAST(quarter(@0) AS STRING)",
    "IYYY": "lpad(extract(YEAROFWEEK FROM @0), 4, '0')",
    "IW": "lpad(weekofyear(@0), 2, '0')",
}
_TOKEN = re.compile(
    "|".join(sorted((*_LETTERS, *_FORMS), key=len, reverse=True)) + r'|"([^"]*)"|(?P<plain>[^A-Za-z"\\]+)'
)


def to_char(value: Typed, pattern: str, span: Span) -> Typed:
    """Plan to_char(timestamp, 'pattern'); raises SinkqlError (SQ2214) for what has no exact form."""
    if not types.instant(value.type):
        raise SinkqlError("SQ2214", f"to_char() of {value.type.name} has no exact form", value.span)
    value = coerced(value, TIMESTAMP) if value.type == types.DATE else value
    pieces: list[str] = []
    letters, position = "", 0
    while position < len(pattern):
        match = _TOKEN.match(pattern, position)
        if match is None:
            raise _unknown(pattern[position:], span)
        position, token = match.end(), match[0]
        if token in _FORMS:
            pieces += [*_formatted(letters), _FORMS[token]]
            letters = ""
        elif token in _LETTERS:
            letters += _LETTERS[token]
        else:
            letters += _quoted(match[1] if match[1] is not None else token)
    pieces += _formatted(letters)
    if not pieces:
        raise _unknown(pattern, span)
    template = pieces[0] if len(pieces) == 1 else f"concat({', '.join(pieces)})"
    return form(template, (value,), TEXT)


def _quoted(text: str) -> str:
    """Quote what date_format would not write as it is; digits, blanks and the common separators need none."""
    if re.fullmatch(r"[0-9 .,:;/_+-]*", text):
        return text
    return "'" + text.replace("'", "''") + "'"


def _formatted(letters: str) -> list[str]:
    return [f"date_format(@0, {constant_in_form(letters)})"] if letters else []


def _unknown(rest: str, span: Span) -> SinkqlError:
    word = re.match(r"[A-Za-z]+", rest)
    return SinkqlError("SQ2214", f"to_char() pattern '{word[0] if word else rest[:1]}' has no exact form", span)
