"""What goes into the tasks of a join → the Spark SQL that prepares it of each side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sinkql import physical
from sinkql.connector_api.types import parse_type
from sinkql.lowering.join_input import AT, SIDE, PreparedSide, SidesPreparation
from sinkql.lowering.spark.sql import quoted, spark_type
from sinkql.lowering.spark.task_input import hashed, normal, plain


@dataclass(frozen=True, slots=True)
class SideSteps:
    """Spark SQL: `where(where)` if there is one, then `selectExpr(*select)`."""

    where: str | None
    select: tuple[str, ...]


def side_steps(preparation: SidesPreparation, side: PreparedSide, buckets: Sequence[int]) -> SideSteps:
    """Return the steps of a side as Spark SQL; `buckets` has a hash for each bucket that leads there."""
    first, mark = hashed(side.hashes[0]), hashed(side.hashes[2])
    number = f"{side.number}L"
    loose = " OR ".join(f"{quoted(each.column)} IS NULL" for each in side.unsafe)
    everywhere = f"explode(array({', '.join(f'{each}L' for each in buckets)}))"
    if side.replicated and preparation.crossed:
        first = everywhere
    elif loose and side.preserved:
        number = f"CASE WHEN {loose} THEN {side.number + preparation.unmatched}L ELSE {number} END"
        first = f"CASE WHEN {loose} THEN {mark} ELSE {first} END"
    own = {each.name: each for each in side.given}
    shown = plain if side.latest else normal
    columns = {SIDE: number, "$h1": first, "$h2": "0L", "$r": "0L"}
    for each in preparation.values:
        kept = own.get(each.name)
        columns[each.name] = f"CAST(NULL AS {spark_type(parse_type(each.type))})" if kept is None else shown(kept)
    columns[physical.DIFF] = "1L" if side.change == "append" else quoted(physical.DIFF)
    if preparation.place == AT:
        columns[AT] = everywhere if side.replicated else mark
    if preparation.latest:
        columns[physical.SEQ] = quoted(physical.SEQ) if side.latest else "CAST(NULL AS BIGINT)"
    where = None if side.preserved or not loose else f"NOT ({loose})"
    return SideSteps(where, tuple(f"{text} AS {quoted(name)}" for name, text in columns.items()))
