"""Name the modules that tasks of some jobs import, so that the parent of Spark's Python workers loads no others.

A task of another job imports what it lacks, once in each worker.
"""

from __future__ import annotations

from collections.abc import Iterable

from sinkql import physical
from sinkql.connector_api.registry import discover

_STATEFUL = (
    "sinkql.runtime.state.operator.aggregate",
    "sinkql.runtime.state.operator.arrange",
    "sinkql.runtime.state.operator.temporal_filter",
    "sinkql.runtime.state.operator.join",
    "sinkql.runtime.state.operator.normalize",
    "sinkql.runtime.state.operator.pick",
    "sinkql.runtime.state.operator.rank",
    "sinkql.runtime.state.operator.recompute",
)


def task_modules(jobs: Iterable[physical.Job] | None = None) -> tuple[str, ...]:
    """Return the modules of the connectors, formats and operators that the jobs use; of all of them without jobs."""
    if jobs is None:
        return (*discover().task_modules(), *_STATEFUL)
    jobs = list(jobs)
    has_state = any(isinstance(operator, physical.Stateful) for job in jobs for operator in job.operators())
    return (*discover().task_modules(jobs), *(_STATEFUL if has_state else ()))
