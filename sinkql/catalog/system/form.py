"""Functions of the list that only a query over the catalog computes in Python: regular expressions, and jsonb."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sinkql.evaluate import UnsureError
from sinkql.evaluate.failure import Make, Value, strict
from sinkql.extension.jsonb import jsonb
from sinkql.logical import Call, Literal
from sinkql.logical.pattern import read_regex


def _matches(flags: re.RegexFlag) -> Make:
    def make(call: Call, operands: list[Value]) -> Value | None:
        pattern = call.arguments[1]
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            return None
        java = read_regex(pattern.value).java
        if r"\p{" in java:
            return None  # a class of all letters, which Python's expressions do not have
        found = re.compile(java.replace(r"\z", r"\Z"), flags)
        return strict(lambda text, _: found.search(text) is not None)(call, operands)

    return make


def _found(text: str, step: str | int) -> list[Any]:
    """Return what stands in a document under a key or at a place, if anything does."""
    document = json.loads(text, parse_float=_unsure)
    if isinstance(step, int):
        return document[step : step + 1] if isinstance(document, list) else []
    return [document[step]] if isinstance(document, dict) and step in document else []


def _unsure(_: str) -> Any:
    raise UnsureError  # its digits would be lost


def _member(text: str, step: str | int) -> str | None:
    return next((jsonb(json.dumps(each, ensure_ascii=False)) for each in _found(text, step)), None)


def _text(text: str, step: str | int) -> str | None:
    found = next(iter(_found(text, step)), None)
    return found if found is None or isinstance(found, str) else jsonb(json.dumps(found, ensure_ascii=False))


FORMS: Mapping[str, Make] = MappingProxyType(
    {
        "~(text,text)": _matches(re.NOFLAG),
        "~*(text,text)": _matches(re.IGNORECASE),
        **dict.fromkeys(("->(jsonb,text)", "->(jsonb,integer)"), strict(_member)),
        **dict.fromkeys(("->>(jsonb,text)", "->>(jsonb,integer)"), strict(_text)),
    }
)
"""By the ids of `logical.function`'s list."""
