"""Restarts of captures that died: immediate if they had lived, increasingly delayed if they died at their start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from sinkql import physical
from sinkql.connector_api.cdc import CapturedSource, LogRetention
from sinkql.machine import clock
from sinkql.runtime.process import capture_processes as module
from sinkql.runtime.process.capture_processes import CaptureAssignment


class _Dead:
    """A process that has ended."""

    def is_alive(self) -> bool:
        return False


@dataclass
class _Captures:
    """A source whose capture always dies `lived` seconds after its start, and a clock."""

    lived: float
    now: float = 1000.0
    begun: list[float] = field(default_factory=list)

    def captures(self) -> list[CaptureAssignment]:
        source = CapturedSource("s1", "s", "MYSQL", physical.Connection("my", "MYSQL", {}))
        return [CaptureAssignment(source, LogRetention())]

    def forked(self, *arguments: object) -> Any:
        self.begun.append(self.now)
        return _Dead()

    def waits(self, monkeypatch: pytest.MonkeyPatch, times: int) -> list[float]:
        """Return the seconds between each death and the next start."""
        monkeypatch.setattr(module, "_fork", self.forked)
        monkeypatch.setattr(clock, "monotonic", lambda: self.now)
        running: dict[str, Any] = {}
        while len(self.begun) <= times:
            self.now += 0.25
            if not self.begun or self.now >= self.begun[-1] + self.lived:  # the capture has died
                module._update_processes(running, self)  # type: ignore[arg-type]  # only `captures` is called
        return [after - before - self.lived for before, after in zip(self.begun, self.begun[1:], strict=False)]


def test_a_capture_that_dies_as_it_begins_is_begun_ever_later(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _Captures(0.0).waits(monkeypatch, 8) == [1, 2, 4, 8, 16, 32, 60, 60]


def test_a_capture_that_had_lived_is_begun_at_once_however_often_it_died_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _Captures(300.0).waits(monkeypatch, 12) == [0] * 12
