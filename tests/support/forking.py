"""A program that forks for each order, and its client: processes that start fast and may be killed.

The slow imports run once, before the forks. A forked process can be killed like any other. Orders are lines of JSON.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SIGNALS = {"stop": signal.SIGSTOP, "continue": signal.SIGCONT, "tell": signal.SIGUSR1}
FAILED = 70


@dataclass
class Children:
    """A program that forks."""

    program: subprocess.Popen[str]

    def order(self, **order: Any) -> Any:
        """Send an order; return the answer."""
        assert self.program.stdin is not None
        assert self.program.stdout is not None
        self.program.stdin.write(json.dumps(order) + "\n")
        self.program.stdin.flush()
        return json.loads(self.program.stdout.readline())


@contextmanager
def children_of(module: str) -> Iterator[Children]:
    """Run a module of the tests that calls `serve`."""
    tests = Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tests), *sys.path])}
    with subprocess.Popen(
        [sys.executable, "-m", module], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        yield Children(program)
        assert program.stdin is not None
        program.stdin.close()


def needed_threads() -> list[threading.Thread]:
    """Return the other threads of this process that a fork would lack; it starts those that sync files itself."""
    others = (thread for thread in threading.enumerate() if thread is not threading.current_thread())
    return [thread for thread in others if not thread.name.startswith("sync_")]


def serve(run: Callable[[dict[str, Any]], int]) -> None:
    """Fork for each order to start, and print the process id; poll, await, kill or signal it for other orders.

    `run` takes the order and returns the exit code. The traceback of its exception goes to the file that the order
    names as `log`. On a `tell` order, the stacks of its threads go to a file with that name and ".<process id>".
    """
    assert needed_threads() == [], "a fork has no other threads"
    gc.freeze()
    living = set[int]()
    for line in sys.stdin:
        order = json.loads(line)
        match order["do"]:
            case "start":
                pid = os.fork()
                if not pid:
                    os._exit(_child(run, order))
                living.add(pid)
                answer: int | None = pid
            case "poll":
                answer = _ended(living, order["pid"], os.WNOHANG)
            case "wait":
                answer = _ended(living, order["pid"], 0)
            case "kill":  # unless the process has already been reaped
                answer = _killed(living, order["pid"]) if order["pid"] in living else None
            case what:
                os.kill(order["pid"], _SIGNALS[what])
                answer = None
        print(json.dumps(answer), flush=True)
    for pid in living:  # left over from a test that failed
        os.kill(pid, signal.SIGKILL)


def _ended(living: set[int], pid: int, flags: int) -> int | None:
    found, status = os.waitpid(pid, flags)
    living.discard(found)
    return os.waitstatus_to_exitcode(status) if found else None


def _killed(living: set[int], pid: int) -> int | None:
    os.kill(pid, signal.SIGKILL)
    return _ended(living, pid, 0)


def _child(run: Callable[[dict[str, Any]], int], order: dict[str, Any]) -> int:
    sys.stdin.close()
    where = os.open(f"{order['log']}.{os.getpid()}", os.O_CREAT | os.O_WRONLY)
    faulthandler.register(signal.SIGUSR1, where)
    try:
        return run(order)
    except BaseException:
        Path(order["log"]).write_text(traceback.format_exc())
        return FAILED
