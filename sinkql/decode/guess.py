"""Texts, and values of JSON, that a sample has → the type that all of them have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?"
_DAY = r"\d{4}-\d\d-\d\d"
_FORMS = (
    ("boolean", re.compile(r"true|false")),
    ("bigint", re.compile(r"0|-?[1-9]\d{0,17}")),
    ("double precision", re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,15})?([eE][+-]?\d{1,2})?")),
    ("date", re.compile(_DAY)),
    ("timestamp", re.compile(rf"{_DAY}[ T]{_TIME}")),
    ("timestamptz", re.compile(rf"{_DAY}[ T]{_TIME}(Z|[+-]\d\d(:?\d\d)?)")),
)
"""Types of texts, the narrowest first. Numbers that begin with 0, as codes do, are texts."""


def type_of_texts(texts: Sequence[str]) -> str:
    """Return the narrowest type that all texts have; text where there are none."""
    if not texts:
        return "text"
    return next((type_ for type_, form in _FORMS if all(form.fullmatch(text) for text in texts)), "text")


def type_of_values(values: Sequence[Any]) -> str:
    """Return the type that values of JSON have, which are not null; jsonb where they have none in common."""
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return "boolean"
    if kinds == {int} and all(-(1 << 63) <= value < 1 << 63 for value in values):
        return "bigint"
    if float in kinds and all(
        type(value) is float or (type(value) is int and abs(value) < 1 << 53) for value in values
    ):
        return "double precision"
    if kinds == {str}:
        type_ = type_of_texts(values)
        return type_ if type_ in ("date", "timestamp", "timestamptz") else "text"
    return "jsonb"
