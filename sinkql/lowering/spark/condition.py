"""COALESCE, NULLIF, GREATEST, LEAST and the like → Spark SQL."""

from __future__ import annotations

from collections.abc import Callable

from sinkql.logical import Call
from sinkql.lowering.spark.array import ordered
from sinkql.lowering.spark.text import Form, Spelling, spark_type


def _variadic(function: str) -> Callable[[Call], Form]:
    def form(call: Call) -> Form:
        return Form(f"{function}({', '.join(f'@{place}' for place in range(len(call.arguments)))})")

    return form


def _counted(for_null: int) -> Callable[[Call], Form]:
    def form(call: Call) -> Form:
        parts = [f"IF(@{place} IS NULL, {for_null}, {1 - for_null})" for place in range(len(call.arguments))]
        return Form(f"({' + '.join(parts)})")

    return form


def _most(function: str, sign: str) -> Spelling:
    def form(call: Call) -> Form:
        if call.type.name != "array":
            return _variadic(function)(call)
        places = ", ".join(f"@{place}" for place in range(len(call.arguments)))
        better = f"{ordered('`$e`', call.type)} {sign} {ordered('`$a`', call.type)}"
        chosen = f"CASE WHEN `$e` IS NULL THEN `$a` WHEN `$a` IS NULL OR {better} THEN `$e` ELSE `$a` END"
        return Form(f"aggregate(array({places}), CAST(NULL AS {spark_type(call.type)}), (`$a`, `$e`) -> {chosen})")

    return form


FORMS: dict[str, Spelling] = {
    "coalesce(any…)": _variadic("coalesce"),
    "greatest(any…)": _most("greatest", ">"),
    "least(any…)": _most("least", "<"),
    "nullif(any,any)": Form("nullif(@0, @1)"),
    "num_nulls(any…)": _counted(1),
    "num_nonnulls(any…)": _counted(0),
}
