"""Each tick of a timeline is created once, in a catalog of either kind, and in a folder."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import pytest

from sinkql.catalog.address import Address
from sinkql.catalog.coordination.shared_store import TickTable
from sinkql.catalog.open_store import open_store
from sinkql.catalog.system import LAYOUT
from sinkql.runtime.batch.timeline import Ticks
from sinkql.storage import failpoint
from sinkql.storage.numbered_log import FolderNumberedLog, NumberedLog

Make = Callable[[], NumberedLog]


@pytest.fixture(params=[True, False], ids=["catalog", "folder"])
def make(request: pytest.FixtureRequest, place: Address, tmp_path: Path) -> Make:
    """Return a function that opens the same ticks again, as each process does."""
    if request.param:
        return lambda: TickTable(open_store(place, LAYOUT))
    return lambda: FolderNumberedLog(tmp_path / "ticks")


def test_of_two_that_make_a_tick_at_once_one_does(make: Make) -> None:
    others = iter([{"s": {"at": 8}}])

    def point(name: str) -> None:
        if name == "tick" and (other := next(others, None)) is not None:  # a second process is faster
            assert Ticks(make()).advance(other, {})

    late = Ticks(make())
    with patch.object(failpoint, "point", point):
        assert late.advance({"s": {"at": 5}}, {})
    assert [(number, tick.sources) for number, tick in late.newest_first()] == [(1, {"s": {"at": 8}})]


def test_a_tick_that_has_gone_is_not_made_again(make: Make) -> None:
    ticks, late = Ticks(make()), Ticks(make())
    ticks.advance({"s": {"at": 0}}, {})
    made = late.newest()
    for at in range(1, 400):
        ticks.advance({"s": {"at": at}}, {})
    with patch.object(Ticks, "newest", lambda _: made):  # as in a process that has slept since then
        assert late.advance({"s": {"at": 7}}, {})
    kept = [number for number, _ in ticks.newest_first()]
    assert kept == list(range(400, 400 - len(kept), -1))
    assert len(kept) < 300


def test_many_that_make_ticks_have_the_same_ones(make: Make) -> None:
    def advance(source: str) -> list[tuple[int, object]]:
        ticks = Ticks(make())
        for at in range(20):
            ticks.advance({source: {"at": at}}, {})
        return [(number, tick.sources) for number, tick in ticks.newest_first()]

    with ThreadPoolExecutor(3) as pool:
        seen = list(pool.map(advance, "abc"))
    final = dict(Ticks(make()).newest_first())
    assert sorted(final) == list(range(1, len(final) + 1))
    for each in seen:
        assert all(final[number].sources == sources for number, sources in each)
