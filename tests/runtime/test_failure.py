"""The reports of unexpected errors."""

from __future__ import annotations

import pytest

from sinkql import physical
from sinkql.errors import LateError, LostStateError, SinkqlError, line_of
from sinkql.runtime.batch.failure import TaskError, from_spark_error, name_source, unforeseen

_JAVA = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 2044, in main
    process()
  File "rows.py", line 83, in decode
    value = Decimal(text)
            ^^^^^^^^^^^^^
decimal.InvalidOperation: [<class 'decimal.ConversionSyntax'>]

	at org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:581)
"""


def test_the_cause_stands_before_what_java_says() -> None:
    error = unforeseen(RuntimeError(_JAVA))
    assert error.message == "the batch failed: decimal.InvalidOperation: [<class 'decimal.ConversionSyntax'>]"
    assert error.detail is not None
    assert error.detail.splitlines()[-2:] == ["    value = Decimal(text)", "            ^^^^^^^^^^^^^"]


_LATE = """\
org.apache.spark.SparkException: Python worker failed to connect back.
	at org.apache.spark.api.python.PythonWorkerFactory.createSimpleWorker(PythonWorkerFactory.scala:254)
Caused by: java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back
"""


@pytest.mark.parametrize(
    "text",
    [
        _LATE,
        "java.util.concurrent.TimeoutException: Stream Execution thread failed to stop within 10000 milliseconds",
        "org.apache.spark.SparkException: Job aborted: Executor heartbeat timed out after 130000 ms",
        "java.util.concurrent.TimeoutException: Futures timed out after [120 seconds]",
    ],
)
def test_what_came_too_late_is_waited_for(text: str) -> None:
    error = unforeseen(RuntimeError(text))
    assert isinstance(error, LateError)
    assert (error.code, error.retryable, error.detail) == ("SQ4005", True, text.splitlines()[0][:300])


_LOST = """\
org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 9.0 failed 4 times, most recent\
 failure: Lost task 1.3 in stage 9.0 (TID 31) (127.0.0.2 executor 5): ExecutorLostFailure (executor 5 exited caused by\
 one of the running tasks) Reason: Remote RPC client disassociated.
Driver stacktrace:
"""
_FETCHES = """\
org.apache.spark.SparkException: Job aborted due to stage failure: ShuffleMapStage 4 has failed the maximum allowable\
 number of times: 4. Most recent failure reason:
org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location for shuffle 2 partition 0
"""


@pytest.mark.parametrize("text", [_LOST, _FETCHES])
def test_a_batch_whose_executors_were_lost_is_tried_again(text: str) -> None:
    error = unforeseen(RuntimeError(text))
    assert (error.code, error.retryable, error.detail) == ("SQ4055", True, text.splitlines()[0][:300])


def test_an_error_of_a_task_is_its_own_whatever_it_says() -> None:
    assert unforeseen(RuntimeError(_JAVA.replace("InvalidOperation", "TimeoutException"))).code == "SQ3001"


def test_an_error_without_a_traceback_is_told_as_it_is() -> None:
    error = unforeseen(RuntimeError("the query ended\nfor a reason"))
    assert error.message == "the batch failed: the query ended"
    assert error.detail == "RuntimeError: the query ended\nfor a reason"
    assert unforeseen(KeyError()).message == "the batch failed: KeyError"


def _read(source: str, name: str) -> physical.Read:
    options = {"source_id": "1", "source": {}, "tuning": {"source": source, "options": {}, "keeping": {}}}
    return physical.Read(name, "POSTGRES", options, ())


def test_the_source_is_named_where_it_can_be_one_alone() -> None:
    hint = "Run ALTER SOURCE … SKIP, and start the sinks again."
    tables = [_read("materialize.public.shop", f"materialize.public.{each}") for each in ("orders", "users")]
    topic = physical.Read("materialize.raw.clicks", "KAFKA", {}, ())
    for reads, named in (
        (tables, "ALTER SOURCE shop SKIP"),
        ([topic], "ALTER SOURCE materialize.raw.clicks SKIP"),
        ([*tables, topic], "ALTER SOURCE … SKIP"),
    ):
        error = name_source(SinkqlError("SQ3370", "gone", hint=hint), reads)
        assert error.hint is not None
        assert named in error.hint


def test_what_a_row_says_is_no_error_of_a_task() -> None:
    lost = LostStateError("SQ3404", "state is lost")
    said = f"Caused by: [CAST_INVALID_INPUT] The value '{line_of(lost, 'guessed')}' is no number"
    assert from_spark_error(RuntimeError(said), "key") is None
    found = from_spark_error(
        RuntimeError(f"{said}\n{TaskError(SinkqlError('SQ3201', 'no number'), 'key')}\n\tat x"), "key"
    )
    assert found is not None
    assert (type(found), found.code) == (SinkqlError, "SQ3201")
