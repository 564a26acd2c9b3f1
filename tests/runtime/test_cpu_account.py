"""The account of a test run's CPU: whose processes it counts, and how it adds them up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from support.cpu_account import CpuAccount, kind_of, name_of, programs, table


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("/usr/bin/java -cp x org.apache.spark.deploy.SparkSubmit", "Spark's Java"),
        ("python -m sinkql.runtime.spark.daemon pyspark.worker", "Spark's Python"),
        ("python -m sinkql exec pipeline.sql", "sinkql"),
        ("/venv/bin/sinkql shell", "sinkql"),
        ("postgres: checkpointer", "servers"),
        ("/usr/bin/java kafka.Kafka server.properties", "servers"),
        ("python3.11 -c pass", "Python"),
        ("git clone", "other"),
    ],
)
def test_processes_are_counted_by_what_they_run(command: str, kind: str) -> None:
    assert kind == kind_of(command)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (
            "/usr/bin/java -Xmx1g -cp a/b.jar:C.jar org.apache.spark.deploy.SparkSubmit x.Y",
            "java org.apache.spark.deploy.SparkSubmit",
        ),
        ("/venv/bin/python -I -m crash.placed a", "python -m crash.placed"),
        ("python3 tests/a/tool.py --all", "python3 tool.py"),
        ("python -c import a; b()", "python -c import a; b()"),
        ("postgres: checkpointer", "postgres"),
    ],
)
def test_a_program_is_named_by_what_its_interpreter_runs(command: str, name: str) -> None:
    assert name == name_of(command)


def test_what_a_child_used_is_counted_once(pytestconfig: pytest.Config) -> None:
    account = CpuAccount(pytestconfig)
    account._over.set()
    busy = "import sys, time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with account._lock:
            account._take()
            first = account._seconds["between tests"]["Python"]
            account._file = "again"
            for _ in range(3):
                account._take()
            (used,) = [times.own for (pid, _), times in account._seen.items() if pid == child.pid]
        child.communicate()
    assert used >= 0.4  # the kernel counts in ticks
    assert first >= used
    assert account._seconds["again"]["Python"] < used
    assert os.getpid() in {pid for pid, _ in account._seen}


def test_what_processes_used_after_their_last_sample_is_counted(pytestconfig: pytest.Config) -> None:
    account = CpuAccount(pytestconfig)
    account._over.set()
    busy = "import sys, time\nwhile time.process_time() < 0.5: pass\n"
    with account._lock:
        account._take()
    account._seconds.clear()  # of earlier tests
    subprocess.run([sys.executable, "-c", busy], check=True)  # never sampled
    later = [sys.executable, "-c", f"print(flush=True)\ninput()\n{busy}"]
    with subprocess.Popen(later, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with account._lock:
            account._take()
        child.communicate(b"\n")
        with account._lock:
            account._take()
            account._take()
    counts = account._seconds["between tests"]
    assert 0.4 <= counts["other"] < 0.8
    assert 0.4 <= counts["Python"] < 0.8


def test_a_fork_of_pytest_is_a_kind_of_its_own(pytestconfig: pytest.Config) -> None:
    account = CpuAccount(pytestconfig)
    account._over.set()
    child = os.fork()
    if not child:
        signal.pause()
    with account._lock:
        account._take()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert account._programs["between tests fork of pytest"]["processes"] == 1


def test_the_table_has_the_most_expensive_file_first_and_a_sum() -> None:
    lines = table({"a": {"sinkql": 1, "wall": 2}, "b": {"pytest": 3, "servers": 4}})
    assert [line.split()[:3] for line in lines[1:]] == [["b", "7", "0"], ["a", "1", "2"], ["all", "8", "2"]]


def test_the_table_of_programs_counts_their_processes() -> None:
    lines = programs(
        {"a git": {"CPU": 1, "processes": 2}, "b java": {"CPU": 3, "processes": 1}, "b pytest": {"CPU": 9}}
    )
    assert [line.split() for line in lines[1:]] == [["b", "java", "3.0", "1"], ["a", "git", "1.0", "2"]]
