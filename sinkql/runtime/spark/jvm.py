"""Start a JVM through Spark's script in a separate process group, and end it on request, by force, or with this
process.

The JVM reads its standard input and exits at its end, so it cannot outlive a killed process. Keys and hang-ups of a
terminal do not reach its group: the parent process decides what they mean. A process that spark-submit started runs
below a JVM that lives as long as the process: a Spark in it ends, and another may start there.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from sinkql.machine import clock
from sinkql.runtime.spark.settings import PATIENCE_SECONDS, PORT

_LOOK_SECONDS = 0.05
_SECRET = "PYSPARK_GATEWAY_SECRET"


class JvmEndedError(Exception):
    """A JVM ended before its gateway was reachable."""


class Jvm:
    """One JVM, from `start` to `end`; any thread may call `kill` at any time, even before the start."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = self._abandoned = False
        self._lock = threading.Lock()

    @property
    def killed(self) -> bool:
        """Return whether `kill` was called."""
        return self._killed

    @property
    def ended_with(self) -> int | None:
        """Return the exit code, or the negative signal, with which the JVM ended; None while it runs.

        A JVM that this process did not start counts as ended after it is abandoned.
        """
        if self._process is None:
            return 0 if self._abandoned else None
        return self._process.poll()

    def wait(self, seconds: float) -> None:
        """Wait for its end, at most this long."""
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)

    def join(self) -> JavaGateway:
        """Return the gateway of the JVM that this process was submitted to.

        A Spark that still runs there belonged to a process that died: it is stopped, and its end is awaited.
        Raises JvmEndedError.
        """
        gateway = launch_gateway()
        contexts = getattr(getattr(gateway.jvm.org.apache.spark, "SparkContext$"), "MODULE$")
        running = contexts.getActive()
        while running.isDefined():
            if self._killed:
                raise JvmEndedError
            running.get().stop()
            clock.sleep(_LOOK_SECONDS)
            running = contexts.getActive()
        return gateway

    def start(self, home: Path, properties: Path, output: IO[str], *, master: str) -> JavaGateway:
        """Start the JVM by the script in Spark's `home` with a file of settings, and return its gateway.

        Arguments in PYSPARK_SUBMIT_ARGS come before these, and the last one counts. Raises JvmEndedError.
        """
        *submitted, program = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")) or ["pyspark-shell"]
        arguments = ["--master", master, "--deploy-mode", "client", "--properties-file", str(properties)]
        with tempfile.TemporaryDirectory() as place:
            answer = Path(place) / "answer"
            with self._lock:
                if self._killed:
                    raise JvmEndedError
                self._process = subprocess.Popen(
                    [home / "bin" / "spark-submit", *submitted, *arguments, program],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env={**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer)},
                    start_new_session=True,
                )
            while not answer.exists():
                if self._process.poll() is not None:
                    raise JvmEndedError(f"Java ended with exit code {self._process.returncode}")
                clock.sleep(_LOOK_SECONDS)
            with answer.open("rb") as data:
                port, secret = read_int(data), UTF8Deserializer().loads(data)
        with _variables({PORT: str(port), _SECRET: secret}):
            return launch_gateway()

    def kill(self) -> None:
        """End the JVM and all its children immediately."""
        with self._lock:
            self._killed = True
            self._kill()

    def abandon(self) -> None:
        """End a JVM that is no longer useful, and count it as dead."""
        with self._lock:
            self._abandoned = True
            self._kill()

    def shut(self, gateway: JavaGateway) -> None:
        """Close the gateway; a JVM that this process did not start still listens, for the next Spark."""
        if self._process is not None:
            gateway.shutdown()
            return
        with suppress(Py4JError, OSError):
            # its threads here wait for the next message, and hold locks that closing needs
            gateway.java_gateway_server.getCallbackClient().shutdown()
        gateway.shutdown_callback_server()
        gateway.close(keep_callback_server=True)

    def _kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    @contextmanager
    def ending(self, *, patience: float = PATIENCE_SECONDS) -> Iterator[None]:
        """Ask the JVM to end in the block, and wait for its end; after `patience` seconds it is killed.

        A JVM that is dead or does not answer is no error here, since nothing in it is needed.
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
    """Set environment variables for the block; processes started in other threads then do not need them."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value
