"""Functions of text, and LIKE."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from sinkql.evaluate.cast import conversion
from sinkql.evaluate.failure import EvaluationError, Make, NotEvaluableError, Row, Value, strict
from sinkql.logical import Call
from sinkql.logical.letter_case import is_known_letter, lower, upper
from sinkql.logical.numeric_type import RANGES
from sinkql.logical.pattern import ENDS_IN_ESCAPE
from sinkql.logical.type import TEXT

_MOST_CHARACTERS = 10_000_000
"""The maximum length of a text computed here."""


def _known(text: str) -> str:
    if not is_known_letter(text):
        raise NotEvaluableError
    return text


def _lower(text: str) -> str:
    return lower(_known(text))


def _upper(text: str) -> str:
    return upper(_known(text))


def _rest(text: str, start: int) -> str:
    return text[max(start, 1) - 1 :]


def _substring(text: str, start: int, count: int) -> str:
    if count < 0:
        raise EvaluationError("negative substring length")
    return text[max(start, 1) - 1 : max(start + count - 1, 0)]


def _left(text: str, count: int) -> str:
    return text[:count]


def _right(text: str, count: int) -> str:
    if count == RANGES["integer"][0]:  # its negation overflows: Postgres removes nothing
        return text
    return text[len(text) - min(count, len(text)) :] if count >= 0 else text[-count:]


def _repeat(text: str, count: int) -> str:
    if len(text) * count > _MOST_CHARACTERS:
        raise NotEvaluableError
    return text * count


def _padded(text: str, length: int, fill: str = " ") -> tuple[str, str]:
    """Return a text cut to a length, and the missing padding."""
    if length > _MOST_CHARACTERS:
        raise NotEvaluableError
    missing = max(length - len(text), 0) if fill else 0
    return text[: max(length, 0)], (fill * (missing // len(fill) + 1))[:missing] if missing else ""


def _lpad(text: str, length: int, fill: str = " ") -> str:
    kept, missing = _padded(text, length, fill)
    return missing + kept


def _rpad(text: str, length: int, fill: str = " ") -> str:
    return "".join(_padded(text, length, fill))


def _replace(text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


def _translate(text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for place, letter in enumerate(old):
        table.setdefault(ord(letter), new[place] if place < len(new) else None)
    return text.translate(table)


def _split_part(text: str, between: str, number: int) -> str:
    if number == 0:
        raise EvaluationError("field position must not be zero")
    parts = text.split(between) if between else [text]
    place = number - 1 if number > 0 else len(parts) + number
    return parts[place] if 0 <= place < len(parts) else ""


def _overlay(text: str, new: str, start: int, count: int) -> str:
    if start < 1:
        raise EvaluationError("negative substring length not allowed")
    if start + count not in RANGES["integer"]:
        raise EvaluationError("integer out of range")
    return text[: start - 1] + new + _rest(text, start + count)


def _chr(number: int) -> str:
    if not 0 < number <= 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise NotEvaluableError
    return chr(number)


def _md5(value: str | bytes) -> str:
    data = value if isinstance(value, bytes) else value.encode()
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


# --- values as text ------------------------------------------------------------------------------------------------


def _shown(call: Call, operands: list[Value], start: int) -> list[Value] | None:
    """Return the operands from index `start` as text; None if one of them has no text here."""
    shown: list[Value] = []
    for argument, operand in zip(call.arguments[start:], operands[start:], strict=True):
        convert: Callable[[Any], Any] | None = conversion(argument.type, TEXT)
        if argument.type.name == "boolean":
            convert = _letter
        if convert is None:
            return None
        shown.append(_converted(operand, convert))
    return shown


def _letter(value: bool) -> str:
    return "t" if value else "f"


def _converted(operand: Value, convert: Callable[[Any], Any]) -> Value:
    def found(row: Row) -> Any:
        value = operand(row)
        return None if value is None else convert(value)

    return found


def _concat(call: Call, operands: list[Value]) -> Value | None:
    shown = _shown(call, operands, 0)
    if shown is None:
        return None
    return lambda row: "".join(text for each in shown if (text := each(row)) is not None)


def _concat_ws(call: Call, operands: list[Value]) -> Value | None:
    shown = _shown(call, operands, 1)
    if shown is None:
        return None
    between = operands[0]

    def found(row: Row) -> str | None:
        separator = between(row)
        texts = (text for each in shown if (text := each(row)) is not None)
        return None if separator is None else separator.join(texts)

    return found


# --- LIKE ----------------------------------------------------------------------------------------------------------


def _like(text: str, pattern: str, escape: str = "\\") -> bool:
    found, ends = _pattern(pattern, escape)
    matches = found.fullmatch(text) is not None
    if matches and ends:
        raise EvaluationError(ENDS_IN_ESCAPE)
    return matches


def _ilike(text: str, pattern: str, escape: str = "\\") -> bool:
    return _like(_lower(text), _lower(pattern), lower(escape))


@lru_cache(maxsize=100)
def _pattern(pattern: str, escape: str) -> tuple[re.Pattern[str], bool]:
    """Return the regular expression of a pattern, and whether it ends in an escape character, which is left out."""
    parts, letters, ends = [], iter(pattern), False
    for letter in letters:
        if letter == escape:
            following = next(letters, None)
            ends = following is None
            parts.append("..*" if following is None else re.escape(following))
        else:
            parts.append({"%": ".*", "_": "."}.get(letter) or re.escape(letter))
    return re.compile("".join(parts), re.DOTALL), ends


FORMS: dict[str, Make] = {
    "lower(text)": strict(_lower),
    "upper(text)": strict(_upper),
    "reverse(text)": strict(lambda text: text[::-1]),
    "md5(text)": strict(_md5),
    "md5(bytea)": strict(_md5),
    "ascii(text)": strict(lambda text: ord(text[0]) if text else 0),
    "chr(integer)": strict(_chr),
    **{f"{name}(text)": strict(len) for name in ("length", "char_length")},
    "octet_length(text)": strict(lambda text: len(text.encode())),
    "bit_length(text)": strict(lambda text: 8 * len(text.encode())),
    **{f"{name}(bytea)": strict(len) for name in ("length", "octet_length")},
    "btrim(text)": strict(lambda text: text.strip(" ")),
    "ltrim(text)": strict(lambda text: text.lstrip(" ")),
    "rtrim(text)": strict(lambda text: text.rstrip(" ")),
    "btrim(text,text)": strict(str.strip),
    "ltrim(text,text)": strict(str.lstrip),
    "rtrim(text,text)": strict(str.rstrip),
    **{f"lpad(text,integer{more})": strict(_lpad) for more in ("", ",text")},
    **{f"rpad(text,integer{more})": strict(_rpad) for more in ("", ",text")},
    "left(text,integer)": strict(_left),
    "right(text,integer)": strict(_right),
    "repeat(text,integer)": strict(_repeat),
    "replace(text,text,text)": strict(_replace),
    "translate(text,text,text)": strict(_translate),
    "split_part(text,text,integer)": strict(_split_part),
    "strpos(text,text)": strict(lambda text, part: text.find(part) + 1),
    "starts_with(text,text)": strict(str.startswith),
    "overlay(text,text,integer,integer)": strict(_overlay),
    "substring(text,integer)": strict(_rest),
    "substring(text,integer,integer)": strict(_substring),
    "concat(any…)": _concat,
    "concat_ws(text,any…)": _concat_ws,
    **{f"LIKE(text,text{more})": strict(_like) for more in ("", ",text")},
    **{f"ILIKE(text,text{more})": strict(_ilike) for more in ("", ",text")},
}
"""By id."""
