"""A Spark standalone cluster of a master and workers, which share only the network with the driver.

Executors unpack the driver's archive. With the settings `INSTALLED`, they use packages unpacked once for all tests.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sinkql.runtime.spark.package import cached_archives
from support.java import java
from support.machine import SPARK, SPARK_THERE, WORK, Machine
from support.patience import PATIENCE_S, Deadline
from support.port import held_ports

_LOCALHOST = "127.0.0.1"
_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
SECRET_VARIABLE = "_SPARK_AUTH_SECRET"
"""The variable by which Spark's own programs pass on the secret of `spark.authenticate`."""
_PACKAGES = "/opt/sinkql"
INSTALLED = {"spark.archives": "", "spark.executorEnv.PYTHONPATH": _PACKAGES}
"""Settings of an application whose executors do not unpack an archive."""
_LOOK_S = 0.05
_CLASS = "org.apache.spark.deploy.{}"


@dataclass(slots=True)
class Worker(Machine):
    """A worker with its executors; `start` begins a new one at its address, `kill` ends it like a power cut."""

    number: int
    master: str
    packages: Path
    cores: int
    memory: str
    secret: str

    @property
    def host(self) -> str:
        """Return its unique address: Spark reads blocks of the same host from its folders."""
        return f"127.0.0.{self.number + 2}"

    def start(self) -> None:
        """Start the worker with empty folders."""
        self.run(
            [
                *(java(), *_JAVA, "-Dspark.decommission.enabled=true", *_settings(self.secret)),
                *(
                    "-cp",
                    f"{SPARK_THERE}/jars/*",
                    _CLASS.format("worker.Worker"),
                    "--host",
                    self.host,
                    "--webui-port",
                    "0",
                ),
                *("--cores", str(self.cores), "--memory", self.memory, "--work-dir", f"{WORK}/work", self.master),
            ],
            {
                "SPARK_HOME": SPARK_THERE,
                "SPARK_SCALA_VERSION": "2.13",  # as Spark's own scripts set it
                "SPARK_LOCAL_DIRS": f"{WORK}/local",
                "SPARK_LOCAL_IP": self.host,
                **_environment(self.secret),
            },
            {self.packages: _PACKAGES},
        )

    def decommission(self) -> None:
        """Decommission the worker: it accepts no new work, and its executors migrate their blocks and end."""
        os.kill(self.first, signal.SIGPWR)

    def executor_logs(self) -> str:
        """Return the output of its executors, for the message of a failed test."""
        found = self.root.glob(f"{WORK[1:]}/work/*/*/stderr")
        return "\n".join(path.read_text(errors="replace") for path in found)


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A master with its workers; `port` is the port of its web pages."""

    url: str
    port: int
    workers: Sequence[Worker]
    folder: Path
    secret: str
    _master: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_master(self, *options: str) -> None:
        """Start the master with these options of Java."""
        _, _, port = self.url.rpartition(":")
        jvm = [java(), *_JAVA, *options, "-Dspark.port.maxRetries=0", *_settings(self.secret)]
        jvm += ["-cp", f"{SPARK}/jars/*", _CLASS.format("master.Master")]
        with self.folder.joinpath("master.log").open("ab") as log:
            self._master.append(
                subprocess.Popen(
                    [*jvm, "--host", _LOCALHOST, "--port", port, "--webui-port", str(self.port)],
                    env={**os.environ, "SPARK_LOCAL_IP": _LOCALHOST, **_environment(self.secret)},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def kill_master(self) -> None:
        """Kill the master."""
        while self._master:
            process = self._master.pop()
            process.kill()
            process.wait(PATIENCE_S)

    def restart_master(self, *options: str) -> None:
        """Kill the master, start a new one, and wait until all live workers have found it."""
        self.kill_master()
        self.start_master(*options)
        self.wait_for_workers(sum(worker.alive for worker in self.workers))

    def applications(self) -> list[str]:
        """Return the ids of the running applications, as the master knows them."""
        return [each["id"] for each in self.state()["activeapps"]]

    def state(self) -> dict[str, Any]:
        """Return the state of the master; raise OSError if it does not answer."""
        with urllib.request.urlopen(f"http://{_LOCALHOST}:{self.port}/json/", timeout=PATIENCE_S) as reply:
            found: dict[str, Any] = json.load(reply)
        return found

    def wait_for_workers(self, number: int) -> None:
        """Wait until the master knows this number of live workers."""
        self._wait(lambda: self._alive() == number, f"{number} workers")

    def wait_for_cores(self, number: int) -> None:
        """Wait until executors have this number of cores."""
        self._wait(lambda: self.state()["coresused"] == number, f"{number} cores in use")

    def _wait(self, until: Callable[[], bool], what: str) -> None:
        deadline = Deadline()
        while not until():
            deadline.check(what)
            assert self._master
            with suppress(subprocess.TimeoutExpired):
                code = self._master[0].wait(_LOOK_S)
                raise AssertionError(f"the master ended with {code}\n{(self.folder / 'master.log').read_text()}")

    def stop(self) -> None:
        """Kill the workers and the master."""
        for worker in self.workers:
            worker.kill()
        self.kill_master()

    def _alive(self) -> int | None:
        try:
            return [worker["state"] for worker in self.state()["workers"]].count("ALIVE")
        except OSError:
            return None


@contextmanager
def spark_cluster(
    folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "2g", secret: str = "", unpacked: bool = True
) -> Iterator[SparkCluster]:
    """Run a cluster until the block ends; each worker offers `cores` and `memory` to executors.

    With a `secret`, all participants must have it, and their traffic is encrypted. The settings `INSTALLED` need
    `unpacked` packages.
    """
    packages = folder / "packages"
    packages.mkdir(parents=True)
    for archive in cached_archives() if unpacked else ():
        with zipfile.ZipFile(archive) as packed_files:
            packed_files.extractall(packages)
    with held_ports(2) as (port, pages):
        url = f"spark://{_LOCALHOST}:{port}"
        each = [
            Worker(folder / f"worker{number}", number, url, packages, cores, memory, secret)
            for number in range(workers)
        ]
        cluster = SparkCluster(url, pages, each, folder, secret)
        try:
            cluster.start_master()
            for worker in each:
                worker.start()
            cluster.wait_for_workers(workers)
            yield cluster
        finally:
            cluster.stop()


def _settings(secret: str) -> list[str]:
    return ["-Dspark.authenticate=true", "-Dspark.network.crypto.enabled=true"] if secret else []


def _environment(secret: str) -> dict[str, str]:
    return {SECRET_VARIABLE: secret} if secret else {}
