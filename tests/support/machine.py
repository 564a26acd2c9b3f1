"""A machine of its own for a program: process 1 of a PID namespace, with a root folder in which little is.

It sees the system's programs, Java, the Python below the virtual environment and the jars of pyspark, all of which can
only be read, and folders in memory. Neither SinkQL nor its dependencies, nor any other folder of this machine, are
there. Where it is killed, all that the program started ends with it.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import pyspark

from sinkql.runtime.spark.java import check_java
from support.java import java
from support.namespace import child, processes
from support.patience import PATIENCE_S

SPARK = Path(pyspark.__file__).parent
SPARK_THERE = "/opt/spark"
_JAVA_THERE = "/opt/java"
WORK = "/var/spark"
"""A folder that the program may fill."""
_REPOSITORY = Path(__file__).parents[2]
_SYSTEM = ("bin", "etc", "lib", "lib32", "lib64", "sbin", "usr")
_HOME, _PRIVATE = "/home/spark", ("tmp", "run", "home/spark", "var/spark")


@dataclass(slots=True)
class Machine:
    """Hold it, as long as its program runs; what it printed is beside `folder`, in which nothing is seen from here."""

    folder: Path
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

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

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        shown: Mapping[Path, str] = MappingProxyType({}),
    ) -> None:
        """Run a program there; the folders `shown` can be read at these places."""
        assert self._process is None
        self.folder.mkdir(parents=True, exist_ok=True)
        variables = {
            "PATH": f"{Path(sys.base_prefix) / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "HOME": _HOME,
            "TMPDIR": "/tmp",
            "LANG": "C.UTF-8",
            **self._java(),
            **environment,
        }
        if "SINKQL_JAVA" in variables:
            shown = {**shown, Path(check_java().environment["JAVA_HOME"]): _JAVA_THERE}
        with self.folder.with_suffix(".log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child"),
                    *("sh", "-c", _entered(self.folder, variables, command, shown)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _java(self) -> dict[str, str]:
        """Return the variables with which Spark there starts a Java that lacks what it names."""
        found = check_java().environment
        return {**found, "JAVA_HOME": _JAVA_THERE} if "SINKQL_JAVA" in found else {}

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


def _entered(root: Path, environment: Mapping[str, str], command: Sequence[str], shown: Mapping[Path, str]) -> str:
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
    for path in (Path(sys.base_prefix), Path(java()).parents[1]):
        if not path.is_relative_to("/usr"):
            lines += _shown(path, path)
    for path, there in {SPARK: SPARK_THERE, **shown}.items():
        lines += _shown(path, Path(there))
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
