"""A job → whether its batches can run in this process, without Spark."""

from __future__ import annotations

from collections.abc import Sequence

from sinkql import evaluate, logical, physical
from sinkql.runtime.local.map import missing
from sinkql.runtime.local.murmur3 import is_hashable
from sinkql.runtime.local.xxhash64 import hashable
from sinkql.runtime.state.operator import stateful


def possible(job: physical.Job) -> str | None:
    """Return None if batches of the job can run in this process, else the short reason why they are Spark's.

    It depends on the job only; a batch may still be Spark's because of its size or because a row fails.
    """
    keyed = job.view or bool(job.write.key)
    if job.remote and (keyed or job.stateful()):
        return "tasks on other machines have the state"
    operators = job.graph.running()
    reason = next((reason for operator in operators if (reason := _of_operator(operator)) is not None), None)
    return reason if reason is not None else _of_write(job, operators, keyed=keyed)


def _of_write(job: physical.Job, operators: Sequence[physical.Operator], *, keyed: bool) -> str | None:
    write = job.write
    if not keyed:
        appends = write.mode == "append" and write.change == "append"
        return None if appends else "only Spark writes a changelog"
    if write.change == "upsert" and any(isinstance(operator, physical.Union) for operator in operators):
        return "only Spark writes a union of upserts"
    types = {column.name: column.type for column in write.columns}
    unhashable = next((types[name] for name in write.key if not is_hashable(types[name])), None)
    return None if unhashable is None else f"only Spark has keys of type {unhashable}"


def _of_operator(operator: physical.Operator) -> str | None:
    match operator:
        case physical.Read():
            return "only Spark reads changes that are removed again" if operator.change == "retract" else None
        case physical.Map():
            return _of_map(operator)
        case physical.Union() | physical.Use():
            return None
        case physical.Bound():
            return "only Spark has temporal filters"
        case physical.Stateful():
            return None if hashable(stateful(operator).preparation) else "only Spark has these types or sums"
        case physical.Flatten():
            return "only Spark has set-returning functions"
        case physical.Repeat():
            return "only Spark repeats rows"


def _of_map(map_: physical.Map) -> str | None:
    if passed_columns(map_) is not None:
        return None
    names = [column.name for column in physical.columns_of(map_.input)]
    outputs = [*map_.outputs, *([] if map_.where is None else [map_.where])]
    for output in outputs:
        if evaluate.function_of(output.expression, names) is None:
            return f"only Spark computes {missing(output.expression, names)}"
    return None


def passed_columns(map_: physical.Map) -> list[str] | None:
    """Return the input names of columns that are only passed on; None if one is computed, or rows are filtered."""
    types = {column.name: column.type for column in physical.columns_of(map_.input)}
    sources = [output.expression.name for output in map_.outputs if isinstance(output.expression, logical.Reference)]
    same = len(sources) == len(map_.outputs) and all(
        types[name] == output.type for name, output in zip(sources, map_.outputs, strict=True)
    )
    return sources if map_.where is None and same else None
