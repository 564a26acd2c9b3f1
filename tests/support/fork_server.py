"""A process that has imported what `sinkql` imports, and forks for each command: a start costs 0.05 CPU-s, not 0.5.

It runs as `python -m support.fork_server SOCKET` until its standard input ends. `support.fork_order` sends it orders:
a line of JSON with `arguments`, `folder` and `environment`, and the files of the three standard streams. The answers
are the process id, and the exit code as `subprocess` gives it. If the other end of the socket is closed first, the
command is killed.
"""

from __future__ import annotations

import array
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any

_LATER = ("sinkql.runtime.spark", "sinkql.testing", "sinkql.__main__")
"""Modules that a process without Spark does not import."""
_THIRD = ("pyiceberg.catalog.sql", "pyiceberg.catalog.rest", "pyarrow.parquet", "pyarrow.json", "pyarrow.csv")
"""Modules that functions of SinkQL and of its libraries import."""
_STREAMS = 3
_PR_SET_CHILD_SUBREAPER = 36
ORDER_BYTES = 1 << 20


def import_all(*packages: str) -> None:
    """Import the modules of these packages, and of others that their functions import, in a process that will fork."""

    def is_later(name: str) -> bool:
        return any(name == later or name.startswith(f"{later}.") for later in _LATER)

    for package in packages:
        path = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(path, f"{package}.", onerror=lambda name: None):
            if not is_later(module.name):
                with suppress(ImportError):  # of an extra that is not installed
                    importlib.import_module(module.name)
    for name in _THIRD:
        importlib.import_module(name)


def _serve(path: str) -> dict[str, Any] | None:
    """Fork for each order; return None at the end, and the order in a forked process."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps the monitors
    sys.stdout.write("\n")
    sys.stdout.flush()
    monitors: list[tuple[socket.socket, int]] = []
    while True:
        readable, _, _ = select.select([listener, sys.stdin], [], [])
        if listener not in readable:
            return None
        connection, _ = listener.accept()
        monitors = [monitor for monitor in monitors if not _is_over(*monitor)]
        pid = os.fork()
        if not pid:
            listener.close()
            for earlier, file in monitors:
                earlier.close()
                os.close(file)
            return _watched(connection)
        monitors.append((connection, os.pidfd_open(pid)))


def _is_over(connection: socket.socket, monitor: int) -> bool:
    """Return whether a command has ended. If its other end is closed, wait until it is killed.

    Otherwise, the next command might find one that its user has killed still running.
    """
    closed = select.poll()
    closed.register(connection, select.POLLRDHUP)
    ended, _, _ = select.select([monitor], [], [], None if closed.poll(0) else 0)
    if ended:
        connection.close()
        os.close(monitor)
    return bool(ended)


def _watched(connection: socket.socket) -> dict[str, Any]:
    """Fork once more: return the order in the new process, and watch it in this one."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    text, ancillary, _, _ = connection.recvmsg(ORDER_BYTES, socket.CMSG_SPACE(_STREAMS * 4))
    files = array.array("i")
    for _, _, data in ancillary:
        files.frombytes(data)
    while not text.endswith(b"\n"):
        text += connection.recv(ORDER_BYTES)
    pid = os.fork()
    if not pid:
        connection.close()
        os.setsid()
        for stream, file in enumerate(files):
            os.dup2(file, stream)
            os.close(file)
        order: dict[str, Any] = json.loads(text)
        return order
    for file in (*files, *range(_STREAMS)):
        with suppress(OSError):
            os.close(file)
    with suppress(OSError):
        connection.sendall(f"{pid}\n".encode())
    ended, closed = os.pidfd_open(pid), connection.fileno()
    readable, _, _ = select.select([closed, ended], [], [])
    is_running = ended not in readable
    if is_running:
        with suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if is_running:
        with suppress(ChildProcessError):
            while True:
                os.wait()  # the processes that it has started end by themselves
    with suppress(OSError):
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _become(order: dict[str, Any], own: list[str]) -> None:
    """Make this process what `python -m sinkql` would be; `own` are the entries of `sys.path` from PYTHONPATH."""
    import sinkql

    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    sys.path[:] = [os.getcwd(), *_python_path(), *(entry for entry in sys.path[1:] if entry not in own)]
    sys.argv[:] = [os.path.join(sinkql.__path__[0], "__main__.py"), *order["arguments"]]


def _python_path() -> list[str]:
    return [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]


def _main() -> None:
    from sinkql.cli import main  # before the module of that name

    own = _python_path()
    import_all("sinkql")
    gc.collect()
    gc.freeze()
    order = _serve(sys.argv[1])
    if order is None:
        return
    _become(order, own)
    main()


if __name__ == "__main__":
    _main()
