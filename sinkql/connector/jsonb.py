"""JSON text → the text that stands for it in a jsonb column: equal documents have equal texts."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any


def jsonb(text: str) -> str:
    """Return JSON text as Postgres prints a jsonb: keys by length, then bytes, the last of a name; numbers as written.

    Raises ValueError for text that is not JSON.
    """
    value = json.loads(text, parse_float=_Digits, parse_int=_Digits, parse_constant=_no_constant)
    return _printed(value)


class _Digits(str):
    """Hold a number's text, so that it is printed as it was written."""

    __slots__ = ()


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _printed(value: Any) -> str:
    if isinstance(value, _Digits):
        return _number(value)
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: (len(name.encode()), name.encode()))
        return (
            "{" + ", ".join(f"{json.dumps(name, ensure_ascii=False)}: {_printed(value[name])}" for name in names) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(_printed(each) for each in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _number(text: str) -> str:
    if not re.search(r"[eE]", text):
        return "0" if text == "-0" else text
    return format(Decimal(text), "f")
