"""Run single queries over Arrow tables in a local Spark, which starts with the first query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sinkql import logical
from sinkql.errors import SinkqlError
from sinkql.evaluate.failure import code_of
from sinkql.lowering.spark.sql import quoted, spark_type
from sinkql.runtime.spark import session as spark
from sinkql.runtime.spark.arrow import from_spark, to_spark
from sinkql.runtime.spark.diagnosis import spark_message
from sinkql.runtime.spark.scratch_folder import ScratchFolder
from sinkql.runtime.spark.settings import SparkSettings

_HINT = "Guard it, as in CASE WHEN value ~ '^[0-9]{1,9}$' THEN value::int END or 1 / NULLIF(value, 0)."


class AdhocSpark:
    """Runs queries; Spark keeps its files in `folder`. If this process already has a Spark, it is used."""

    def __init__(self, folder: Path) -> None:
        self._folder = ScratchFolder(folder, "query")
        self._settings = SparkSettings("local[*]", {}, self._folder.path, "sinkql query")
        self._session: SparkSession | None = None
        self._starting: spark.SparkStart | None = None
        # Ctrl-C reaches the JVM through the main thread's socket, which must be free then
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="query")

    def query(
        self,
        sql: str,
        inputs: Mapping[str, tuple[Sequence[logical.Column], pa.Table]],
        types: Sequence[logical.Type] = (),
    ) -> pa.Table:
        """Return the result of a query over `inputs` by name; its first columns have these `types`.

        Raises SQ3201 if an expression fails for a row, SQ3212 for a scalar subquery with several rows.
        """
        session = self._start()
        running = self._worker.submit(self._query, session, sql, inputs)
        try:
            return from_spark(running.result(), types)
        except KeyboardInterrupt:
            session.sparkContext.cancelAllJobs()
            raise

    def _query(
        self, session: SparkSession, sql: str, inputs: Mapping[str, tuple[Sequence[logical.Column], pa.Table]]
    ) -> pa.Table:
        try:
            for name, (columns, rows) in inputs.items():
                session.createDataFrame(to_spark(rows), _struct(columns)).createOrReplaceTempView(name)
            return session.sql(sql).toArrow()
        except PySparkException as error:
            message = spark_message(error)
            raise SinkqlError(code_of(message), message, hint=_HINT) from None
        finally:
            for name in inputs:
                session.catalog.dropTempView(name)

    def close(self) -> None:
        """Stop Spark if this object started it."""
        if self._starting is not None:
            self._starting.end()
            self._folder.release(log=False)
        self._worker.shutdown(cancel_futures=True)
        self._session = self._starting = None

    def _start(self) -> SparkSession:
        """Return the session; an interrupted start leaves nothing behind."""
        if self._session is None:
            self._session = SparkSession.getActiveSession()
        if self._session is None:
            self._folder.take()
            self._starting = spark.SparkStart(self._settings)
            self._starting.begin()
            try:
                self._session = self._starting.result()
            except BaseException:
                self._starting.end()
                raise
        return self._session


def _struct(columns: Sequence[logical.Column]) -> str:
    return ", ".join(f"{quoted(column.name)} {spark_type(column.type)}" for column in columns)
