"""Start `sinkql` as a process of its own by a fork of a process that has imported it, instead of by an interpreter.

The forked process has its own session, environment, folder and standard streams, and can be killed like any other.
What differs from `python -m sinkql` is that the imports are done; tests of the start itself do not use this.
"""

from __future__ import annotations

import atexit
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

from support.fork_order import exit_code, fork

_TESTS = Path(__file__).parents[1]
_FIXED = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "OPENBLAS_", "OMP_", "ARROW_")
"""Prefixes of variables that an interpreter or a library reads when it starts."""
_FREE = "PYTHONPATH"


def can_fork(environment: Mapping[str, str]) -> bool:
    """Return whether a forked process would behave like one that starts with these variables."""
    names = {name for name in (*environment, *os.environ) if name.startswith(_FIXED) and name != _FREE}
    return _has_pidfd() and all(environment.get(name) == os.environ.get(name) for name in names)


@cache
def _has_pidfd() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):  # not Linux, or refused by a sandbox
        return False
    return True


class ForkedProcess:
    """A running `sinkql`, with the attributes and methods of `subprocess.Popen` that tests use; streams are text."""

    def __init__(
        self,
        arguments: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        *,
        stdin: bool = False,
        python: str = sys.executable,
    ) -> None:
        self.args = ["sinkql", *arguments]
        self.returncode: int | None = None
        self.stdin: IO[str] | None = None
        given = os.open(os.devnull, os.O_RDONLY)
        if stdin:
            os.close(given)
            given, written = os.pipe()
            self.stdin = os.fdopen(written, "w", encoding="utf-8")
        read, output = os.pipe()
        self.stdout = os.fdopen(read, "r", encoding="utf-8", errors="replace")
        read, errors = os.pipe()
        self.stderr = os.fdopen(read, "r", encoding="utf-8", errors="replace")
        self._lock = threading.Lock()
        self._reading: list[threading.Thread] | None = None
        self._texts = ["", ""]
        streams = (given, output, errors)
        self._connection, self.pid = fork(server(python), arguments, str(folder), environment, streams)
        for file in streams:
            os.close(file)

    def poll(self) -> int | None:
        """Return the exit code; None while the process runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code when the process ends; raise `subprocess.TimeoutExpired`."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def communicate(self, text: str | None = None, timeout: float | None = None) -> tuple[str, str]:
        """Write the input, and return the output and the errors at the end; raise `subprocess.TimeoutExpired`."""
        deadline = None if timeout is None else time.monotonic() + timeout

        def left() -> float | None:
            return None if deadline is None else max(0.0, deadline - time.monotonic())

        if self._reading is None:
            self._reading = [
                threading.Thread(target=self._read, args=(stream, place), daemon=True)
                for place, stream in enumerate((self.stdout, self.stderr))
            ]
            for thread in self._reading:
                thread.start()
            if self.stdin is not None:
                with suppress(BrokenPipeError), self.stdin:
                    self.stdin.write(text or "")
        for thread in self._reading:
            thread.join(left())
            if thread.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        self.wait(left())
        return self._texts[0], self._texts[1]

    def _read(self, stream: IO[str], place: int) -> None:
        with stream:
            self._texts[place] = stream.read()

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the process to end."""
        self.send_signal(signal.SIGTERM)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None:  # without the lock: another thread may look, or kill the process
            select.select([self._connection], [], [], timeout)
        with self._lock:
            if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
                self.returncode = exit_code(self._connection)
            return self.returncode


def command() -> tuple[str, ...]:
    """Return a program that is `sinkql`, for shells: it passes signals on, and ends with the exit code."""
    return sys.executable, "-I", "-S", str(Path(__file__).with_name("fork_order.py")), server()


@cache
def server(python: str = sys.executable) -> str:
    """Start the process that forks; return the path of its socket. Another Python imports only its own packages."""
    path = Path(tempfile.mkdtemp(prefix="forked-")) / "socket"
    own = [os.environ.get("PYTHONPATH", "")] if python == sys.executable else []
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(_TESTS), *own])}
    command = [python, "-m", "support.fork_server", str(path)]
    process = subprocess.Popen(
        command,
        cwd=_TESTS,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline(), "the process that forks did not start"
    atexit.register(shutil.rmtree, path.parent, ignore_errors=True)
    atexit.register(process.wait)
    atexit.register(process.stdin.close)
    return str(path)
