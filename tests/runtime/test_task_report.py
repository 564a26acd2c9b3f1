"""Task reports reach the batch of their tasks and no other batch."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
from collections.abc import Iterator

import pytest
from pyspark import accumulators
from pyspark.sql import SparkSession

from sinkql.errors import SinkqlError
from sinkql.runtime.batch import failure
from sinkql.runtime.spark.task_report import task_reports

_BEYOND = 1100


@pytest.fixture
def room_for_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, _BEYOND + 100), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("room_for_files")
def test_files_of_any_number_are_waited_for() -> None:
    here, there = socket.socketpair()
    with here, there:
        high = fcntl.fcntl(here.fileno(), fcntl.F_DUPFD, _BEYOND)
        with os.fdopen(high, "rb", buffering=0) as file:
            assert accumulators.select.select([file], [], [], 0) == ([], [], [])
            there.send(b"x")
            assert accumulators.select.select([file], [], [], 10) == ([file], [], [])


@pytest.mark.spark
def test_words_of_tasks_come_to_their_batch(spark: SparkSession) -> None:
    context = spark.sparkContext
    with task_reports(context, "one") as (leave, words), task_reports(context, "two") as (_, others):
        context.parallelize(range(4), 4).foreachPartition(lambda rows: leave(sum(rows)))
        assert sorted(map(str, words)) == ["0", "1", "2", "3"]
        assert others == []
    context.parallelize(range(2), 2).foreachPartition(lambda _: leave("late"))
    with task_reports(context, "one") as (_, words):
        assert words == []


@pytest.mark.spark
def test_a_task_that_fails_has_said_nothing_but_why(spark: SparkSession) -> None:
    context = spark.sparkContext

    def work(rows: Iterator[int]) -> None:
        leave("begun")
        with failure.as_task_error("key"):
            raise SinkqlError("SQ3404", 'state file "a" is missing or damaged', detail=str(list(rows)), hint="Look.")

    with task_reports(context, "failing") as (leave, words):
        with pytest.raises(Exception, match="SQ3404") as caught:
            context.parallelize([7], 1).foreachPartition(work)
        assert words == []
    found = failure.from_spark_error(caught.value, "key")
    assert found is not None
    assert (found.code, found.detail, found.hint) == ("SQ3404", "[7]", "Look.")
