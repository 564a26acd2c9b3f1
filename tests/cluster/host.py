"""A host that drives a cluster: separate processes, and folders that are empty like on a new machine.

It runs one command of SinkQL at a time. If it is killed or replaced, the next host has only the catalog and STATE.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from sinkql.catalog.address import VARIABLE
from sinkql.catalog.secret.cipher import KEY_VARIABLE
from sinkql.storage import failpoint
from support.command import Running, launch_program
from support.namespace import child
from support.patience import PATIENCE_S, Deadline

_KEY = "A" * 43 + "="
_WORK, _FAILPOINTS = "work", "faults"
_numbers = count(1)


@dataclass(slots=True)
class Host:
    """A mount namespace and a PID namespace in which one command of SinkQL runs.

    Inside, `hidden` contains only the folder of this host. The file `faults` in it arms failpoints
    (`sinkql.storage.failpoint`).
    """

    hidden: Path
    catalog: str
    more: Mapping[str, str] = field(default_factory=dict)
    number: int = field(default_factory=lambda: next(_numbers))
    running: Running = field(init=False)

    def start(self, *arguments: str, script: str = "") -> Running:
        """Start a command of SinkQL in a folder with `script.sql`."""
        work = self.hidden / f"host{self.number}" / _WORK
        command = [sys.executable, "-m", "sinkql", "--output", "json", *arguments]
        lines = [
            "set -e",
            f"mount -t tmpfs host {_q(self.hidden)}",
            "mount -t proc proc /proc",
            f"hostname host{self.number}",
            f"mkdir -p {_q(work)}",
            f"cd {_q(work)}",
            f"printf '127.0.0.1 localhost host{self.number}\\n' > ../hosts && mount -o bind ../hosts /etc/hosts",
            f"printf %s {shlex.quote(script)} > script.sql",
            "set +e",
            shlex.join(command),  # not as process 1, which cannot be killed from inside
            "exit $?",
        ]
        caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        self.running = launch_program(
            *("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child"),
            *("sh", "-c", "\n".join(lines)),
            folder=self.hidden,
            environment={
                VARIABLE: self.catalog,
                KEY_VARIABLE: _KEY,
                "HOME": str(work.parent),
                "XDG_CACHE_HOME": caches,  # so that the archive for executors is built only once
                failpoint.RULES: failpoint.CHANGING,
                failpoint.CONFIRMED_BY: str(work.parent / _FAILPOINTS),
                **self.more,
            },
        )
        return self.running

    @property
    def first(self) -> int:
        """Return the id of the first process in the namespace, the ancestor of all processes there."""
        found = child(self.running.process.pid)
        assert found is not None, self.running.rest()
        return found

    def arm(self, rules: str) -> None:
        """Arm these failpoints from now on."""
        arm(self._root() / str(self.hidden / f"host{self.number}" / _FAILPOINTS).lstrip("/"), rules)

    def file(self, name: str) -> Path:
        """Return a file of the host's working folder, while the host runs."""
        return self._root() / str(self.hidden / f"host{self.number}" / _WORK / name).lstrip("/")

    def interrupt(self) -> int:
        """Interrupt the command like Ctrl-C, and return its exit code."""
        program = child(self.first)
        assert program is not None
        os.kill(program, signal.SIGINT)
        return self.running.end()

    def kill(self) -> None:
        """Kill all processes of the host, like a power cut, and wait until they have ended."""
        process = self.running.process
        if process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            os.kill(child(process.pid) or process.pid, signal.SIGKILL)
        process.wait(PATIENCE_S)

    def _root(self) -> Path:
        deadline = Deadline()
        while True:
            first = child(self.running.process.pid)
            root = Path(f"/proc/{first}/root")
            if first is not None and (root / str(self.hidden / f"host{self.number}" / _WORK).lstrip("/")).is_dir():
                return root
            deadline.check("the host")
            self.running.process.poll()


def arm(path: Path, rules: str) -> None:
    """Write failpoint rules; they count as new even if they equal the previous rules."""
    if rules:
        draft = path.with_suffix(".draft")  # not a resolved path: it would be outside of the namespace
        draft.write_text(f"{rules},{next(_numbers)}=")
        draft.replace(path)
    else:
        path.unlink(missing_ok=True)


def _q(path: Path) -> str:
    return shlex.quote(str(path))
