"""Run a pipeline's sink without Spark until it is caught up, like `exec --once`.

As a program, it reads orders as JSON lines and forks a process for each, which runs a sink. The slow imports happen
only once. The forked process can be killed, stopped or failed without effect on the parent.
"""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from crash.pipeline import Pipeline, write_input
from sinkql.connector_api.stream import Context, JobOffsets
from sinkql.connectors.files import split_rows
from sinkql.connectors.iceberg.commit.proposal import publish
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.attempt import OutdatedStartError
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.batch.pacing import Pacer, PacingOrders
from sinkql.runtime.local.engine import LocalEngine
from sinkql.storage import failpoint
from support.eager import compact_eagerly, expire_hastily
from support.fault import armed
from support.forking import needed_threads
from support.running import loop_of

_TRIES = 6


def open_loop(pipeline: Pipeline, buckets: int = 2) -> BatchLoop:
    """Return the batch loop of a pipeline, not started."""
    job, registry = pipeline.job(), pipeline.registry()
    pipeline.state.mkdir(parents=True, exist_ok=True)
    context = Context(job.sink, job.sink_id, pipeline.state, lambda _: "")
    loop = loop_of(job, context, registry, engine=LocalEngine(buckets))
    loop.maintenance.budget.share = 1e9  # due maintenance always runs, even on a slow machine
    return loop


def run(pipeline: Pipeline, *, again: str = "never") -> int:
    """Run the sink until it is caught up; return the number of failed batches.

    After a failure, `again` "batch" retries the batch on the same loop, and "claim" starts again with a new claim.
    A running sink does either, depending on the error.
    """
    failures = 0
    while True:
        loop = open_loop(pipeline)
        try:
            loop.start(epoch=1, once=True)
            if loop.needs_full_refresh():
                loop.full_refresh()
            failures += drain(loop, _TRIES if again == "batch" else 1)
            for each in pipeline.then:
                _then(each, loop)
            return failures
        except (failpoint.FaultError, OutdatedStartError):
            failures += 1
            if again == "never" or failures > _TRIES:
                raise


def _then(deed: str, loop: BatchLoop) -> None:
    """Run the action of a statement on the sink's table."""
    if deed == "publish":
        publish(loop.job.write, Context(loop.job.sink, loop.job.sink_id, loop.folder, lambda _: ""))
        return
    if deed == "replay":
        loop.dead_letters.replay(loop.job.reads()[0])
        return
    while not loop.maintenance.optimize(lambda: True)[1]:
        pass


def drain(loop: BatchLoop, tries: int, done: Callable[[], None] = lambda: None) -> int:
    """Process batches until the loop is caught up, retrying each; return the number of failed attempts."""
    pacer = Pacer(loop.readers)
    orders = PacingOrders(loop.checkpoint.end, timedelta(0), loop.job.max_rows_per_commit, loop.targets)
    failures = 0
    while not loop.caught_up():
        start = loop.checkpoint.end
        failures += _process(loop, start, pacer.next_end(start, orders, time.time_ns() // 1_000_000), tries)
        done()
    return failures


def _process(loop: BatchLoop, start: JobOffsets, end: JobOffsets, tries: int) -> int:
    for failed in range(tries):
        try:
            loop.commit_batch(start, end)
            return failed
        except failpoint.FaultError:
            if failed == tries - 1:
                raise
    raise AssertionError("unreachable")


def _lenient(block: bytes, before: int) -> BytesIO:
    return BytesIO(re.sub(rb'"bad (\d+)"', rb"\1", block))


def _child(order: dict[str, Any], log: Path) -> int:
    """Run one order and write its outcome to a file, unless the process is killed."""
    os.environ.update(armed(order["failpoints"] or "none=fail"))
    pipeline = Pipeline(Path(order["folder"]), **order["pipeline"])
    if pipeline.eager:
        compact_eagerly(pytest.MonkeyPatch())  # affects only this process
    if pipeline.hasty:
        expire_hastily(pytest.MonkeyPatch())
    if pipeline.lenient:
        pytest.MonkeyPatch().setattr(split_rows, "text_of", _lenient)
    told: dict[str, Any] = {"code": None, "failures": 0}
    try:
        told["failures"] = run(pipeline, again=order["again"])
        status = 0
    except SinkqlError as error:
        told["code"], told["message"], status = error.code, str(error), error.exit_code
    except failpoint.FaultError as error:
        told["code"], status = str(error), 70
    except BaseException:
        log.write_text(traceback.format_exc())
        status = 71
    told["passes"] = failpoint._passes
    Path(order["told"]).write_text(json.dumps(told))
    return status


def serve() -> None:
    """Fork a process for each order; reply when it ends or stops, and again after `resume`."""
    with TemporaryDirectory() as folder:  # every fork inherits the imports and caches of this run
        write_input(Path(folder))
        run(Pipeline(Path(folder), "chain"))
    assert needed_threads() == [], "threads are running, which a fork would not copy"
    gc.freeze()
    processes: dict[str, int] = {}
    for line in sys.stdin:
        order = json.loads(line)
        name = order["told"]
        if order.get("resume"):
            os.kill(processes[name], signal.SIGCONT)
        else:
            processes[name] = os.fork()
            if not processes[name]:
                sys.stdin.close()
                os._exit(_child(order, Path(f"{name}.log")))
        _, status = os.waitpid(processes[name], os.WUNTRACED)
        answer = "stopped" if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
