"""AND, OR, COALESCE, NULLIF, GREATEST, LEAST and the like → Spark SQL."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from sinkql.logical import Call, Expression
from sinkql.logical.short_circuit import evaluates_before, is_decided
from sinkql.lowering.spark.nested import ordered
from sinkql.lowering.spark.sql import AND, OR, Form, Infix, Spelling, spark_type
from sinkql.planner.query.can_fail import can_fail


def _and(call: Call) -> Form | Infix:
    return Form("false", operands=()) if is_decided(call) else Infix("AND", AND)


def _or(call: Call) -> Form | Infix:
    """Return conditions with OR between them; in rows that are compared, what stands behind a NULL is not computed."""
    if is_decided(call):
        return Form("true", operands=())
    parts: list[str] = []
    operands: list[Expression] = []
    for place, each in enumerate(call.arguments):
        here = len(operands)
        if place and isinstance(each, Call) and evaluates_before(call.arguments[place - 1], each):
            tie, *rest = each.arguments
            if any(map(can_fail, rest)):
                behind = rest[0] if len(rest) == 1 else msgspec.structs.replace(each, arguments=tuple(rest))
                operands += [tie, behind]
                parts.append(f"CASE @{here} WHEN true THEN @{here + 1} WHEN false THEN false END")
                continue
        operands.append(each)
        parts.append(f"@{here}")
    if len(operands) == len(call.arguments):
        return Infix("OR", OR)
    return Form(" OR ".join(parts), OR, tuple(operands))


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
    "AND(boolean…)": _and,
    "OR(boolean…)": _or,
    "coalesce(any…)": _variadic("coalesce"),
    "greatest(any…)": _most("greatest", ">"),
    "least(any…)": _most("least", "<"),
    "nullif(any,any)": Form("nullif(@0, @1)"),
    "num_nulls(any…)": _counted(1),
    "num_nonnulls(any…)": _counted(0),
}
