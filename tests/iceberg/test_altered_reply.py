"""Truncated or corrupted replies of a REST catalog raise a coded error, and the table stays correct.

The replies contain a table's metadata without a seal. TLS and TCP checksums detect corruption in transit, so these
tests cover replies that a server or a proxy has damaged.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from sinkql.connector_api.stream import StaleFilesError
from sinkql.connectors.iceberg.table.target import Patience
from sinkql.errors import LostIndexError, SinkqlError
from support.damage import damaged
from support.eager import compact_eagerly
from support.lake import Lake, Sink
from support.proxy import Rule, proxy
from support.seaweed import Seaweed

pytestmark = [pytest.mark.server, pytest.mark.long]

WAYS = ("cut", "empty", "flip", "flip")


@dataclass
class Once:
    """A proxy rule that damages a single reply, chosen by its number."""

    chance: random.Random
    number: int
    replies: int = 0
    how: str = ""

    def __call__(self, reply: bytes) -> bytes:
        self.replies += 1
        if self.replies != self.number:
            return reply
        self.how = self.chance.choice(WAYS)
        return damaged(self.chance, reply, self.how)


@pytest.fixture
def far(server: Seaweed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Lake, Rule]]:
    compact_eagerly(monkeypatch)
    monkeypatch.setattr(Patience, "wait", lambda self, failures: None)
    with proxy(server.rest) as (port, rule):
        yield Lake(tmp_path, server, port), rule


@pytest.mark.share(4)
@pytest.mark.parametrize("reply", [b"", b"{", b"<html></html>", b"{}"])
def test_replies_that_are_never_a_table_are_told_and_tried_again(
    far: tuple[Lake, Rule], name: str, reply: bytes
) -> None:
    lake, rule = far
    sink = Sink(lake, name)
    sink.start()
    rule.alter = lambda _: reply
    for deed in (sink.writer.refresh, lambda: Sink(lake, name).start()):
        with pytest.raises(SinkqlError) as caught:
            deed()
        assert (caught.value.code, caught.value.retryable) == ("SQ4208", True)
        assert "returned an invalid table" in caught.value.message
    rule.alter = None
    sink.put((1, "a"))
    assert lake.rows(name) == [(1, "a")]


def test_a_reply_that_is_no_table_is_asked_for_again(far: tuple[Lake, Rule], name: str) -> None:
    lake, rule = far
    sink = Sink(lake, name)
    sink.start()
    replies = [b"", b"{"]
    rule.alter = lambda reply: replies.pop() if replies else reply
    sink.put((1, "a"))
    assert (replies, lake.rows(name)) == ([], [(1, "a")])


def _batch(sink: Sink, *rows: tuple[int, str]) -> None:
    for _ in range(3):
        try:
            sink.put(*rows)
            break
        except StaleFilesError:
            continue
        except LostIndexError:
            sink.writer.invalidate_index()
    else:
        raise AssertionError("the batch did not commit in three attempts")
    sink.writer.maintenance.maintain()


@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 300), marks=pytest.mark.soak)], ids=["", "more"])
def test_a_changed_reply_is_an_error_or_makes_no_difference(
    far: tuple[Lake, Rule], name: str, seeds: range, *, upsert: bool
) -> None:
    lake, rule = far
    for seed in seeds:
        table = f"{name}_{seed}"
        chance = random.Random(f"reply {upsert} {seed}")
        once = Once(chance, chance.randint(2, 9))
        for _ in range(4):
            sink = Sink(lake, table, id=table, upsert=upsert)
            rule.alter = once
            try:
                done = sink.start().end.get("numbers", {}).get("batch", 0)
                for batch in range(done, 3):
                    _batch(sink, (batch, "a"), (100 + batch, "b"))
            except (SinkqlError, pa.ArrowException):  # a batch loop turns a task's ArrowException into a coded error
                continue
            break
        rule.alter = None
        assert once.how
        rows = [row for batch in range(3) for row in ((batch, "a"), (100 + batch, "b"))]
        assert sorted(rows) == lake.rows(table), f"{seed}: {once.how}"
