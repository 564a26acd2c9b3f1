"""The private members of pyspark that SinkQL uses: for each, pyspark has no public member that does the same.

No other module reads or sets them, so a new version of pyspark is checked here.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaGateway
from pyspark import RDD, SparkConf, SparkContext
from pyspark.sql import SparkSession


def java_context(context: SparkContext) -> Any:
    """Return Java's context, which also answers after the Python context stops: whether it runs, and its executors."""
    return context._jsc


def compute(rows: RDD[Any]) -> None:
    """Compute and store a persisted RDD; its own `count` would send all its elements to Python again."""
    rows._jrdd.count()


def jvm(context: SparkContext) -> Any:
    """Return the view of the JVM's classes."""
    return context._jvm


def current_gateway() -> JavaGateway | None:
    """Return the gateway to the JVM of this process; None before a start and after `forget_jvm`."""
    return SparkContext._gateway


def submitted_conf(gateway: JavaGateway) -> SparkConf:
    """Return the settings of a JVM that runs before its context, as spark-submit starts one."""
    return SparkConf(_jvm=gateway.jvm)


def accumulator_server(context: SparkContext) -> Any:
    """Return the server of this process that receives accumulators from the JVM."""
    return context._accumulatorServer


def forget_jvm() -> None:
    """Clear pyspark's references to a JVM that has ended, which would prevent the start of another."""
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
