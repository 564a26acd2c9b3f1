"""The account of a test run's CPU: whose processes it counts, and how it adds them up."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.cpu_account import CpuAccount, kind_of, table


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("/usr/bin/java -cp x org.apache.spark.deploy.SparkSubmit", "Spark's Java"),
        ("python -m sinkql.runtime.spark.daemon pyspark.worker", "Spark's Python"),
        ("python -m sinkql exec pipeline.sql", "sinkql"),
        ("/venv/bin/sinkql shell", "sinkql"),
        ("postgres: checkpointer", "servers"),
        ("/usr/bin/java kafka.Kafka server.properties", "servers"),
        ("python -c pass", "other"),
    ],
)
def test_processes_are_counted_by_what_they_run(command: str, kind: str) -> None:
    assert kind == kind_of(command)


def test_what_a_child_used_is_counted_once(pytestconfig: pytest.Config) -> None:
    account = CpuAccount(pytestconfig)
    account._over.set()
    busy = "import sys, time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with account._lock:
            account._take()
            first = account._seconds["between tests"]["other"]
            account._file = "again"
            for _ in range(3):
                account._take()
            (used,) = [seconds for (pid, _), seconds in account._seen.items() if pid == child.pid]
        child.communicate()
    assert used >= 0.4  # the kernel counts in ticks
    assert first >= used
    assert account._seconds["again"]["other"] < used
    assert os.getpid() in {pid for pid, _ in account._seen}


def test_the_table_has_the_most_expensive_file_first_and_a_sum() -> None:
    lines = table({"a": {"sinkql": 1, "wall": 2}, "b": {"pytest": 3, "servers": 4}})
    assert [line.split()[:3] for line in lines[1:]] == [["b", "7", "0"], ["a", "1", "2"], ["all", "8", "2"]]
