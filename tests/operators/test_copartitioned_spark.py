"""An operator keyed like the sink: its tasks write their own output, which is already in the sink's buckets."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest

from operators import pipeline as pipeline_module
from operators import test_in_process_like_spark as sized
from operators.pipeline import Pipeline, Taking, call, overwriting, plain
from sinkql import physical
from sinkql.connector_api.stream import WriteResult
from sinkql.errors import SinkqlError
from sinkql.logical import Reference
from sinkql.logical.type import BIGINT, TEXT, parse_type
from sinkql.runtime.local.murmur3 import bucket_numbers
from sinkql.runtime.spark.arrow import Consolidation
from sinkql.runtime.spark.engine import SparkEngine
from sinkql.runtime.spark.execution import frames as spark_frames
from sinkql.state_store.directory import StateDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TYPES = {pa.string(): "text", pa.int64(): "bigint", pa.int32(): "integer", pa.date32(): "date"}
_KEYS: tuple[Any, ...] = ("", "a", "é", "e\u0301x", None)


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    from pyspark.cloudpickle import register_pickle_by_value

    for each in (pipeline_module, sized, sys.modules[__name__]):
        register_pickle_by_value(each)
    return spark


@dataclass(frozen=True)
class Placing(Taking):
    """A write task that checks that its rows belong to its bucket by the sink's key."""

    def __call__(self, bucket: int, attempt: str, batches: Iterator[pa.RecordBatch]) -> WriteResult:
        def checked() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                columns = [batch.column(name) for name in self.key]
                places = bucket_numbers(columns, [parse_type(_TYPES[each.type]) for each in columns], self.buckets or 0)
                assert set(places.tolist()) <= {bucket}, (bucket, batch.to_pylist())
                yield batch

        return super().__call__(bucket, attempt, checked())


def _rows() -> physical.Normalize:
    return physical.Normalize(overwriting("e", "k", k="integer", g="text", d="date", n="bigint"), "a1", ("k",))


def _handed_on(below: physical.Operator, **names: str) -> physical.Map:
    """Return the columns of `below` renamed and reordered."""
    columns = {each.name: each for each in physical.columns_of(below)}
    types = {each.name: each.type for each in _typed(below)}
    outputs = [physical.Output(new, Reference(old, types[old], columns[old].nullable)) for new, old in names.items()]
    return physical.Map(below, tuple(outputs))


def _typed(below: physical.Operator) -> list[Any]:
    return [Reference(each.name, each.type, each.nullable) for each in physical.columns_of(below)]


def aggregated() -> tuple[physical.Operator, tuple[str, ...]]:
    rows = _rows()
    columns = {each.name: each for each in physical.columns_of(rows)}
    calls = (call("c", "count", None, "bigint"), call("s", "sum", "n", "bigint"))
    below = physical.Aggregate(rows, "a2", (columns["g"], columns["d"]), calls, "retract")
    return _handed_on(below, total="s", day="d", word="g", count="c"), ("day", "word")


def picked() -> tuple[physical.Operator, tuple[str, ...]]:
    below = physical.Pick(_rows(), "a2", ("g", "n"))
    return _handed_on(below, n="n", g="g", k="k", d="d"), ("n", "g")


def normalized() -> tuple[physical.Operator, tuple[str, ...]]:
    return _handed_on(_rows(), d="d", key="k", g="g", n="n"), ("key",)


def ranked() -> tuple[physical.Operator, tuple[str, ...]]:
    order = (physical.Order("n", descending=True), physical.Order("k"))
    return physical.Rank(_rows(), "a2", ("g",), order, "row_number", 1, 1), ("g",)


def recomputed() -> tuple[physical.Operator, tuple[str, ...]]:
    order = (physical.Order("n"), physical.Order("k"))
    texts = physical.WindowCall("all", "array_agg", ("n",), parse_type("bigint[]"), order)
    below = physical.Recompute(_rows(), "a2", ("d", "g"), (texts,), grouped=True)
    return _handed_on(below, all="all", g="g", d="d"), ("g", "d")


