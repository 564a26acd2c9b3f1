"""A cluster's Spark within a process, without a Java process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark import SparkContext

from sinkql.connector_api.registry import discover
from sinkql.runtime.process.application import RunSpec, _Spark
from sinkql.runtime.spark.session import SparkStart
from support.running import FixedWorkload, MemoryControl, contexts, counter, job

SparkOfNoProcess = Callable[[str], _Spark]
"""Return the Spark of a cluster with the given master."""


@pytest.fixture
def spark_of_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkOfNoProcess:
    monkeypatch.setattr(SparkStart, "_run", lambda starting, then: None)
    monkeypatch.setattr(SparkContext, "_gateway", None)  # keeps the Spark of the tests out of it

    def of(master: str) -> _Spark:
        each = job(counter(up_to=5), tmp_path, master=master)
        workload = RunSpec(
            FixedWorkload([each]), lambda one: contexts(tmp_path, one), discover(), MemoryControl(), lambda _: None,
            once=False, takeover=False,
        )  # fmt: skip
        return _Spark(each, workload, threading.Event())

    return of
