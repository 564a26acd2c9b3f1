"""Containers of a pod: namespaces of this machine, in which programs of an image run."""

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
    """The namespaces that containers of a pod have in common, until the block ends: network, host name."""

    def __init__(self, folder: Path, name: str) -> None:
        """Begin; `folder` is the pod's own."""
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
        """Return the id of its process."""
        return self._process.pid


@dataclass(slots=True)
class Container:
    """A program in a pod, as process 1 of a namespace of its own; `mounts` are folders by where it sees them."""

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
        """Start it, with nothing written yet where no folder is mounted."""
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
        """Wait for its end, and return its exit code."""
        code = self._process.wait()
        return 128 - code if code < 0 else code

    def processes(self) -> list[int]:
        """Return all of its processes, by the numbers that they have here."""
        first = child(self._process.pid)
        return processes(first) if first is not None else []

    def terminate(self) -> None:
        """Ask it to end."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Kill all of its processes."""
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(child(self._process.pid) or self._process.pid, number)

    def _entered(self) -> str:
        """Return a script that fills a root folder, in a mount namespace of its own, and runs the program there."""
        scratch = self.sandbox.folder / self.name
        scratch.mkdir(exist_ok=True)
        hosts = self.sandbox.folder / f"{self.name}.hosts"
        hosts.write_text(self.hosts)
        lines = ["set -e", f"mount -t tmpfs container {_q(scratch)}", f"cd {_q(scratch)}", "mkdir upper work root"]
        lines.append(f"mount -t overlay -o lowerdir={_q(self.image.root)},upperdir=upper,workdir=work image root")
        lines += ["cd root", "mkdir -p proc dev", "mount --rbind /dev dev", "mount -t tmpfs shm dev/shm"]
        lines += ["mount -t proc proc proc", "touch etc/hosts", f"mount --bind {_q(hosts)} etc/hosts"]
        for there, path in sorted(self.mounts.items()):
            lines.append(f"chroot . mkdir -p {_q(there)}")  # links of the image lead to what is in it
            lines.append(f'mount --bind {_q(path)} ".$(chroot . readlink --canonicalize {_q(there)})"')
        group = self.group if self.group is not None else self.user
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        inside = ["/usr/bin/env", "-i", f"--chdir={self.image.folder}", *variables, *self.command]
        who = (f"--userspec={self.user}:{self.user}", f"--groups={group}")
        lines.append(f"exec {shlex.join(['chroot', *who, '.', *inside])}")
        return "\n".join(lines)


def _q(path: Path | str) -> str:
    return shlex.quote(str(path))
