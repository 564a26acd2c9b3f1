"""The clock of a slow statement."""

from __future__ import annotations

import threading

from sinkql.shell.screen.screen import stopwatch
from support.patience import PATIENCE_S


def test_the_clock_comes_while_it_lasts_and_leaves_nothing() -> None:
    written: list[str] = []
    twice = threading.Event()

    def write(text: str) -> None:
        written.append(text)
        if len(written) == 2:
            twice.set()

    with stopwatch(write, "running", after=0.01):
        assert twice.wait(PATIENCE_S)
    assert all(text.startswith("\r\x1b[Krunning ") for text in written[:-1])
    assert written[-1] == "\r\x1b[K"


def test_a_quick_statement_shows_no_clock() -> None:
    written: list[str] = []
    with stopwatch(written.append, "running", after=60):
        pass
    assert written == []
