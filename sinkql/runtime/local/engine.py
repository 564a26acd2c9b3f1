"""Run the batches of a job in this process: for tests of pipelines, and for batches that do not pay for Spark.

With policy `strict`, everything runs in this process, whatever its size, and tasks are pickled as for Spark. With
`decline`, batches that are better left to Spark raise SparkNeededError.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TypeVar

from sinkql import physical
from sinkql.lowering.placement import COMPUTED_ROWS, possible
from sinkql.runtime.batch.engine import Batch, Outcome, SparkNeededError
from sinkql.runtime.local.batch import HiddenColumnsError, LocalBatch, Policy
from sinkql.runtime.local.size import too_large

Task = TypeVar("Task")


class LocalEngine:
    """Runs a job's operators over a batch in this process. Spark can continue from its state, and it from Spark's."""

    bucketing = "spark-murmur3"

    def __init__(
        self, buckets: int = 2, *, policy: Policy = "strict", most_computed: int | None = COMPUTED_ROWS
    ) -> None:
        """Compute at most `most_computed` rows one by one, if batches may be left to Spark."""
        self.buckets = buckets
        self.policy: Policy = policy
        self._most_computed = most_computed if policy == "decline" else None

    def execute(self, job: physical.Job, batch: Batch) -> Outcome:
        """Run the batch; raises SQ3201 if an expression fails for a row, SQ2663 if only Spark can compute it.

        Under the policy `decline` it raises SparkNeededError instead of both, and for a large batch.
        """
        if self.policy == "decline" and (reason := possible(job) or too_large(job, batch)) is not None:
            raise SparkNeededError(reason)
        try:
            return self._batch(job, batch).execute()
        except HiddenColumnsError:
            return replace(self._batch(job, batch), whole=True).execute()  # raises, and shows the row

    def _batch(self, job: physical.Job, batch: Batch) -> LocalBatch:
        return LocalBatch(job, batch, self.policy, self.sent, self._most_computed)

    def sent(self, task: Task) -> Task:
        """Return a task as its process receives it: for tests, after the serialization for a Spark process."""
        if self.policy == "decline":
            return task
        copy: Task = pickle.loads(pickle.dumps(task))
        return copy
