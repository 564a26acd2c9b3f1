"""Which jobs need Spark from their first batch, and how long Spark may be idle."""

from __future__ import annotations

from sinkql import physical
from sinkql.runtime.local.possible import possible

_IDLE_SECONDS = 300.0
_IDLE_SECONDS_ELSEWHERE = 1800.0
"""Spark on a cluster elsewhere stays longer, because its start waits for the cluster."""


def reason_for_spark(job: physical.Job) -> str | None:
    """Return why all batches of a job are Spark's, from the first; None if this process may run them."""
    return "its cluster has EXECUTION = SPARK" if job.execution == "SPARK" else possible(job)


def spark_idle_seconds(job: physical.Job) -> float:
    """Return how long the Spark of a job's cluster runs without use."""
    if job.spark_idle is not None:
        return job.spark_idle.total_seconds()
    return _IDLE_SECONDS_ELSEWHERE if job.remote else _IDLE_SECONDS
