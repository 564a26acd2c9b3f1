"""Arrays and lists → Spark SQL."""

from __future__ import annotations

from sinkql.logical import Call, Literal
from sinkql.lowering.spark.text import Form, Spelling


def _element(call: Call) -> Form:
    index = call.arguments[1]
    known = index.value if isinstance(index, Literal) else None
    if isinstance(known, int) and known >= 1:
        return Form("try_element_at(@0, @1)")
    return Form("IF(@1 >= 1, try_element_at(@0, @1), NULL)")  # below 0 Spark counts from the end


def _made(call: Call) -> Form:
    return Form(f"array({', '.join(f'@{place}' for place in range(len(call.arguments)))})")


FORMS: dict[str, Spelling] = {
    "[](any,integer)": _element,
    "ARRAY(any…)": _made,
    "= ANY(any,any)": Form("IF(size(@1) = 0, false, array_contains(@1, @0))"),
    "cardinality(any)": Form("size(@0)"),
    "array_length(any,integer)": Form("nullif(size(@0), 0)"),
}
"""By id."""
