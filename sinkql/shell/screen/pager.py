"""Show a long text in the user's pager."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys

from sinkql.shell.screen.keyboard import lent_terminal

_DEFAULT_PAGER = "less -SRF"


def fits(text: str) -> bool:
    """Return whether the terminal shows a text and a prompt below it."""
    return text.count("\n") < shutil.get_terminal_size().lines - 1


def show(text: str) -> None:
    """Show a text in the pager, or print it if the pager cannot run."""
    command = os.environ.get("SINKQL_PAGER") or os.environ.get("PAGER") or _DEFAULT_PAGER
    try:
        with lent_terminal():
            subprocess.run(shlex.split(command), input=text, text=True, check=False)
    except OSError:
        sys.stdout.write(text)
