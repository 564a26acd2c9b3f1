"""A run is overtaken at each of its requests: none of its changes is committed after the new claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import requests
from pyiceberg.table import Table

from sinkql.connector_api.stream import ClaimRequest, PlanChange
from sinkql.connectors.iceberg.table.target import Patience, TargetTable
from sinkql.errors import FencedError, LeaseLostError
from support import strangers
from support.eager import compact_eagerly, expire_hastily
from support.lake import Lake, Sink
from support.readers import pyiceberg_rows

Post = Callable[..., Table]
HOW = ("its reply is lost", "its reply is late", "it never arrives", "it arrives too late")
IN_THE_GATE = {("its reply is lost", False), ("its reply is late", True)}


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    compact_eagerly(monkeypatch)
    expire_hastily(monkeypatch)
    monkeypatch.setattr(Patience, "wait", lambda self, failures: None)


def deeds(sink: Sink, renew: Callable[[], None]) -> Iterator[None]:
    """Perform all actions that commit, from the claim to an OPTIMIZE."""
    writer = sink.writer
    sink.start()
    yield
    for number in range(4):
        sink.put((number, "first"))
        yield
        writer.maintenance.maintain(lambda begun: True)
        yield
    if sink.upsert:
        again = PlanChange("new", {"plan": {}}, again=frozenset({"plan"}))
        checkpoint = writer.claim(ClaimRequest({"numbers": {"batch": 0}}, epoch=1, switch=again, renew=renew))
        writer.refresh()
        yield
        rows = [(number, "first") for number in range(3)]
        results = sink.write(sink.full_refresh.begin_refresh(0, buckets=2), rows)
        new = replace(checkpoint, plan="plan", start=checkpoint.end, end={"numbers": {"batch": 3}})
        sink.full_refresh.commit_refresh(results, new)
    else:
        checkpoint = writer.refresh()
        gone = frozenset(path for path, _ in sink.data_files.rows_by_file())
        task = writer.begin(bucketing="test", buckets=2)
        rows = [(number, "first") for number in range(4)]
        sink.data_files.replace_files(task, sink.write(task, rows), replace(checkpoint, commit=task.commit), gone)
    yield
    writer.refresh()
    writer.maintenance.optimize()
    yield
    sink.put((10, "first"))
    writer.refresh()


def _doing(first: Sink, when: int, how: str, take_over: Callable[[], None]) -> Callable[..., Any]:
    """Return a `post` that lets another run overtake the first one's request with number `when`."""
    really, numbers = TargetTable.post, count(1)

    def post(target: TargetTable, *asked: Any) -> Table:
        if first.writer.table._target is not target or next(numbers) != when:
            return really(target, *asked)
        if how == "it never arrives":
            take_over()
            raise requests.ConnectionError
        if how == "it arrives too late":
            take_over()
            return really(target, *asked)
        after = really(target, *asked)
        take_over()
        if how == "its reply is lost":
            raise requests.ReadTimeout
        return after

    return post


def _overtaken(folder: Path, when: int, how: str, monkeypatch: pytest.MonkeyPatch, *, upsert: bool) -> bool:
    """Run the first sink and overtake it at request `when`; return whether it made that many requests."""
    lake, taken = Lake(folder), []
    first, second, third = (Sink(lake, "t", upsert=upsert, folder=folder / each) for each in ("a", "b", "c"))

    def take_over() -> None:
        taken.append(True)
        second.start()
        second.put((1000, "second"))

    def renew() -> None:
        if taken:
            raise LeaseLostError("SQ5202", "another process runs the sink")

    with monkeypatch.context() as patch:
        patch.setattr(TargetTable, "post", _doing(first, when, how, take_over))
        try:
            for _ in deeds(first, renew):
                pass
        except (FencedError, LeaseLostError):
            assert taken
        else:
            assert not taken, when
    if not taken:
        return False
    told = (each.summary for each in lake.table("t").metadata.snapshots)
    epochs = [int(epoch) for each in told if each is not None and (epoch := each["sinkql.epoch"]) is not None]
    assert epochs == sorted(epochs), when
    second.put((1001, "second"))
    end = third.start().end["numbers"]["batch"]
    third.put((1002, "third"))
    rows = Counter(pyiceberg_rows(lake.table("t"), ("id", "name")))
    assert set(rows.values()) == {1}, when
    assert len(rows) == end + 1, when
    return True


@pytest.mark.parametrize(
    ("how", "upsert"),
    [
        pytest.param(how, upsert, marks=() if (how, upsert) in IN_THE_GATE else pytest.mark.soak)
        for how in HOW
        for upsert in (False, True)
    ],
)
@pytest.mark.parametrize("step", [2, pytest.param(1, marks=pytest.mark.soak)])
def test_nothing_of_a_run_is_committed_after_another_has_claimed_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, *, upsert: bool, step: int
) -> None:
    whens = count(1, step)
    ends = (when for when in whens if not _overtaken(tmp_path / str(when), when, how, monkeypatch, upsert=upsert))
    assert next(ends) > 8


def _claim_overtaken(first: Sink, second: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the second run claim and commit before the first gets the reply to its claim."""

    def take_over() -> None:
        second.start()
        second.put((1, "second"))
        table = second.lake.table("t")
        strangers.forget_tags(table)
        strangers.expire_all_but_head(table)

    monkeypatch.setattr(TargetTable, "post", _doing(first, 1, "its reply is lost", take_over))


@pytest.mark.parametrize("leased", [False, True])
def test_a_claim_that_was_overtaken_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, leased: bool
) -> None:
    lake = Lake(tmp_path)
    first, second = (Sink(lake, "t", folder=tmp_path / each) for each in ("a", "b"))
    asked: list[bool] = []

    def renew() -> None:
        asked.append(True)
        if len(asked) > 1:
            raise LeaseLostError("SQ5202", "another process runs the sink")

    _claim_overtaken(first, second, monkeypatch)
    first.writer.open()
    with pytest.raises(LeaseLostError if leased else FencedError):
        first.writer.claim(ClaimRequest({"numbers": {"batch": 0}}, epoch=1, renew=renew if leased else None))
    second.put((2, "second"))
    assert lake.rows("t") == [(1, "second"), (2, "second")]


def test_a_claim_that_a_dead_run_overtook_is_tried_again_by_who_has_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(tmp_path)
    first, dead = (Sink(lake, "t", folder=tmp_path / each) for each in ("a", "b"))
    _claim_overtaken(first, dead, monkeypatch)
    first.writer.open()
    checkpoint = first.writer.claim(ClaimRequest({"numbers": {"batch": 0}}, epoch=1, renew=lambda: None))
    assert (checkpoint.epoch, checkpoint.end) == (3, {"numbers": {"batch": 1}})
    first.put((2, "first"))
    with pytest.raises(FencedError):
        dead.put((3, "dead"))
    assert lake.rows("t") == [(1, "second"), (2, "first")]
