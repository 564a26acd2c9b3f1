"""The terminal between two prompts: keys that are pressed while a statement runs wait as they are for the next prompt.

Without this a terminal shows them at once and turns Enter into a line feed, which would mean a new line and not Enter.
"""

from __future__ import annotations

import os
import select
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

_INPUT, _LOCAL = 0, 3


@contextmanager
def held_keys() -> Iterator[None]:
    """Have keys wait; Ctrl-C still interrupts."""
    before = termios.tcgetattr(sys.stdin)
    waiting = list(before)
    waiting[_INPUT] &= ~termios.ICRNL
    waiting[_LOCAL] &= ~(termios.ECHO | termios.ICANON)
    with _mode(waiting):
        yield


def typed_ahead() -> str:
    """Return what was typed before `held_keys`, while the program was loading: Enter is a line feed in it."""
    typed = b""
    while select.select([sys.stdin], [], [], 0)[0]:
        part = os.read(sys.stdin.fileno(), 4096)
        if not part:
            break
        typed += part
    return typed.decode(errors="ignore")


@contextmanager
def lent_terminal() -> Iterator[None]:
    """Give the terminal to another program, such as an editor, as it is usual."""
    if not sys.stdin.isatty():
        yield
        return
    usual = termios.tcgetattr(sys.stdin)
    usual[_INPUT] |= termios.ICRNL
    usual[_LOCAL] |= termios.ECHO | termios.ICANON
    with _mode(usual):
        yield


@contextmanager
def _mode(attributes: list[int | list[bytes | int]]) -> Iterator[None]:
    before = termios.tcgetattr(sys.stdin)
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, attributes)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
