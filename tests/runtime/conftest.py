"""A cluster's Spark within a process, without a Java process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark import SparkContext

from sinkql.runtime.spark.application import SparkApplication
from sinkql.runtime.spark.session import SparkStart
from support.running import contexts, counter, job

SparkOfNoProcess = Callable[[str], SparkApplication]
"""Return the Spark of a cluster with the given master."""


@pytest.fixture
def spark_of_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkOfNoProcess:
    monkeypatch.setattr(SparkStart, "_run", lambda starting, then: None)
    monkeypatch.setattr(SparkContext, "_gateway", None)  # keeps the Spark of the tests out of it

    def of(master: str) -> SparkApplication:
        each = job(counter(up_to=5), tmp_path, master=master)
        return SparkApplication([each], contexts(tmp_path, each), lambda _: None, threading.Event(), submitted=False)

    return of