def halved() -> tuple[physical.Operator, tuple[str, ...]]:
    """Return a computed view in which a row may stay the same although its group changed."""
    below, key = aggregated()
    outputs = {"day": "day", "word": "word", "half": "total / 8"}
    computed = [pipeline_module.output(below, name, text) for name, text in outputs.items()]
    return physical.Map(below, tuple(computed), pipeline_module.output(below, "", "count < 4")), key


def narrowed() -> tuple[physical.Operator, tuple[str, ...]]:
    """Return a view of each key's day that ignores changes of other columns."""
    return _handed_on(_rows(), d="d", key="k"), ("key",)


_WHOLE = (aggregated, picked, normalized, ranked, recomputed)
_COMPUTED = (halved, narrowed)


def _changes(pick: random.Random, size: int) -> list[Any]:
    days = sized._VALUES["date"]
    found = []
    for _ in range(size):
        key = pick.randrange(30)
        row = (key, pick.choice(_KEYS), pick.choice(days), pick.choice((1, 2, 3, None)))
        found.append(((key, None, None, None), -1) if pick.random() < 0.2 else (row, 1))
    return found


@pytest.mark.spark
@pytest.mark.share(8)
@pytest.mark.parametrize("body", [*_WHOLE, *_COMPUTED])
def test_rows_are_written_in_the_tasks_that_give_them_in_their_sinks_buckets(
    body: Callable[[], tuple[physical.Operator, tuple[str, ...]]],
    tmp_path: Path,
    session: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tasks, Spark SQL, the driver and the local engine return the same changes and store the same state."""
    view, key = body()
    writing: list[str] = []
    monkeypatch.setattr(spark_frames, "_written", _noted(writing))
    monkeypatch.setattr(spark_frames, "_consolidated", None)
    pipelines, small = {}, [False]
    for name in ("spark", "sql", "both", "local"):
        (tmp_path / name).mkdir()
        engine = None if name == "local" else SparkEngine(lambda: session, buckets=3)
        if engine is not None:
            engine.exchanges_blobs = name != "sql"
        pipeline = pipelines[name] = Pipeline(tmp_path / name, view, engine=engine, buckets=3)
        pipeline.readers = {name: sized.Sized(read, [], small) for name, read in pipeline.reads.items()}
        write = msgspec.structs.replace(pipeline.job.write, key=key)
        pipeline.job = msgspec.structs.replace(pipeline.job, write=write)
        pipeline.names = list(key)
    pick = random.Random(body.__name__)
    for turn, size in enumerate((60, 40, 40)):
        changes, told, kept = _changes(pick, size), {}, {}
        for name, pipeline in pipelines.items():
            small[0] = name == "both" and turn != 1
            monkeypatch.setattr(pipeline_module, "Taking", Taking if name == "local" else Placing)
            pipeline.offer(e=changes)
            rows, state = pipeline.attempt()
            pipeline.commit(rows, state)
            told[name], kept[name] = Counter(map(plain, rows)), sized._kept(pipeline)
        assert told["both"] == told["spark"] == told["sql"]
        # if a key has several rows, each engine picks one by its own hashes
        assert body is picked or told["spark"] == told["local"]
        assert kept["both"] == kept["spark"] == kept["sql"]
    assert len(writing) == (3 if body in _WHOLE else 0)  # only Spark SQL's batches


def _noted(writing: list[str]) -> Callable[..., Any]:
    real = spark_frames._written

    def noted(copartitioned: physical.Copartitioned, job: physical.Job, *given: Any) -> Any:
        writing.append(job.sink)
        return real(copartitioned, job, *given)

    return noted


@pytest.mark.spark
def test_a_row_on_which_an_expression_above_fails_is_told(tmp_path: Path, session: SparkSession) -> None:
    below, key = aggregated()
    outputs = [pipeline_module.output(below, name, name) for name in ("day", "word")]
    view = physical.Map(below, (*outputs, pipeline_module.output(below, "n", "7 / (total - 3)")))
    pipeline = Pipeline(tmp_path, view, engine=SparkEngine(lambda: session, buckets=3))
    write = msgspec.structs.replace(pipeline.job.write, key=key)
    pipeline.job = msgspec.structs.replace(pipeline.job, write=write)
    pipeline.offer(e=[((number, word, None, number), 1) for number, word in enumerate("abcdefgh")])
    with pytest.raises(SinkqlError, match="division by zero") as failed:
        pipeline.attempt()
    assert failed.value.code == "SQ3201"
    assert failed.value.detail == 'it fails on the row {"total": 3, "day": null, "word": "d", "count": 1}'


def test_what_comes_and_goes_at_once_is_left_out_in_parts_as_in_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pick = random.Random(11)
    rows = [(pick.choice(_KEYS), pick.randrange(50), pick.randrange(3), pick.choice((-1, 1))) for _ in range(2000)]
    batches = [pa.RecordBatch.from_pylist([dict(zip("ghn", row, strict=False)) | {"$diff": row[3]} for row in some])
               for some in (rows[:700], [], rows[700:])]  # fmt: skip
    total: Counter[tuple[Any, ...]] = Counter()
    for *row, diff in rows:
        total[tuple(row)] += diff
    consolidation = Consolidation(("g", "h"), (TEXT, BIGINT), StateDirectory(tmp_path))
    for most in (1 << 20, 1):
        monkeypatch.setattr("sinkql.storage.spill.MOST", most)
        monkeypatch.setattr("sinkql.storage.spill.PART", 300)
        found = [tuple(row.values()) for batch in consolidation(iter(batches)) for row in batch.to_pylist()]
        assert len(found) == len({row[:3] for row in found})
        assert {row[:3]: row[3] for row in found} == {row: diff for row, diff in total.items() if diff}


@pytest.mark.share(4)
@pytest.mark.parametrize("body", _WHOLE)
def test_what_is_computed_or_left_out_above_it_is_known(
    body: Callable[[], tuple[physical.Operator, tuple[str, ...]]],
) -> None:
    view, key = body()
    names = [each.name for each in physical.columns_of(view)]

    def whole(view: physical.Operator, names: list[str] = names) -> bool:
        found = physical.copartitioned(view, names, key)
        assert found is not None
        return bool(found.columns)

    assert whole(view)
    other = next(name for name in names if name not in key)
    assert not whole(view, [name for name in names if name != other])
    assert not whole(physical.Map(view, where=pipeline_module.output(view, "", f'"{other}" IS NOT NULL')))
    outputs = [pipeline_module.output(view, name, f'"{name}"') for name in names]
    assert whole(physical.Map(view, tuple(outputs)))
    outputs[names.index(other)] = pipeline_module.output(view, other, f'coalesce("{other}", "{other}")')
    assert not whole(physical.Map(view, tuple(outputs)))


@pytest.mark.share(4)
@pytest.mark.parametrize("body", _WHOLE)
def test_a_sink_by_another_key_needs_an_exchange(
    body: Callable[[], tuple[physical.Operator, tuple[str, ...]]],
) -> None:
    view, key = body()
    names = [each.name for each in physical.columns_of(view)]
    assert physical.copartitioned(view, names, ()) is None
    assert physical.copartitioned(view, names, names) is None
    outputs = [pipeline_module.output(view, name, f'"{name}"') for name in names]
    outputs[names.index(key[0])] = pipeline_module.output(view, key[0], f'coalesce("{key[0]}", "{key[0]}")')
    assert physical.copartitioned(physical.Map(view, tuple(outputs)), names, key) is None
    # a prefix of the common key is enough
    assert physical.copartitioned(view, names, key[:1]) is not None
