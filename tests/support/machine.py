"""A separate machine for a program: process 1 of a PID namespace, with a nearly empty root folder.

The program has read-only access to the system's programs, Java, the Python below the virtual environment and the jars
of pyspark; it can write to folders in memory. SinkQL, its dependencies and all other folders of this machine are
hidden. If the program is killed, all processes that it started end with it.
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
"""A folder in which the program can write."""
_REPOSITORY = Path(__file__).parents[2]
_SYSTEM = ("bin", "etc", "lib", "lib32", "lib64", "sbin", "usr")
_HOME, _PRIVATE = "/home/spark", ("tmp", "run", "home/spark", "var/spark")


@dataclass(slots=True)
class Machine:
    """A machine that runs one program at a time; `folder` looks empty from outside, and the log is beside it."""

    folder: Path
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def first(self) -> int:
        """Return the id of its first process, the ancestor of all others."""
        assert self._process is not None
        found = child(self._process.pid)
        assert found is not None, self.log
        return found

    @property
    def alive(self) -> bool:
        """Return whether it was started and has not been killed since."""
        return self._process is not None

    @property
    def root(self) -> Path:
        """Return its root folder, which exists while it runs."""
        return Path(f"/proc/{self.first}/root")

    @property
    def log(self) -> str:
        """Return the program's output."""
        return self.folder.with_suffix(".log").read_text(errors="replace")

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        shown: Mapping[Path, str] = MappingProxyType({}),
    ) -> None:
        """Run a program; the folders `shown` are readable at these paths."""
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
        """Return the variables for Spark if its Java lacks the vector module; none otherwise."""
        found = check_java().environment
        return {**found, "JAVA_HOME": _JAVA_THERE} if "SINKQL_JAVA" in found else {}

    def kill(self) -> None:
        """Kill all its processes, and wait until they have ended."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.kill(child(process.pid) or process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)

    def processes(self) -> list[int]:
        """Return the ids of all its processes, as seen from outside."""
        return processes(self.first)

    def executors(self) -> list[int]:
        """Return the processes of its executors, without their Python workers."""
        found = []
        for pid in self.processes():
            with suppress(OSError):
                if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    found.append(pid)
        return found


def _entered(root: Path, environment: Mapping[str, str], command: Sequence[str], shown: Mapping[Path, str]) -> str:
    """Return a script that fills a root folder in a new mount namespace, and runs a command there."""
    lines = ["set -e", f"mount -t tmpfs -o mode=755 root {_q(root)}", f"cd {_q(root)}"]
    lines += [f"mkdir -p {name}" for name in ("proc", "dev", *_PRIVATE)]
    for name in _SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            lines.append(f"ln -s {_q(os.readlink(path))} {name}")
        elif path.is_dir():
            lines += _shown(path, path)
    # a Python or a Java outside the system's folders
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
    """Return the commands that make a folder of this machine readable below the root folder."""
    place = f".{_q(there)}"
    return [f"mkdir -p {place}", f"mount -o bind,ro {_q(path)} {place}"]


def _q(path: Path | str) -> str:
    return shlex.quote(str(path))
