"""A claimed batch loop and a Spark session → the streaming query that runs its batches."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sinkql import faults, physical
from sinkql.connector.stream import Context, JobOffsets
from sinkql.runtime import source
from sinkql.runtime.pacing import Orders

Process = Callable[[JobOffsets, JobOffsets, bool], None]
"""Commit the batch from the first offsets to the second; True if a limit cut it. May raise: the query then ends."""


@dataclass(slots=True)
class Launch:
    """Hold one query of a sink. `folder` is its run folder, new for each claim, with a checkpoint of its own.

    Whatever `process` raises is kept in `error`, as itself; Spark would give back a text.
    """

    spark: SparkSession
    job: physical.Job
    context: Context
    folder: Path
    process: Process
    query: StreamingQuery = field(init=False)
    error: BaseException | None = field(default=None, init=False)

    def start(self, orders: Orders) -> None:
        """Start the query where `orders` say."""
        source.lay_out(self.folder, self.job, self.context, orders)
        rows = self.spark.readStream.format(source.FORMAT).option("folder", str(self.folder)).load()
        self.query = (
            rows.writeStream.foreachBatch(self._batch)
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .queryName(self.job.sink)
            .start()
        )

    def _batch(self, rows: DataFrame, number: int) -> None:
        try:
            for row in rows.collect():
                self.process(json.loads(row["start"]), json.loads(row["end"]), row["more"])
            faults.point("checkpoint")
        except BaseException as error:
            self.error = error
            raise
