"""A statement that takes its time → a line with a clock, which goes away when it is done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_AFTER_S = 1.0
_CLEAR_LINE = "\r\x1b[K"


@contextmanager
def clock(write: Callable[[str], object], text: str, *, after: float = _AFTER_S) -> Iterator[Callable[[str], None]]:
    """Show `text` and the seconds so far, once `after` seconds have passed; yield what changes the text."""
    done = threading.Event()

    def tick() -> None:
        began = time.monotonic()
        shown = False
        while not done.wait(after):
            write(f"{_CLEAR_LINE}{text} {time.monotonic() - began:.0f} s")
            shown = True
        if shown:
            write(_CLEAR_LINE)

    def say(now: str) -> None:
        nonlocal text
        text = now

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield say
    finally:
        done.set()
        thread.join()
