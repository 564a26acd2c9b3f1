"""Run batches inside a streaming query of Spark, one round of the batch scheduler per micro-batch.

The input of the query is a folder of empty files, one for each round, which only Spark lists; no extra process is
needed. A round commits to the tables; the query's checkpoint is as temporary as the folder.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from sinkql.errors import disk_full

_TICKS = "ticks"
_MOST_ROUNDS = 1000
"""The query's checkpoint lists all its files, so it is replaced every few rounds."""
_STOPS = 20  # on a loaded machine Spark's timeout of a few seconds is too short
_HERE = "file://"
"""A cluster may have another default file system."""
_PATTERN = re.compile(r"([*?\[\]{}\\])")


class SparkWorker:
    """One streaming query for the batch scheduler; `folder` is new and private."""

    def __init__(self, session: SparkSession, folder: Path, round_: Callable[[], None]) -> None:
        folder = folder.absolute()
        self._folder = folder / _TICKS
        self._folder.mkdir(parents=True, mode=0o700)
        self._round = round_
        self._rounds = 0
        # a folder's name may contain characters of Spark's patterns
        ticks = _PATTERN.sub(r"\\\1", str(self._folder))
        rows = session.readStream.format("text").load(f"{_HERE}{ticks}")
        checkpoint = f"{_HERE}{folder / 'checkpoint'}"
        writer = rows.writeStream.foreachBatch(self._batch).option("checkpointLocation", checkpoint)
        try:
            self._query = writer.start()
        except (PySparkException, Py4JError) as error:
            raise self._placed(error) from error

    @property
    def is_worn(self) -> bool:
        """Return whether the checkpoint has become long."""
        return self._rounds >= _MOST_ROUNDS

    def start_round(self) -> None:
        """Add a file for the next round; raises OSError."""
        self._rounds += 1
        (self._folder / str(self._rounds)).touch()

    def failure(self) -> Exception | None:
        """Return the reason why the query does not run, None while it runs."""
        try:
            if self._query.isActive:
                return None
            told = self._query.exception()
        except (Py4JError, OSError) as error:  # Java has ended
            return error
        return self._placed(RuntimeError(str(told) if told is not None else "the query ended"))

    def _placed(self, error: Exception) -> Exception:
        """Return a Java error with the folder's path if the folder's disk is full."""
        if disk_full(error) is None:
            return error
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder.parent))

    def stop(self) -> None:
        """End the query; no batch may be running, or Spark would interrupt it."""
        for left in reversed(range(_STOPS)):
            try:
                self._query.stop()
            except PySparkException:  # Spark gave up waiting for its thread
                if not left:
                    raise
            except (Py4JError, OSError):
                return  # Java has ended
            else:
                return

    def _batch(self, rows: DataFrame, number: int) -> None:
        (self._folder / str(self._rounds)).unlink(missing_ok=True)  # otherwise Spark would list it in each round
        self._round()
