"""A Spark standalone cluster of a master and workers that share nothing but the network with whoever drives it.

Each worker is process 1 of a PID namespace, and sees a root folder of its own: the system's programs, Java, the Python
below the virtual environment and the jars of pyspark, all of which can only be read, and folders in memory. Neither
SinkQL nor its dependencies, nor any other folder of this machine, are where its Python looks: executors unpack the
archive of a driver, or, as `INSTALLED` tells them, find what was unpacked for all tests. Where it is killed, all of its
executors and their Python workers end with it.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark

from sinkql.runtime.spark.java import check_java
from sinkql.runtime.spark.package import packed
from support.namespace import child, processes
from support.patience import PATIENCE_S, Deadline
from support.port import held_ports

_LOCALHOST = "127.0.0.1"
_SPARK = Path(pyspark.__file__).parent
_REPOSITORY = Path(__file__).parents[2]
_SYSTEM = ("bin", "etc", "lib", "lib32", "lib64", "sbin", "usr")
_HOME, _THERE, _WORK, _PRIVATE = "/home/spark", "/opt/spark", "/var/spark", ("tmp", "run", "home/spark", "var/spark")
_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_PACKAGES = "/opt/sinkql"
INSTALLED = {"spark.archives": "", "spark.executorEnv.PYTHONPATH": _PACKAGES}
"""Settings of an application whose executors need not unpack an archive."""
_LOOK_S = 0.05
_CLASS = "org.apache.spark.deploy.{}"


@dataclass(slots=True)
class Worker:
    """A worker with its executors; `start` begins a new one of the same place, `kill` ends it as a power cut does."""

    number: int
    master: str
    folder: Path
    packages: Path
    cores: int
    memory: str
    _process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        """Return its address, which no other one has: Spark reads blocks of the same host from its folders."""
        return f"127.0.0.{self.number + 2}"

    @property
    def first(self) -> int:
        """Return the id of its first process, of which the others come."""
        assert self._process is not None
        found = child(self._process.pid)
        assert found is not None, self.log
        return found

    @property
    def alive(self) -> bool:
        """Tell whether it was started, and was not killed since."""
        return self._process is not None

    @property
    def root(self) -> Path:
        """Return its root folder, as long as it runs."""
        return Path(f"/proc/{self.first}/root")

    @property
    def log(self) -> str:
        """Return what it printed."""
        return self.folder.with_suffix(".log").read_text(errors="replace")

    def start(self) -> None:
        """Start it, with nothing in its folders."""
        assert self._process is None
        self.folder.mkdir(parents=True, exist_ok=True)
        java = [
            *(
                _java(),
                *_JAVA,
                "-Dspark.decommission.enabled=true",
                "-cp",
                f"{_THERE}/jars/*",
                _CLASS.format("worker.Worker"),
            ),
            *("--host", self.host, "--webui-port", "0", "--cores", str(self.cores), "--memory", self.memory),
            *("--work-dir", f"{_WORK}/work", self.master),
        ]
        with self.folder.with_suffix(".log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"),
                    *("sh", "-c", _entered(self.folder, self.packages, self._environment(), java)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def decommission(self) -> None:
        """Tell it that it will go: it takes no more work, and its executors hand on what they have, and end."""
        os.kill(self.first, signal.SIGPWR)

    def kill(self) -> None:
        """Kill all of its processes, and wait until none is left."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.kill(child(process.pid) or process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)

    def processes(self) -> list[int]:
        """Return all of its processes, by the numbers that they have here."""
        return processes(self.first)

    def executors(self) -> list[int]:
        """Return the processes of its executors, without those of Python that they have."""
        found = []
        for pid in self.processes():
            with suppress(OSError):
                if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found

    def executor_logs(self) -> str:
        """Return what its executors printed, for a test that fails."""
        found = self.root.glob(f"{_WORK[1:]}/work/*/*/stderr")
        return "\n".join(path.read_text(errors="replace") for path in found)

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.base_prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "HOME": _HOME,
            "TMPDIR": "/tmp",
            "LANG": "C.UTF-8",
            "SPARK_HOME": _THERE,
            "SPARK_SCALA_VERSION": "2.13",  # as Spark's own scripts set it
            "SPARK_LOCAL_DIRS": f"{_WORK}/local",
            "SPARK_LOCAL_IP": self.host,
        }


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """A master with its workers; `port` is that of its own web pages."""

    url: str
    port: int
    workers: Sequence[Worker]
    folder: Path
    _master: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_master(self, *options: str) -> None:
        """Start the master, with options of Java."""
        _, _, port = self.url.rpartition(":")
        jvm = [_java(), *_JAVA, *options, "-Dspark.port.maxRetries=0"]
        jvm += ["-cp", f"{_SPARK}/jars/*", _CLASS.format("master.Master")]
        with self.folder.joinpath("master.log").open("ab") as log:
            self._master.append(
                subprocess.Popen(
                    [*jvm, "--host", _LOCALHOST, "--port", port, "--webui-port", str(self.port)],
                    env={**os.environ, "SPARK_LOCAL_IP": _LOCALHOST},
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
        """Kill the master, and start another one, which all workers that live find."""
        self.kill_master()
        self.start_master(*options)
        self.wait_for_workers(sum(worker.alive for worker in self.workers))

    def applications(self) -> list[str]:
        """Return the ids of the applications that the master knows and that have not ended."""
        return [each["id"] for each in self.state()["activeapps"]]

    def state(self) -> dict[str, Any]:
        """Return what the master knows; raises OSError."""
        with urllib.request.urlopen(f"http://{_LOCALHOST}:{self.port}/json/", timeout=PATIENCE_S) as reply:
            found: dict[str, Any] = json.load(reply)
        return found

    def wait_for_workers(self, number: int) -> None:
        """Wait until the master knows so many workers that live."""
        self._wait(lambda: self._alive() == number, f"{number} workers")

    def wait_for_cores(self, number: int) -> None:
        """Wait until executors have so many cores."""
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
        """Kill all."""
        for worker in self.workers:
            worker.kill()
        self.kill_master()

    def _alive(self) -> int | None:
        try:
            return [worker["state"] for worker in self.state()["workers"]].count("ALIVE")
        except OSError:
            return None


@contextmanager
def spark_cluster(folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "2g") -> Iterator[SparkCluster]:
    """Run a cluster until the block ends; `cores` and `memory` are what a worker gives to executors."""
    packages = folder / "packages"
    packages.mkdir(parents=True)
    for archive in packed():
        with zipfile.ZipFile(archive) as packed_files:
            packed_files.extractall(packages)
    with held_ports(2) as (port, pages):
        url = f"spark://{_LOCALHOST}:{port}"
        each = [Worker(number, url, folder / f"worker{number}", packages, cores, memory) for number in range(workers)]
        cluster = SparkCluster(url, pages, each, folder)
        try:
            cluster.start_master()
            for worker in each:
                worker.start()
            cluster.wait_for_workers(workers)
            yield cluster
        finally:
            cluster.stop()


def _java() -> str:
    found = shutil.which(check_java())
    assert found is not None
    return str(Path(found).resolve())


def _entered(root: Path, packages: Path, environment: dict[str, str], command: Sequence[str]) -> str:
    """Return a script that fills a root folder, in a mount namespace of its own, and runs a command there."""
    lines = ["set -e", f"mount -t tmpfs -o mode=755 root {_q(root)}", f"cd {_q(root)}"]
    lines += [f"mkdir -p {name}" for name in ("proc", "dev", *_PRIVATE)]
    for name in _SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            lines.append(f"ln -s {_q(os.readlink(path))} {name}")
        elif path.is_dir():
            lines += _shown(path, path)
    # a Python, or a Java, that is not the system's
    for path in (Path(sys.base_prefix), Path(_java()).parents[1]):
        if not path.is_relative_to("/usr"):
            lines += _shown(path, path)
    lines += [*_shown(_SPARK, Path(_THERE)), *_shown(packages, Path(_PACKAGES))]
    lines += ["mount --rbind /dev dev", "mount -t tmpfs shm dev/shm", "mount -t proc proc proc"]
    for path in (_REPOSITORY, Path(sys.prefix)):
        if any(path.is_relative_to(f"/{name}") for name in _SYSTEM):
            lines.append(f"mount -t tmpfs hidden .{_q(path)}")
    variables = [f"{name}={value}" for name, value in environment.items()]
    lines.append(f"exec chroot . /usr/bin/env -i --chdir={_HOME} {shlex.join([*variables, *command])}")
    return "\n".join(lines)


def _shown(path: Path, there: Path) -> list[str]:
    """Return what lets a folder of this machine be read below the root folder."""
    place = f".{_q(there)}"
    return [f"mkdir -p {place}", f"mount -o bind,ro {_q(path)} {place}"]


def _q(path: Path | str) -> str:
    return shlex.quote(str(path))
