"""Streams of rows with unchanged values, in batches that run in the process, without Spark."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from sinkql.connector_api.stream import Size
from support.overwriting import CLEARED, Line, LineReader, add, omit_some
from support.running import placed_engine
from upsert.test_overwritten import catch_up, check, open_loop


@pytest.mark.share(2)
@pytest.mark.parametrize("kind", ["some columns", "other key"])
def test_values_that_the_server_left_out_need_no_spark(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def session() -> Any:
        raise AssertionError("a batch used Spark")

    monkeypatch.setattr(LineReader, "size", lambda self, splits: Size(1, 1))
    rng = random.Random(kind)
    loop = open_loop(tmp_path, kind, rows=40, holes=True, engine=placed_engine(session, 3))
    loop.start(epoch=1)
    lines: list[Line] = []
    for size in (12, 25, 1, 30):
        new: list[Line] = [CLEARED]
        while CLEARED in new:
            new = omit_some(rng, lines, size)
        add(tmp_path / "stream", new)
        lines += new
        catch_up(loop)
        check(tmp_path, kind, lines)


@pytest.mark.share(3)
@pytest.mark.parametrize("kind", ["grouped", "whole", "filtered"])
def test_a_sink_whose_state_is_written_by_its_tasks_has_the_buckets_that_it_had(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of the number of cores keeps the buckets; otherwise rows would be exchanged a second time."""

    def session() -> Any:
        raise AssertionError("a batch used Spark")

    monkeypatch.setattr(LineReader, "size", lambda self, splits: Size(1, 1))
    rng, lines = random.Random(3), list[Line]()
    for number, cores in enumerate((3, 4, 2)):
        loop = open_loop(tmp_path, kind, rows=40, holes=True, engine=placed_engine(session, cores))
        assert loop.job.copartitioned is not None
        asked: list[int] = []
        begin = loop.writer.begin

        def noted(*, buckets: int, begin: Any = begin, asked: list[int] = asked, **more: Any) -> Any:
            asked.append(buckets)
            return begin(buckets=buckets, **more)

        monkeypatch.setattr(loop.writer, "begin", noted)
        loop.start(epoch=number + 1)
        new: list[Line] = [CLEARED]
        while CLEARED in new:
            new = omit_some(rng, lines, 20)
        add(tmp_path / "stream", new)
        lines += new
        catch_up(loop)
        check(tmp_path, kind, lines)
        assert set(asked) == {3}
