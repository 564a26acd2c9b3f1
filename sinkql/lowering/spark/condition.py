"""COALESCE, NULLIF, GREATEST, LEAST and the like → Spark SQL."""

from __future__ import annotations

from collections.abc import Callable

from sinkql.logical import Call
from sinkql.lowering.spark.text import Form, Spelling


def _variadic(function: str) -> Callable[[Call], Form]:
    def form(call: Call) -> Form:
        return Form(f"{function}({', '.join(f'@{place}' for place in range(len(call.arguments)))})")

    return form


def _counted(for_null: int) -> Callable[[Call], Form]:
    def form(call: Call) -> Form:
        parts = [f"IF(@{place} IS NULL, {for_null}, {1 - for_null})" for place in range(len(call.arguments))]
        return Form(f"({' + '.join(parts)})")

    return form


FORMS: dict[str, Spelling] = {
    **{f"{name}(any…)": _variadic(name) for name in ("coalesce", "greatest", "least")},
    "nullif(any,any)": Form("nullif(@0, @1)"),
    "num_nulls(any…)": _counted(1),
    "num_nonnulls(any…)": _counted(0),
}
