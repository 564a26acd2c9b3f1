"""Spark SQL and Arrow tables → an Arrow table: queries that run once, in a local Spark that starts at the first one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sinkql import logical
from sinkql.connector.types import spark_type
from sinkql.errors import SinkqlError
from sinkql.runtime import spark
from sinkql.runtime.diagnosis import told

_HINT = "Guard the expression, with NULLIF or CASE."


class AdhocSpark:
    """Run queries; Spark keeps its files in `folder` meanwhile. A Spark that this process has is used."""

    def __init__(self, folder: Path) -> None:
        self._settings = spark.Settings("local[*]", {}, folder / f"query-{os.getpid()}", "sinkql query")
        self._session: SparkSession | None = None
        self._own = False
        # Spark's handler of Ctrl-C speaks to the JVM on the main thread's socket, which must not be in use then
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="query")

    def query(self, sql: str, inputs: Mapping[str, tuple[Sequence[logical.Column], pa.Table]]) -> pa.Table:
        """Return what a query gives over inputs by name; raises SQ3201 for an expression that fails on a row."""
        session = self._start()
        return self._worker.submit(self._query, session, sql, inputs).result()

    def _query(
        self, session: SparkSession, sql: str, inputs: Mapping[str, tuple[Sequence[logical.Column], pa.Table]]
    ) -> pa.Table:
        try:
            for name, (columns, rows) in inputs.items():
                session.createDataFrame(rows, _struct(columns)).createOrReplaceTempView(name)
            return session.sql(sql).toArrow()
        except PySparkException as error:
            raise SinkqlError("SQ3201", told(error), hint=_HINT) from None
        finally:
            for name in inputs:
                session.catalog.dropTempView(name)

    def close(self) -> None:
        """Stop Spark if it was started here."""
        self._worker.shutdown(cancel_futures=True)
        if self._session is not None and self._own:
            spark.stop(self._session)
            shutil.rmtree(self._settings.folder, ignore_errors=True)
        self._session = None

    def _start(self) -> SparkSession:
        if self._session is None:
            found = SparkSession.getActiveSession()
            self._own = found is None
            self._session = found if found is not None else spark.start(self._settings)
        return self._session


def _struct(columns: Sequence[logical.Column]) -> str:
    return ", ".join(f"`{column.name.replace('`', '``')}` {spark_type(column.type)}" for column in columns)
