"""Tasks that exchange Arrow blobs return the same changes, state and counts as Spark SQL's shuffles."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from operators import pipeline as pipeline_module
from operators import test_in_process_like_spark as sized
from operators.pipeline import Change, Pipeline, call, output, overwriting, plain, source
from sinkql import physical
from sinkql.connector_api.stream import WriteResult
from sinkql.errors import SinkqlError
from sinkql.logical import Cast, Reference
from sinkql.logical.type import TEXT, parse_type
from sinkql.lowering.fused_join import fuse_joins
from sinkql.runtime.batch.engine import Batch, Outcome
from sinkql.runtime.spark.engine import SparkEngine
from sinkql.runtime.spark.execution.frames import Frames
from sinkql.runtime.spark.execution.task_rows import TaskRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_TEXTS = ("", "a", "é", "e\u0301x", "\x00", None)
_INTS = (0, 1, 2, 3, -7, None)
_BUCKETS = 3


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    from pyspark.cloudpickle import register_pickle_by_value

    for each in (pipeline_module, sized, sys.modules[__name__]):
        register_pickle_by_value(each)
    return spark


@dataclass(frozen=True)
class View:
    """A view, the key of its sink, and the common subplans; changes of `e` overwrite, of `f` and `h` are added."""

    body: physical.Operator
    key: tuple[str, ...]
    shared: dict[str, physical.Operator]


def _latest() -> physical.Read:
    return overwriting("e", "k", k="integer", g="text", d="date", n="smallint", r="real", m="numeric(20,2)")


def _added() -> physical.Read:
    return source("f", "append", k="integer", g="text", n="bigint", r="double precision")


def _passed(below: physical.Operator, **names: str) -> physical.Map:
    """Return columns of `below` under other names; a name with a colon has the type of a cast."""
    columns = {column.name: column for column in physical.columns_of(below)}
    outputs = []
    for new, old in names.items():
        name, _, type_ = old.partition(":")
        column = Reference(name, columns[name].type, columns[name].nullable)
        outputs.append(physical.Output(new, Cast(column, parse_type(type_)) if type_ else column))
    return physical.Map(below, tuple(outputs))


def overwritten() -> View:
    return View(_passed(_latest(), d="d", k="k", n="n:bigint", m="m", g="g", r="r"), ("k",), {})


def overwritten_by_two() -> View:
    """A union of two sources whose later rows overwrite earlier ones; one has other names and types."""
    other = source("o", "append", j="integer", t="text", i="integer")
    one = _passed(_added(), k="k", g="g", n="n")
    return View(physical.Union((one, _passed(other, a="j", b="t", c="i:bigint"))), ("k",), {})


def normalized() -> View:
    return View(_passed(physical.Normalize(_latest(), "a1", ("k",)), d="d", k="k", m="m"), ("k",), {})


def counted() -> View:
    """An aggregate of added rows, keyed by its group."""
    below = _passed(_added(), g="g", n="n:numeric(38,0)", i="k", r="r", v="n")
    calls = (
        call("c", "count", None, "bigint"), call("ci", "count", "i", "bigint"), call("s", "sum", "n", "numeric(38,0)"),
        call("x", "max", "r", "double precision"), call("l", "min", "i", "integer"),
        call("y", "min", "r", "double precision"),
        call("z", "sum", "v", "bigint"), call("cd", "count", "i", "bigint", distinct=True),
    )  # fmt: skip
    group = tuple(column for column in physical.columns_of(below) if column.name == "g")
    return View(physical.Aggregate(below, "a1", group, calls, "append"), ("g",), {})


def total() -> View:
    """An aggregate without groups, which has one bucket, under a union with rows of two other operators."""
    rows = _passed(physical.Normalize(_latest(), "a1", ("k",)), k="k", n="n:bigint")
    all_ = physical.Aggregate(
        rows, "a2", (), (call("k", "max", "k", "integer"), call("n", "sum", "n", "bigint")), "retract"
    )
    picked = _passed(physical.Pick(_added(), "a3", ("g", "n")), k="k", n="n")
    return View(physical.Union((all_, picked, _passed(_added(), k="k", n="n"), rows), "retract"), ("n",), {})


def chained() -> View:
    """A rank over an aggregate over changes, with the key of an inner operator."""
    rows = physical.Normalize(_latest(), "a1", ("k",))
    columns = {column.name: column for column in physical.columns_of(rows)}
    calls = (call("c", "count", None, "bigint"), call("s", "sum", "m", "numeric(38,2)"), call("x", "max", "d", "date"))
    summed = physical.Aggregate(
        _passed(rows, g="g", n="n", m="m", d="d"), "a2", (columns["g"], columns["n"]), calls, "retract"
    )
    order = (physical.Order("s", descending=True), physical.Order("n"))
    first = physical.Rank(summed, "a3", ("g",), order, "row_number", 1, 2, "place")
    lag = physical.WindowCall("l", "lag", ("g",), TEXT, (physical.Order("s"), physical.Order("n")), constants=("1",))
    return View(physical.Recompute(first, "a4", ("c",), (lag,)), ("g", "place"), {})


def joined() -> View:
    """Nested full joins of changes, of a shared aggregate, and of added rows; some keys are NULL."""
    rows = physical.Normalize(_latest(), "a1", ("k",))
    summed = physical.Aggregate(
        _added(), "a2", physical.columns_of(_added())[1:2], (call("s", "sum", "n", "bigint"),), "append"
    )
    use = physical.Use("u", physical.columns_of(summed), "retract")
    left = physical.Side(rows, "j-l", ("g",), ("k", "g", "m", "r"))
    right = physical.Side(_passed(use, f="g", s="s"), "j-r", ("f",), ("f", "s"))
    inner = physical.Join("full", left, right, "j", (False,))
    other = physical.Side(_passed(use, h="g", i="s"), "i-r", ("h",), ("h", "i"))
    kept = tuple(column.name for column in inner.columns)
    view = physical.Join("left", physical.Side(inner, "i-l", ("g",), kept), other, "i", (False,))
    return View(view, ("k", "g", "f"), {"u": summed})


def matched() -> View:
    """An append-only join of two reads of one source, side by side, whose rows are only added."""
    left = physical.Side(_added(), "j-l", ("g", "k"), ("k", "g", "n"))
    right = physical.Side(_passed(_added(), a="g", b="k", c="n"), "j-r", ("a", "b"), ("c",))
    return View(physical.Join("inner", left, right, "j", (True, False)), (), {})


def latest_sides() -> View:
    """A join whose left side keeps the latest rows of a source that overwrites."""
    left = physical.Side(_latest(), "j-l", ("k",), ("k", "g", "r"), "latest")
    right = physical.Side(_passed(_added(), i="k", n="n"), "j-r", ("i",), ("n",))
    return View(physical.Join("inner", left, right, "j", (False,)), ("k", "n"), {})


def computed() -> View:
    """Expressions and conditions below and above an aggregate, and over rows that overwrite."""
    read = _latest()
    outputs = (output(read, "k", "k"), output(read, "n", "n * 3 + k"), output(read, "g", "CASE WHEN n > 1 THEN g END"))
    rows = physical.Normalize(physical.Map(read, outputs, output(read, "", "n IS NULL OR n < 3")), "a1", ("k",))
    columns = {column.name: column for column in physical.columns_of(rows)}
    calls = (call("c", "count", None, "bigint"), call("s", "sum", "n", "bigint"))
    summed = physical.Aggregate(rows, "a2", (columns["g"],), calls, "retract")
    above = (output(summed, "g", "g"), output(summed, "t", "s * 2 - c"))
    return View(physical.Map(summed, above, output(summed, "", "c <> 2")), ("g",), {})


def filtered() -> View:
    """An append sink of some rows, without an exchange."""
    read = _added()
    return View(physical.Map(read, (output(read, "k", "k + 1"),), output(read, "", "n > 0")), (), {})


VIEWS = (
    computed, filtered, overwritten, overwritten_by_two, normalized, counted, total, chained, joined, matched,
    latest_sides,
)  # fmt: skip


class _Recorded(SparkEngine):
    """An engine that keeps the outcome of its last batch."""

    last: Outcome

    def execute(self, job: physical.Job, batch: Batch) -> Outcome:
        self.last = super().execute(job, batch)
        return self.last


def _pipeline(folder: Path, view: View, session: SparkSession, *, blobs: bool) -> tuple[Pipeline, _Recorded]:
    folder.mkdir()
    engine = _Recorded(lambda: session, buckets=_BUCKETS)
    engine.exchanges_blobs = blobs
    pipeline = Pipeline(folder, fuse_joins(physical.Graph(view.body)).root, engine=engine, shared=view.shared)
    if view.key:
        write = msgspec.structs.replace(pipeline.job.write, key=view.key, mode="upsert")
        pipeline.job = msgspec.structs.replace(pipeline.job, write=write)
        pipeline.names = list(view.key)  # the write task's columns
    pipeline.readers = {name: sized.Sized(read, []) for name, read in pipeline.reads.items()}
    return pipeline, engine


def _batch(pick: random.Random, turn: int) -> dict[str, list[Change]]:
    sizes = {"e": (60, 0, 40)[turn], "f": (0, 50, 30)[turn], "o": (20, 10, 0)[turn]}
    days, floats = sized._VALUES["date"], sized._VALUES["real"]
    return {
        "e": [
            ((pick.randrange(25), pick.choice(_TEXTS), pick.choice(days), pick.choice(_INTS), pick.choice(floats),
              pick.choice((None, pick.randrange(10**6)))), 1)
            if pick.random() < 0.8 else ((pick.randrange(25), None, None, None, None, None), -1)
            for _ in range(sizes["e"])
        ],
        "f": [
            ((pick.choice(_INTS), pick.choice(_TEXTS), pick.choice((*_INTS, 2**50)), pick.choice(floats)), 1)
            for _ in range(sizes["f"])
        ],
        "o": [((25 + pick.randrange(9), pick.choice(_TEXTS), turn), 1) for _ in range(sizes["o"])],
    }  # fmt: skip


def _counts(outcome: Outcome) -> dict[str, Any]:
    return {
        "sources": dict(outcome.source_counts),
        "flows": {name: replace(flow, read=0) for name, flow in outcome.flows.items()},
        "buckets": sorted(result.bucket for result in outcome.results),
    }


@pytest.mark.share(12)
@pytest.mark.parametrize("view", VIEWS)
def test_blobs_bring_the_same_changes_state_and_counts_as_rows_of_spark(
    view: Callable[[], View], tmp_path: Path, session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_blobs, by_rows = (_pipeline(tmp_path / str(blobs), view(), session, blobs=blobs) for blobs in (True, False))
    pick = random.Random(view.__name__)
    for turn in range(3):
        batch = _batch(pick, turn)
        told, kept, counts = [], [], []
        for pipeline, engine in (by_blobs, by_rows):
            pipeline.offer(**{name: batch[name] for name in pipeline.readers})
            with monkeypatch.context() as patch:
                if engine.exchanges_blobs:
                    patch.setattr(Frames, "frame", None)
                else:
                    patch.setattr(TaskRows, "written", None)
                rows, state = pipeline.attempt()
            pipeline.commit(rows, state)
            told.append(Counter(map(plain, rows)))
            kept.append(sized._kept(pipeline))
            counts.append(_counts(engine.last))
        assert told[0] == told[1]
        assert kept[0] == kept[1]
        assert counts[0] == counts[1]


def test_a_sum_of_removed_rows_that_does_not_fit_is_an_error_of_a_row(tmp_path: Path, session: SparkSession) -> None:
    read = source("e", "retract", g="text", n="bigint")
    view = physical.Aggregate(read, "a1", physical.columns_of(read)[:1], (call("s", "sum", "n", "bigint"),), "retract")
    pipeline, _ = _pipeline(tmp_path / "p", View(view, ("g",), {}), session, blobs=True)
    for name in pipeline.inputs:
        pipeline.inputs[name].update({("a", -(2**63)): 1})
    pipeline.offer(e=[(("a", -(2**63)), -1)])
    with pytest.raises(SinkqlError, match="a sum is out of range") as failed:
        pipeline.attempt()
    assert failed.value.code == "SQ3201"


def _divided(session: SparkSession, folder: Path, text: str) -> Pipeline:
    read = source("e", "append", k="bigint", n="bigint", unused="text")
    view = physical.Map(read, (output(read, "k", "k"), output(read, "q", text)))
    return _pipeline(folder, View(view, ("k",), {}), session, blobs=True)[0]


def test_a_row_that_fails_in_a_task_is_shown_whole_by_spark(tmp_path: Path, session: SparkSession) -> None:
    pipeline = _divided(session, tmp_path / "p", "7 / n")
    pipeline.offer(e=[((1, 2, "a"), 1), ((2, 0, "b"), 1)])
    with pytest.raises(SinkqlError, match="division by zero") as failed:
        pipeline.attempt()
    assert failed.value.code == "SQ3201"
    assert failed.value.detail == 'it fails on the row {"k": 2, "n": 0, "unused": "b"}'


def test_a_guarded_row_is_computed_by_spark_and_so_are_the_next_batches(
    tmp_path: Path, session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = _divided(session, tmp_path / "p", "CASE WHEN n <> 0 THEN 7 / n END")
    asked: list[TaskRows] = []
    written = TaskRows.written

    def noted(rows: TaskRows) -> list[WriteResult]:
        asked.append(rows)
        return written(rows)

    monkeypatch.setattr(TaskRows, "written", noted)
    found = []
    for rows in ([((1, 2, "a"), 1)], [((2, 0, "b"), 1)], [((3, 7, "c"), 1)]):
        pipeline.offer(e=rows)
        changes, state = pipeline.attempt()
        pipeline.commit(changes, state)
        found += [row[:2] for row in changes]
    assert found == [(1, 3), (2, None), (3, 1)]
    assert len(asked) == 2  # not for the third batch
