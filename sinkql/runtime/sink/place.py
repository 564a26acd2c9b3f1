"""Which jobs need Spark from their first batch, and how long Spark may be idle."""

from __future__ import annotations

from sinkql import physical
from sinkql.lowering.placement import reason_for_spark as reason_for_spark

_IDLE_SECONDS = 300.0
_IDLE_SECONDS_ELSEWHERE = 1800.0
"""Spark on a cluster elsewhere stays longer, because its start waits for the cluster."""


def spark_idle_seconds(job: physical.Job) -> float:
    """Return how long the Spark of a job's cluster runs without use."""
    if job.spark_idle is not None:
        return job.spark_idle.total_seconds()
    return _IDLE_SECONDS_ELSEWHERE if job.remote else _IDLE_SECONDS
