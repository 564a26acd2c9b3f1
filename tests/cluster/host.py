"""A host that drives a cluster: processes of its own, and folders that are as empty as those of a new machine.

It runs one command of SinkQL at a time. What it killed, or moved away from, leaves nothing to the next one but the
catalog and STATE.
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
_WORK, _FAULTS = "work", "faults"
_numbers = count(1)


@dataclass(slots=True)
class Host:
    """A mount namespace and a PID namespace in which one command of SinkQL runs; `hidden` is empty there, but for it.

    Faults follow its file `faults` (`sinkql.storage.failpoint`).
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
            shlex.join(command),  # not as process 1, which no signal of its own kills
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
                "XDG_CACHE_HOME": caches,  # where the archive for executors is made once
                failpoint.RULES: failpoint.CHANGING,
                failpoint.CONFIRMED_BY: str(work.parent / _FAULTS),
                **self.more,
            },
        )
        return self.running

    @property
    def first(self) -> int:
        """Return the id of its first process, of which the others come."""
        found = child(self.running.process.pid)
        assert found is not None, self.running.rest()
        return found

    def arm(self, rules: str) -> None:
        """Have these faults from here on."""
        arm(self._root() / str(self.hidden / f"host{self.number}" / _FAULTS).lstrip("/"), rules)

    def file(self, name: str) -> Path:
        """Return a file of its working folder, while it runs."""
        return self._root() / str(self.hidden / f"host{self.number}" / _WORK / name).lstrip("/")

    def interrupt(self) -> int:
        """Ask the command to stop, as Ctrl-C does, and return its exit code."""
        program = child(self.first)
        assert program is not None
        os.kill(program, signal.SIGINT)
        return self.running.end()

    def kill(self) -> None:
        """Kill all of its processes, as a power cut does, and wait until none is left."""
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
    """Write rules of faults, which are other ones than all before even where they say the same."""
    if rules:
        draft = path.with_suffix(".draft")  # beside it: links in /proc lead to what other processes see there
        draft.write_text(f"{rules},{next(_numbers)}=")
        draft.replace(path)
    else:
        path.unlink(missing_ok=True)


def _q(path: Path) -> str:
    return shlex.quote(str(path))
