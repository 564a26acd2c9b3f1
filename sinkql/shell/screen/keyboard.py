"""The terminal between two prompts: keys pressed while a statement runs wait unchanged for the next prompt.

Otherwise a terminal echoes them immediately and turns Enter into a line feed, which would be a new line, not Enter.
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
    """Keep pressed keys for the next prompt; Ctrl-C still interrupts."""
    before = termios.tcgetattr(sys.stdin)
    waiting = list(before)
    waiting[_INPUT] &= ~termios.ICRNL
    waiting[_LOCAL] &= ~(termios.ECHO | termios.ICANON)
    with _mode(waiting):
        yield


def typed_ahead() -> str:
    """Return the keys pressed before `held_keys`, while the program was loading; Enter is a line feed among them."""
    typed = b""
    while select.select([sys.stdin], [], [], 0)[0]:
        part = os.read(sys.stdin.fileno(), 4096)
        if not part:
            break
        typed += part
    return typed.decode(errors="ignore")


@contextmanager
def lent_terminal() -> Iterator[None]:
    """Restore the normal terminal mode for another program, for instance an editor."""
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
