"""Interrupt starts of Spark at each stage, in each way, one process per case: python interrupted.py FOLDER."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from pyspark import SparkContext

from sinkql.runtime.spark.adhoc import AdhocSpark
from sinkql.runtime.spark.session import SparkStart
from sinkql.runtime.spark.settings import CancelledError
from support.patience import PATIENCE_S, Deadline

_EARLY = ("begun", "script", "java")
_LATE = (("connected", "cancel"), ("context", "interrupt"), ("context", "kill"))
CASES = [*((stage, way) for way in ("cancel", "interrupt", "kill") for stage in _EARLY), *_LATE]


def main(folder: Path) -> int:
    """Run all cases in sequence; return how many failed."""
    return sum(_forked(stage, way, folder / str(number)) for number, (stage, way) in enumerate(CASES))


def _forked(stage: str, way: str, folder: Path) -> bool:
    """Run a case in a fork; return whether it failed."""
    pid = os.fork()
    if pid == 0:
        os._exit(_interrupted(stage, way, folder))
    _, status = os.waitpid(pid, 0)
    failed = status != (signal.SIGKILL if way == "kill" else 0)
    if failed:
        print(f"{way} at {stage}: {os.waitstatus_to_exitcode(status)}", flush=True)
    return failed


def _interrupted(stage: str, way: str, folder: Path) -> int:
    adhoc = AdhocSpark(folder)
    starting = SparkStart(adhoc._settings)
    if way == "cancel":
        starting.begin()
        _wait(stage, adhoc._settings.folder, starting)
        starting.end()
        try:
            starting.result(PATIENCE_S)
        except CancelledError:
            return 0
        return 1
    signals = {"interrupt": signal.SIGINT, "kill": signal.SIGKILL}

    def interrupt() -> None:
        _wait(stage, adhoc._settings.folder, adhoc)
        os.kill(os.getpid(), signals[way])

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        adhoc.query("SELECT 1 AS a", {})
    except KeyboardInterrupt:
        adhoc.close()
        return 0
    return 1


def _wait(stage: str, folder: Path, owner: SparkStart | AdhocSpark) -> None:
    """Wait until a start reaches a stage."""

    def command() -> str:
        starting = owner if isinstance(owner, SparkStart) else owner._starting
        process = None if starting is None else starting._jvm._process
        try:
            return "" if process is None else Path(f"/proc/{process.pid}/cmdline").read_text()
        except OSError:
            return ""

    stages: dict[str, Callable[[], bool]] = {
        "begun": (folder / "conf").exists,
        "script": lambda: command() != "",
        "java": lambda: "SparkSubmit" in command(),
        "connected": lambda: SparkContext._gateway is not None,
        "context": (folder / "local").exists,
    }
    looks, deadline = threading.Event(), Deadline()
    while not stages[stage]():
        deadline.check(f"the stage {stage}")
        looks.wait(0.002)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells make background processes ignore SIGINT
    sys.exit(main(Path(sys.argv[1])))
