"""Ctrl-C cancels a one-shot query, and the next query runs."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sinkql.runtime.spark.adhoc import AdhocSpark
from support.patience import joined

pytestmark = pytest.mark.spark
_SLOW = "SELECT count(*) AS n FROM range(2) WHERE java_method('java.lang.Thread', 'sleep', id * 0 + 3000L) IS NULL"


def test_ctrl_c_leaves_a_query_and_the_next_one_runs(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    adhoc, over = AdhocSpark(tmp_path), threading.Event()

    def interrupt() -> None:
        while not spark.sparkContext.statusTracker().getActiveJobsIds() and not over.is_set():
            pass
        if not over.is_set():
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    presser = threading.Thread(target=interrupt, daemon=True)
    presser.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            adhoc.query(_SLOW, {})
    finally:
        over.set()
        joined(presser)
    assert caplog.records == []  # py4j logs a traceback if its socket is in use
    assert adhoc.query("SELECT 1 AS a", {}).to_pydict() == {"a": [1]}
    adhoc.close()
