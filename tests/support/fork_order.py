"""Order a `sinkql` from the process that forks; as a program, `fork_order.py SOCKET ARGUMENTS` is `sinkql ARGUMENTS`.

The program passes signals on, and ends with the exit code of the command.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence


def fork(
    path: str, arguments: Sequence[str], folder: str, environment: Mapping[str, str], streams: Sequence[int]
) -> tuple[socket.socket, int]:
    """Start a command with these files as its standard streams; return the connection to its monitor and its id.

    The command is killed when the connection is closed.
    """
    order = {"arguments": list(arguments), "folder": folder, "environment": dict(environment)}
    text = json.dumps(order).encode() + b"\n"
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    sent = socket.send_fds(connection, [text], list(streams))
    connection.sendall(text[sent:])
    return connection, _number(connection)


def exit_code(connection: socket.socket) -> int:
    """Wait until the command ends; return its exit code as `subprocess` does."""
    return _number(connection)


def _number(connection: socket.socket) -> int:
    text = b""
    while not text.endswith(b"\n"):
        part = connection.recv(1)
        assert part, "the process that forks has died"
        text += part
    return int(text)


def _main() -> None:
    path, *arguments = sys.argv[1:]
    connection, pid = fork(path, arguments, os.getcwd(), os.environ, (0, 1, 2))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda received, _: os.kill(pid, received))
    code = exit_code(connection)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    _main()
