"""Small batches run without Spark if Python computes the same rows; all other batches use Spark."""

from __future__ import annotations

import os
import random
from functools import partialmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sinkql import physical
from sinkql.connector_api.registry import discover
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.local import batch, placement
from sinkql.runtime.local.engine import LocalEngine
from support.running import (
    MemoryControl,
    contexts,
    counter,
    csv_files,
    drain,
    job,
    loop_of,
    output,
    placed_engine,
    rows,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _SparkAskedError(Exception):
    pass


def _loop(folder: Path, body: physical.Operator, **more: Any) -> BatchLoop:
    def session() -> Any:
        raise _SparkAskedError

    made = job(body, folder, **more)
    loop = loop_of(made, contexts(folder, made), discover(), engine=placed_engine(session, 2))
    loop.start(epoch=1)
    return loop


def _commit(loop: BatchLoop, to: int) -> None:
    start = loop.checkpoint.end
    loop.commit_batch(start, {name: {**offsets, "count": to} for name, offsets in start.items()})


def test_small_batches_need_no_spark(tmp_path: Path) -> None:
    source = counter(up_to=600_000, rows_per_second=None)
    renamed = physical.Map(source, (output("n", "`counter`"),), None)
    both = physical.Union((renamed, physical.Map(counter("other", up_to=600_000), (output("n", "`counter`"),), None)))
    loop = _loop(tmp_path, both)
    for to in (3, 7):
        _commit(loop, to)
    assert rows(tmp_path) == sorted([(n,) for n in range(1, 8)] * 2)
    assert isinstance(loop.report.control, MemoryControl)
    assert loop.report.control.commits[-1]["rows"] == 8
    with pytest.raises(_SparkAskedError):
        _commit(loop, 600_000)


def test_small_batches_are_computed_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    even = output("", "`counter` % 2 = 0", "boolean")
    source = counter(up_to=20_000, rows_per_second=None)
    loop = _loop(tmp_path, physical.Map(source, (output("n", "`counter` * 10"),), even))
    for to in (3, 7):
        _commit(loop, to)
    assert rows(tmp_path) == [(20,), (40,), (60,)]


def test_many_rows_are_computed_without_spark_only_if_their_columns_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalEngine, "__init__", partialmethod(LocalEngine.__init__, most_computed=2))
    source = counter(up_to=20_000, rows_per_second=None)
    columns = _loop(tmp_path, physical.Map(source, (output("n", "`counter` * 10"),)))
    _commit(columns, 7)
    assert len(rows(tmp_path)) == 7
    one_by_one = _loop(tmp_path, physical.Map(source, (output("n", "length(`counter`::text)", "integer"),)), table="o")
    _commit(one_by_one, 2)
    with pytest.raises(_SparkAskedError):
        _commit(one_by_one, 10)


@pytest.mark.spark
def test_a_key_is_found_by_either_in_the_bucket_where_the_other_put_it(tmp_path: Path, spark: SparkSession) -> None:
    asked = 0

    def session() -> SparkSession:
        nonlocal asked
        asked += 1
        return spark

    (tmp_path / "in").mkdir()
    made = job(csv_files(tmp_path), tmp_path, key=("id",))
    loop = loop_of(made, contexts(tmp_path, made), discover(), engine=placed_engine(session, 3))
    loop.start(epoch=1)
    pick, seen = random.Random(7), set[int]()
    for turn in range(6):
        ids = [pick.randrange(40) for _ in range(20)]
        seen |= set(ids)
        path = tmp_path / "in" / f"{turn}.csv"
        repeated = 80_000 if turn % 2 else 1  # a large batch
        path.write_text("id\n" + "".join(f"{each}\n" for each in ids) * repeated)
        os.utime(path, (1_700_000_000, 1_700_000_000))
        before = asked
        assert drain(loop) == 1
        assert (asked > before) is (turn % 2 == 1)
        assert rows(tmp_path) == [(each,) for each in sorted(seen)]


def test_a_batch_whose_rows_turn_out_to_be_large_is_done_by_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "a.csv"
    path.write_text("id\n1\n2\n")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    loop = _loop(tmp_path, csv_files(tmp_path), key=("id",))
    monkeypatch.setattr(placement, "_REMEMBERED_S", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(batch, "_BYTES", 10)
        with pytest.raises(_SparkAskedError):
            drain(loop)
    assert drain(loop) == 1
    assert rows(tmp_path) == [(1,), (2,)]


@pytest.mark.parametrize(
    "body",
    [
        physical.Map(counter(), (output("n", "sin(`counter`::double precision)::bigint"),), None),
        physical.Map(counter(), (output("n", "10 / (`counter` - 2)"),), None),  # a row error
    ],
)
def test_what_python_does_not_do_as_spark_does_is_done_by_spark(tmp_path: Path, body: physical.Operator) -> None:
    loop = _loop(tmp_path, body)
    with pytest.raises(_SparkAskedError):
        _commit(loop, 3)


@pytest.mark.parametrize("key", [(), ("counter",)])
def test_rows_that_are_removed_again_need_no_spark(tmp_path: Path, key: tuple[str, ...]) -> None:
    loop = _loop(tmp_path, counter(cardinality=5), key=key)
    for to in (3, 20):
        _commit(loop, to)
    if key:
        assert rows(tmp_path) == [(n,) for n in range(16, 21)]
