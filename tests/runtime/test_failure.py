"""What is told of an error that no code foresees."""

from __future__ import annotations

from sinkql.runtime.failure import unexpected

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
    error = unexpected(RuntimeError(_JAVA))
    assert error.message == "the batch failed: decimal.InvalidOperation: [<class 'decimal.ConversionSyntax'>]"
    assert error.detail is not None
    assert error.detail.splitlines()[-2:] == ["    value = Decimal(text)", "            ^^^^^^^^^^^^^"]


def test_an_error_without_a_traceback_is_told_as_it_is() -> None:
    error = unexpected(RuntimeError("the query ended\nfor a reason"))
    assert error.message == "the batch failed: the query ended"
    assert error.detail == "RuntimeError: the query ended\nfor a reason"
    assert unexpected(KeyError()).message == "the batch failed: KeyError"
