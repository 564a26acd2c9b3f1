"""A job → whether its batches can run in this process, without Spark."""

from __future__ import annotations

from sinkql import evaluate, logical, physical
from sinkql.runtime.local.map import missing


def possible(job: physical.Job) -> str | None:
    """Return None if batches of the job can run in this process, else the short reason why they are Spark's.

    It depends on the job only; a batch may still be Spark's because of its size or because a row fails.
    """
    if job.remote and (job.view or job.write.key or job.stateful()):
        return "tasks on other machines have the state"
    return next((reason for operator in job.graph.running() if (reason := _of_operator(operator)) is not None), None)


def _of_operator(operator: physical.Operator) -> str | None:
    outputs: tuple[physical.Output, ...] = ()
    match operator:
        case physical.Map() if passed_columns(operator) is None:
            outputs = (*operator.outputs, *([] if operator.where is None else [operator.where]))
        case physical.Repeat():
            outputs = (operator.times,)
    if not outputs:
        return None
    (below,) = physical.inputs_of(operator)
    names = [column.name for column in physical.columns_of(below)]
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
