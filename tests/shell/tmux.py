"""A command in a real terminal: keys in, screen out."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from support.patience import PATIENCE_S

_BETWEEN_LOOKS_S = 0.05


class Terminal:
    """A terminal of a separate tmux server; `folder` has its socket and is the working folder of its command."""

    def __init__(self, folder: Path, *, columns: int = 100, lines: int = 30) -> None:
        self._socket = folder / "tmux"
        self._folder = folder
        self._size = (columns, lines)

    def start(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        """Start `sinkql` with these arguments."""
        columns, lines = self._size
        command = shlex.join([sys.executable, "-m", "sinkql", *arguments])
        # the last output and the exit code stay on the screen
        script = f"trap : INT; {command}; echo exit=$?; exec cat"
        given = {"TERM": "screen-256color", "HOME": str(self._folder), "LESS": "", **(environment or {})}
        variables = [each for name, value in given.items() for each in ("-e", f"{name}={value}")]
        self._tmux(
            "-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines), "-c", str(self._folder),
            *variables, "sh", "-c", script,
        )  # fmt: skip

    def keys(self, *keys: str) -> None:
        """Press keys by their names, for example Enter, C-c or M-Enter."""
        self._tmux("send-keys", "-t", "0", *keys)

    def type(self, text: str) -> None:
        """Type a text literally."""
        # tmux would read a semicolon at the end as the end of its command
        self._tmux("send-keys", "-t", "0", "-l", f"{text[:-1]}\\;" if text.endswith(";") else text)

    def enter(self, text: str) -> None:
        """Type a text and press Enter."""
        self.type(text)
        self.keys("Enter")

    def screen(self, *, colours: bool = False) -> str:
        """Return the screen, with the lines that scrolled off its top."""
        return self._tmux("capture-pane", "-p", "-S", "-500", "-t", "0", *(("-e",) if colours else ()))

    def visible(self, *, colours: bool = False) -> str:
        """Return the screen."""
        return self._tmux("capture-pane", "-p", "-t", "0", *(("-e",) if colours else ()))

    def wait_for(self, pattern: str, *, times: int = 1) -> str:
        """Return the screen once the pattern matches `times` times; fail if it does not in time."""
        until = time.monotonic() + PATIENCE_S
        while True:
            screen = self.screen()
            if len(re.findall(pattern, screen, re.MULTILINE)) >= times:
                return screen
            if time.monotonic() > until:
                raise AssertionError(f"{pattern!r} did not come\n{screen}")
            time.sleep(_BETWEEN_LOOKS_S)

    def close(self) -> None:
        """End the terminal and its processes."""
        subprocess.run(
            ["tmux", "-S", str(self._socket), "kill-server"], capture_output=True, timeout=PATIENCE_S, check=False
        )

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
        )
        return done.stdout
