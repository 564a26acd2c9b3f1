"""A claimed batch loop and a Spark session → the streaming query that runs its batches."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from sinkql import faults, physical
from sinkql.errors import UnforeseenError
from sinkql.extension.stream import Context, JobOffsets
from sinkql.runtime.batch import failure, pacing
from sinkql.runtime.batch.pacing import Orders
from sinkql.runtime.spark import source
from sinkql.runtime.spark.asking import Answers

_LOOK_SECONDS = 0.05
_KEPT_QUERIES = 3
_STOPS = 20  # on a loaded machine Spark's patience of some seconds is short
_OF_A_SOCKET = ("null", "Connection reset", "Connection reset by peer", "Broken pipe")
"""All that Java says where the source's process ended without a word."""

Process = Callable[[JobOffsets, JobOffsets, bool], None]
"""Commit the batch from the first offsets to the second; True if a limit cut it. What it raises ends the query."""


def new_folder(folder: Path, epoch: int) -> Path:
    """Return a new query folder in a sink's; old ones go, but the last few: of one who was just taken over."""
    queries = folder / "queries"
    queries.mkdir(mode=0o700, exist_ok=True)
    for old in sorted(queries.iterdir(), key=lambda path: path.stat().st_mtime)[:-_KEPT_QUERIES]:
        shutil.rmtree(old, ignore_errors=True)
    return queries / f"{epoch}-{uuid.uuid4().hex[:8]}"


@dataclass(slots=True)
class Launch:
    """One streaming query of a sink, from `start` to `stop`; its `folder`, with a checkpoint, is new for each claim."""

    spark: SparkSession
    job: physical.Job
    context: Context
    folder: Path
    process: Process
    query: StreamingQuery | None = None
    error: Exception | None = field(default=None, init=False)
    orders: Orders = field(init=False)
    _answers: Answers | None = field(default=None, init=False)

    def start(self, orders: Orders, stops: Callable[[], bool] = lambda: False) -> None:
        """Start the query where `orders` say, and wait until its source has its process, or the sink `stops`."""
        self.orders = orders
        source.lay_out(self.folder, self.job, self.context, orders)
        self._answers = Answers(self.folder, self.job, self.context)
        self._answers.start()
        rows = self.spark.readStream.format(source.FORMAT).option("folder", str(self.folder)).load()
        self.query = (
            rows.writeStream.foreachBatch(self._batch)
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .start()
        )
        while not (self.folder / source.READY).exists() and self.query.isActive and not stops():
            time.sleep(_LOOK_SECONDS)

    def ended(self) -> bool:
        """Tell whether the query has failed."""
        return self.error is not None or self.query is None or not self.query.isActive

    def reason(self) -> Exception:
        """Return why it failed: the error itself where one is known, otherwise what Spark says of it."""
        if self.error is not None:
            return self.error
        left = failure.find(self.folder)
        if left is not None:
            return left
        told = self.query.exception() if self.query is not None else None
        text = str(told) if told is not None else "the query ended"
        if text.partition("\n")[0].strip() in _OF_A_SOCKET:
            return UnforeseenError(
                "SQ4004",
                "the process that looks for new input ended",
                hint="It is started again, and the sink continues. If it goes on, the machine may have too little "
                "memory; see spark.log in the folder of the cluster in .sinkql/sinks/spark.",
            )
        return RuntimeError(text)

    def pace(self, job: physical.Job) -> None:
        """Let the source keep another interval and limit from now on."""
        self._give(
            msgspec.structs.replace(
                self.orders, commit_interval=job.commit_interval, max_rows_per_commit=job.max_rows_per_commit
            )
        )

    def tell_to_stop(self) -> None:
        """Let the source offer nothing more."""
        self._give(msgspec.structs.replace(self.orders, stop=True))

    def _give(self, orders: Orders) -> None:
        self.orders = orders
        pacing.give(self.folder, orders)

    def stop(self) -> None:
        """End the query; no batch may be running, or Spark breaks it off."""
        try:
            self._stop()
        finally:
            if self._answers is not None:
                self._answers.close()

    def _stop(self) -> None:
        if self.query is None:
            return
        for left in reversed(range(_STOPS)):
            try:
                self.query.stop()
            except Exception:  # Spark gave up waiting for its thread, which waits for the source's process
                if not left:
                    raise
                self._end_source()
            else:
                return

    def _end_source(self) -> None:
        with suppress(OSError, ValueError):
            os.kill(int((self.folder / source.READY).read_text()), signal.SIGKILL)

    def _batch(self, rows: DataFrame, number: int) -> None:
        try:
            for row in rows.collect():
                self.process(json.loads(row["start"]), json.loads(row["end"]), row["more"])
            faults.point("checkpoint")
        except Exception as error:
            self.error = error
            raise
