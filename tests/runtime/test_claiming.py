"""Concurrent claims of tables: only a few run together, and a hanging claim delays the rest only briefly."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from sinkql.runtime.sink import host
from sinkql.runtime.sink.host import ClaimQueue
from sinkql.runtime.spark.settings import CancelledError
from support.patience import PATIENCE_S, joined


def _never() -> bool:
    return False


@dataclass
class _Claims:
    """Claims in threads, each lasting until its event is set; `most` is their highest concurrency."""

    turns: ClaimQueue = field(default_factory=ClaimQueue)
    at_once: int = 0
    most: int = 0
    done: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)
    threads: list[threading.Thread] = field(default_factory=list)

    def begin(self, until: threading.Event, *, error: bool = False) -> None:
        self.threads.append(threading.Thread(target=self._claim, args=(until, error), daemon=True))
        self.threads[-1].start()

    def _claim(self, until: threading.Event, error: bool) -> None:
        try:
            with self.turns.wait_turn(_never):
                self._count(1)
                assert until.wait(PATIENCE_S)
                self._count(-1)
                if error:
                    raise ValueError("no such table")
        except ValueError:
            return

    def _count(self, by: int) -> None:
        with self.changed:
            self.at_once += by
            self.done += by < 0
            self.most = max(self.most, self.at_once)
            self.changed.notify_all()

    def runs(self, number: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.at_once == number, PATIENCE_S)

    def ends(self, number: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.done >= number, PATIENCE_S)


@contextmanager
def _claims() -> Iterator[_Claims]:
    found = _Claims()
    yield found
    for thread in found.threads:
        joined(thread)


def test_the_first_claim_is_alone_until_one_was_made_and_then_there_are_a_few_at_once() -> None:
    failing, first, others = threading.Event(), threading.Event(), threading.Event()
    with _claims() as claims:
        claims.begin(failing, error=True)
        claims.runs(1)
        claims.begin(first)
        failing.set()
        claims.ends(1)
        claims.runs(1)
        for _ in range(9):
            claims.begin(others)
        assert claims.most == 1, "a failed claim does not count as the first"
        first.set()
        claims.runs(4)
        others.set()
        claims.ends(11)
    assert claims.most == 4


def test_a_claim_that_hangs_keeps_no_other_waiting_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_PATIENCE_SECONDS", 0.02)
    hung, fine = threading.Event(), threading.Event()
    fine.set()
    with _claims() as claims:
        for number in range(1, 6):
            claims.begin(hung)
            claims.runs(number)
        claims.begin(fine)
        claims.ends(1)
        assert claims.at_once == 5
        hung.set()


def test_a_sink_that_is_to_stop_waits_for_no_turn() -> None:
    hung, stopped = threading.Event(), threading.Event()
    refused: list[Exception] = []
    with _claims() as claims:
        claims.begin(hung)
        claims.runs(1)

        def wait() -> None:
            try:
                with claims.turns.wait_turn(stopped.is_set):
                    pass
            except CancelledError as error:
                refused.append(error)

        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        stopped.set()
        joined(waiting)
        hung.set()
    assert len(refused) == 1


def test_those_whose_turn_it_is_not_are_left_alone() -> None:
    waiting = 100
    looks = 0

    def stops() -> bool:
        nonlocal looks
        looks += 1
        return False

    turns, threads, hold = ClaimQueue(), [], threading.Event()

    def claim() -> None:
        with turns.wait_turn(stops):
            assert hold.wait(PATIENCE_S)

    for _ in range(waiting):
        threads.append(threading.Thread(target=claim, daemon=True))
        threads[-1].start()
    hold.set()
    for thread in threads:
        joined(thread)
    assert looks < 8 * waiting


def test_all_that_wait_can_be_told_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_REST_SECONDS", PATIENCE_S)
    stopped, turns, refused = threading.Event(), ClaimQueue(), list[str]()

    def claim() -> None:
        try:
            with turns.wait_turn(stopped.is_set):
                pass
        except CancelledError:
            refused.append("stopped")

    with turns.wait_turn(_never):
        threads = [threading.Thread(target=claim, daemon=True) for _ in range(20)]
        for thread in threads:
            thread.start()
        stopped.set()
        turns.look()
        for thread in threads:
            joined(thread)
    assert len(refused) == 20
