"""Where the batches of a job run: always in Spark, with the reason, or in process up to a size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sinkql import evaluate, logical, physical
from sinkql.connector_api.stream import Size
from sinkql.logical.expression import Call, Cast, Expression, Literal, Reference, walk
from sinkql.machine.cores import local_cores

ROW_SECONDS = 3e-6
"""The time of a row in process before a job's rate was measured."""
COMPUTED_ROWS = 1 << 14
"""The most rows whose expressions are computed in process, one by one instead of over whole columns."""

_DIVIDING_CORES = 2
"""The most cores of a cluster whose backlogs are divided."""
SPARK_INTERVAL = timedelta(seconds=1)
"""The shortest interval of a job whose batches are all Spark's."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a batch in process may take: its estimated seconds, and the bytes of its input."""

    seconds: float
    bytes: int

    def rows(self, row_seconds: float = ROW_SECONDS) -> int:
        """Return about how many rows are allowed."""
        return int(self.seconds / row_seconds)

    def holds(self, size: Size) -> bool:
        """Return whether a batch of a job without measured rates is allowed."""
        return size.rows <= self.rows() and size.bytes <= self.bytes


COLD = Allowance(3.0, 256 << 20)
"""What is cheaper in process than a start of Spark."""
SMALL = Allowance(0.06, 1 << 20)
"""What stays in process on a cluster whose batches are Spark's: it costs less than a task."""
WARM = Allowance(0.2, 64 << 20)
"""What stays in process although Spark runs: it hardly delays other batches."""


def possible(job: physical.Job) -> str | None:
    """Return None if batches of the job can run in this process, else the short reason why they are Spark's.

    It depends on the job only; a batch may still be Spark's because of its size or because a row fails.
    """
    if job.remote and (job.view or job.write.key or job.stateful()):
        return "tasks on other machines have the state"
    return next((reason for operator in job.graph.running() if (reason := _of_operator(operator)) is not None), None)


def reason_for_spark(job: physical.Job) -> str | None:
    """Return why all batches of a job are Spark's, from the first; None if this process may run them."""
    return "its cluster has EXECUTION = SPARK" if job.execution == "SPARK" else possible(job)


def interval_of(job: physical.Job) -> timedelta:
    """Return the time between two commits of a job: its commit interval, if Spark can keep it."""
    is_kept = job.commit_interval >= SPARK_INTERVAL or reason_for_spark(job) is None
    return job.commit_interval if is_kept else SPARK_INTERVAL


def divides(job: physical.Job) -> bool:
    """Return whether a backlog is committed in batches that this process may run, as long as Spark does not run.

    Without state, two batches cost hardly more than one of both. With state, each reads and writes some of it again.
    With many cores, Spark reads the backlog in a fraction of the time.
    """
    if job.remote or job.stateful() or local_cores(job.master) > _DIVIDING_CORES:
        return False
    return reason_for_spark(job) is None


def placed(job: physical.Job) -> str:
    """Return where the batches of a job run, for users."""
    reason = reason_for_spark(job)
    if reason is not None:
        return f"in Spark{', once a second at most' if interval_of(job) > job.commit_interval else ''}: {reason}"
    limit = f"about {COLD.rows():,} rows or {COLD.bytes >> 20} MB"
    computed = f"{COMPUTED_ROWS:,} rows if their expressions are computed one by one"
    computes = any(map(_computes, job.graph.running()))
    if divides(job):
        return f"in process, {limit} at a time, until Spark runs" + (f"; in Spark above {computed}" if computes else "")
    return f"in process up to {limit}{f', {computed}' if computes else ''}; in Spark above that"


def missing(expression: Expression, columns: Sequence[str]) -> str:
    """Return the innermost call or cast of an expression that Python cannot evaluate."""
    for node in reversed(list(walk(expression))):
        if not isinstance(node, Reference | Literal) and evaluate.function_of(node, columns) is None:
            return called(node)
    raise AssertionError(expression)


def called(node: Expression) -> str:
    """Return an expression's function or cast, for messages."""
    match node:
        case Call():
            return node.function
        case Cast():
            return f"a cast of {node.operand.type} to {node.type}"
        case _:
            return "this expression"


def passed_columns(map_: physical.Map) -> list[str] | None:
    """Return the input names of columns that are only passed on; None if one is computed, or rows are filtered."""
    types = {column.name: column.type for column in physical.columns_of(map_.input)}
    sources = [output.expression.name for output in map_.outputs if isinstance(output.expression, logical.Reference)]
    same = len(sources) == len(map_.outputs) and all(
        types[name] == output.type for name, output in zip(sources, map_.outputs, strict=True)
    )
    return sources if map_.where is None and same else None


def _of_operator(operator: physical.Operator) -> str | None:
    if not _computes(operator):
        return None
    (below,) = physical.inputs_of(operator)
    names = [column.name for column in physical.columns_of(below)]
    for output in _computed(operator):
        if evaluate.function_of(output.expression, names) is None:
            return f"only Spark computes {missing(output.expression, names)}"
    return None


def _computes(operator: physical.Operator) -> bool:
    return bool(_computed(operator))


def _computed(operator: physical.Operator) -> tuple[physical.Output, ...]:
    """Return the expressions that an operator computes."""
    match operator:
        case physical.Map() if passed_columns(operator) is None:
            return (*operator.outputs, *([] if operator.where is None else [operator.where]))
        case physical.Repeat():
            return (operator.times,)
        case _:
            return ()
