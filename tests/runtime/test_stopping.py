"""A signal stops a process at any time, also while it waits for this stop or handles it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable

import pytest

from sinkql.runtime.process.signals import StopSignal, become_child, hold_signals
from sinkql.runtime.process.supervisor import _signals
from support.patience import PATIENCE_S

_RIGHT = 7


def _forked(parent: int, number: signal.Signals) -> None:
    with hold_signals() as kept:
        stopping = become_child(parent, kept)
    _interrupt(stopping, number)


def _supervising(parent: int, number: signal.Signals) -> None:
    stopping = StopSignal()
    with _signals(stopping, []):
        _interrupt(stopping, number)
        assert stopping.number == number


def _interrupt(stopping: StopSignal, number: signal.Signals) -> None:
    with stopping._cond:  # type: ignore[attr-defined]  # as Event.wait and Event.set hold it
        signal.raise_signal(number)
    assert stopping.wait(PATIENCE_S)
    os._exit(_RIGHT)


@pytest.mark.parametrize(
    ("run", "number"), [(_forked, signal.SIGTERM), (_supervising, signal.SIGTERM), (_supervising, signal.SIGINT)]
)
def test_a_signal_stops_a_process_that_holds_the_lock_of_its_stop(
    run: Callable[[int, signal.Signals], None], number: signal.Signals
) -> None:
    process = multiprocessing.get_context("fork").Process(target=run, args=(os.getpid(), number))
    process.start()
    process.join(PATIENCE_S)
    ended = process.exitcode
    process.kill()
    process.join()
    assert ended == _RIGHT
