"""Spark's script → a JVM that has a process group of its own, and ends at a word, by force, or with this process.

The JVM reads its standard input and exits at its end, so none outlives a process that was killed. Keys and hang-ups of
a terminal do not reach its group: the process that started it decides what they mean. A process that spark-submit
started came from a JVM itself, which stays as long as that process: a Spark in it ends, and another may begin there.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

_LOOK_SECONDS = 0.05
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
PATIENCE_SECONDS = 30.0


class JvmEndedError(Exception):
    """Say that a JVM ended before it could be spoken with."""


def submitted() -> bool:
    """Tell whether a JVM started this process, as spark-submit does, and listens to it."""
    return _PORT in os.environ


class Jvm:
    """One JVM, from `start` to `end`; `kill` may be called at any time, by any thread, and before it starts."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = self._abandoned = False
        self._lock = threading.Lock()

    @property
    def killed(self) -> bool:
        """Tell whether somebody killed it."""
        return self._killed

    @property
    def ended_with(self) -> int | None:
        """Return the exit code, or the negative signal, with which it ended; None where it has not.

        One that is not this process's own has ended for it once it is abandoned.
        """
        if self._process is None:
            return 0 if self._abandoned else None
        return self._process.poll()

    def wait(self, seconds: float) -> None:
        """Wait for its end, but not for longer."""
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)

    def join(self) -> JavaGateway:
        """Return the way to the one that this process was submitted to.

        A Spark that runs there was that of a process that died, and is stopped; one that is ending already is waited
        for. Raises JvmEndedError.
        """
        gateway = launch_gateway()
        contexts = getattr(getattr(gateway.jvm.org.apache.spark, "SparkContext$"), "MODULE$")
        running = contexts.getActive()
        while running.isDefined():
            if self._killed:
                raise JvmEndedError
            running.get().stop()
            time.sleep(_LOOK_SECONDS)
            running = contexts.getActive()
        return gateway

    def start(self, home: Path, properties: Path, output: IO[str], *, master: str) -> JavaGateway:
        """Start it by the script of Spark's `home`, with a file of settings, and return the way to it.

        Arguments of PYSPARK_SUBMIT_ARGS come before these: the last one counts. Raises JvmEndedError.
        """
        *submitted, program = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")) or ["pyspark-shell"]
        own = ["--master", master, "--deploy-mode", "client", "--properties-file", str(properties)]
        with tempfile.TemporaryDirectory() as place:
            answer = Path(place) / "answer"
            with self._lock:
                if self._killed:
                    raise JvmEndedError
                self._process = subprocess.Popen(
                    [home / "bin" / "spark-submit", *submitted, *own, program],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env={**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer)},
                    start_new_session=True,
                )
            while not answer.exists():
                if self._process.poll() is not None:
                    raise JvmEndedError(f"Java ended with exit code {self._process.returncode}")
                time.sleep(_LOOK_SECONDS)
            with answer.open("rb") as told:
                port, secret = read_int(told), UTF8Deserializer().loads(told)
        with _variables({_PORT: str(port), _SECRET: secret}):
            return launch_gateway()

    def kill(self) -> None:
        """End it and all that it started at once."""
        with self._lock:
            self._killed = True
            self._kill()

    def abandon(self) -> None:
        """End one that is of no use any more, which is seen as its death."""
        with self._lock:
            self._abandoned = True
            self._kill()

    def shut(self, gateway: JavaGateway) -> None:
        """Close the way to it; one that is not this process's own still listens, to the next."""
        if self._process is not None:
            gateway.shutdown()
            return
        with suppress(Py4JError, OSError):
            # whose threads here wait for its next word, and hold what closing them would take
            gateway.java_gateway_server.getCallbackClient().shutdown()
        gateway.shutdown_callback_server()
        gateway.close(keep_callback_server=True)

    def _kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    @contextmanager
    def ending(self, *, patience: float = PATIENCE_SECONDS) -> Iterator[None]:
        """Let the block ask it to end, and see to it that it has: what takes longer than `patience` seconds is killed.

        A JVM that is dead or does not answer is no error here: there is nothing in it that anybody needs.
        """
        late = threading.Timer(patience, self.kill)
        late.daemon = True
        late.start()
        try:
            with suppress(Py4JError, OSError):
                yield
            if self._process is not None:
                assert self._process.stdin is not None
                with suppress(OSError):
                    self._process.stdin.close()
                self._process.wait()
        finally:
            late.cancel()


@contextmanager
def _variables(wanted: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment, which no process started meanwhile needs to see."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value
