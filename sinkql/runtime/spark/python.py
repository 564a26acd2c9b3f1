"""Functions that Spark SQL calls and Python has: where Spark cannot give just what `evaluate` does."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.types import StringType

from sinkql.evaluate.failure import RefusedError
from sinkql.evaluate.json import read
from sinkql.lowering.spark.cast import READ_JSON


def register(session: SparkSession) -> None:
    """Let the session's SQL call them."""
    session.udf.register(READ_JSON, _read_json, StringType())


def _read_json(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return read(text)
    except RefusedError as error:
        return f"!{error}"
