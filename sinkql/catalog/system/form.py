"""Functions of the list that a query over the catalog alone computes in Python: regular expressions, texts of jsonb."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from sinkql.evaluate.failure import Make, Value, strict
from sinkql.evaluate.json import member_text
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


FORMS: Mapping[str, Make] = MappingProxyType(
    {
        "~(text,text)": _matches(re.NOFLAG),
        "~*(text,text)": _matches(re.IGNORECASE),
        **dict.fromkeys(("->>(jsonb,text)", "->>(jsonb,integer)"), strict(member_text)),
    }
)
"""By the ids of `logical.function`'s list."""
