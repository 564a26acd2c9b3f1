"""Containers of a pod: programs of an image in Linux namespaces of this machine."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from support.image import Image
from support.namespace import child, processes
from support.patience import PATIENCE_S, Deadline

_LOOK_S = 0.01
_DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL")


class Sandbox:
    """The namespaces that the containers of a pod share until the block ends: network and host name."""

    def __init__(self, folder: Path, name: str) -> None:
        """Create the namespaces; `folder` belongs to the pod alone."""
        self.folder = folder
        folder.mkdir(parents=True)
        script = f"hostname {shlex.quote(name)} && exec sleep infinity"
        self._process = subprocess.Popen([*_DIES_WITH_US, "unshare", "--net", "--uts", "--ipc", "sh", "-c", script])

    def __enter__(self) -> Sandbox:
        deadline = Deadline()
        while Path(f"/proc/{self.pid}/comm").read_text() != "sleep\n":
            deadline.check("a pod's namespaces")
            time.sleep(_LOOK_S)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_S)

    @property
    def pid(self) -> int:
        """Return the id of the process that holds the namespaces."""
        return self._process.pid


@dataclass(slots=True)
class Container:
    """A program in a pod, process 1 of a new namespace; `mounts` maps paths in the container to folders."""

    sandbox: Sandbox
    name: str
    image: Image
    command: Sequence[str]
    environment: Mapping[str, str]
    user: int
    group: int | None
    mounts: Mapping[str, Path]
    hosts: str
    _process: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> None:
        """Start the program; its root has only the image's files, apart from mounted folders."""
        pod = ("nsenter", "--target", str(self.sandbox.pid), "--net", "--uts", "--ipc")
        own = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", self._entered())
        with self.sandbox.folder.joinpath(f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_DIES_WITH_US, *pod, *own],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self) -> int:
        """Wait until the program ends; return its exit code."""
        code = self._process.wait()
        return 128 - code if code < 0 else code

    def processes(self) -> list[int]:
        """Return the ids of all its processes, as this machine numbers them."""
        first = child(self._process.pid)
        return processes(first) if first is not None else []

    def terminate(self) -> None:
        """Ask the program to end."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Kill all processes of the container."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(child(self._process.pid) or self._process.pid, number)

    def _entered(self) -> str:
        """Return a script that builds a root folder in a new mount namespace, and runs the program there."""
        scratch = self.sandbox.folder / self.name
        scratch.mkdir(exist_ok=True)
        hosts = self.sandbox.folder / f"{self.name}.hosts"
        hosts.write_text(self.hosts)
        lines = ["set -e", f"mount -t tmpfs container {_q(scratch)}", f"cd {_q(scratch)}", "mkdir upper work root"]
        lines.append(f"mount -t overlay -o lowerdir={_q(self.image.root)},upperdir=upper,workdir=work image root")
        lines += ["cd root", "mkdir -p proc dev", "mount --rbind /dev dev", "mount -t tmpfs shm dev/shm"]
        lines += ["mount -t proc proc proc", "touch etc/hosts", f"mount --bind {_q(hosts)} etc/hosts"]
        for there, path in sorted(self.mounts.items()):
            lines.append(f"chroot . mkdir -p {_q(there)}")  # resolves links of the image within its root
            lines.append(f'mount --bind {_q(path)} ".$(chroot . readlink --canonicalize {_q(there)})"')
        group = self.group if self.group is not None else self.user
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        inside = ["/usr/bin/env", "-i", f"--chdir={self.image.folder}", *variables, *self.command]
        who = (f"--userspec={self.user}:{self.user}", f"--groups={group}")
        lines.append(f"exec {shlex.join(['chroot', *who, '.', *inside])}")
        return "\n".join(lines)


def _q(path: Path | str) -> str:
    return shlex.quote(str(path))
