"""The desired states of many sinks are read together and cached; a fresh read updates the cache for all sinks."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from sinkql.errors import SinkqlError
from sinkql.runtime.batch.control import Desired
from sinkql.runtime.sink.host import DesiredStates
from support.running import MemoryControl

SINKS = [f"sink{number}" for number in range(100)]


class Counting(MemoryControl):
    """A catalog that records how many sinks each request names."""

    looks: list[int] = []  # noqa: RUF012  # each test has its own
    late = False

    def desired_states(self, sink_ids: Collection[str]) -> Mapping[str, tuple[Desired, int | None]]:
        self.looks.append(len(sink_ids))
        if self.late:
            raise SinkqlError("SQ4104", "the catalog is locked")
        return super().desired_states(sink_ids)


@pytest.fixture
def control() -> Counting:
    control = Counting()
    control.looks = []
    return control


def test_all_sinks_are_asked_for_at_once(control: Counting) -> None:
    watch = DesiredStates(control, every_seconds=1000)
    for sink in SINKS:
        watch.now(sink)
    control.wanted["sink7"], control.asking["sink8"] = "stopped", 1
    control.looks.clear()
    assert [sink for sink in SINKS if watch.desired(sink) != "running"] == ["sink7"]
    assert [sink for sink in SINKS if watch.is_optimize_requested(sink)] == ["sink8"]
    assert control.looks == [len(SINKS)]


def test_what_is_old_is_asked_again(control: Counting) -> None:
    watch = DesiredStates(control, every_seconds=0)
    assert watch.desired("sink7") == "running"
    control.wanted["sink7"] = "stopped"
    assert watch.desired("sink7") == "stopped"


def test_what_is_asked_at_this_moment_is_known_to_later_looks(control: Counting) -> None:
    watch = DesiredStates(control, every_seconds=1000)
    control.wanted["sink7"] = "stopped"
    assert watch.desired("sink7") == "stopped"
    control.wanted["sink7"] = "running"
    assert watch.desired("sink7") == "stopped"
    assert watch.now("sink7") == "running"
    assert watch.desired("sink7") == "running"


def test_catalog_that_does_not_answer_is_not_asked_by_each(control: Counting) -> None:
    watch = DesiredStates(control, every_seconds=1000)
    control.late = True
    for sink in SINKS:
        with pytest.raises(SinkqlError, match="locked"):
            watch.desired(sink)
    assert len(control.looks) == 1
    control.late, watch.every_seconds = False, 0
    assert watch.desired("sink7") == "running"
