"""Batches in the driver and in Spark produce the same changes and the same state, in any order."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from operators import pipeline as pipeline_module
from operators.pipeline import Change, Listed, Pipeline, call, output, overwriting, plain, source
from sinkql import physical
from sinkql.connector_api.stream import Size, Split
from sinkql.logical.type import TEXT, parse_type
from sinkql.lowering.fused_join import fuse_joins
from sinkql.runtime.batch.engine import SparkNeededError
from sinkql.runtime.local import batch as local_batch
from sinkql.runtime.local import placement
from sinkql.runtime.local import size as local_size
from sinkql.runtime.schedule.placed_engine import PlacedEngine
from support.running import placed_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.share(2)]


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin each batch in process, although one before it gave up."""
    monkeypatch.setattr(placement, "_REMEMBERED_S", 0.0)


_NAN = float("nan")
_VALUES: dict[str, tuple[Any, ...]] = {
    "text": ("", "a", "é", "e\u0301", "A", "a ", "\x00", "𝄞" * 5, None),
    "uuid": ("11111111-2222-3333-4444-555555555555", "a1111111-2222-3333-4444-555555555555", None),
    "bigint": (0, -1, 2**63 - 1, -(2**63), None),
    "smallint": (0, -1, 2**15 - 1, None),
    "boolean": (True, False, None),
    "date": (date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31), None),
    "time": (time(0), time(23, 59, 59, 999999), None),
    "timestamp": (datetime(1, 1, 1), datetime(1582, 10, 10), datetime(9999, 12, 31, 23, 59, 59, 999999), None),
    "timestamptz": (datetime(1582, 10, 10, tzinfo=UTC), datetime(2024, 3, 31, 1, 30, tzinfo=UTC), None),
    "numeric(38,9)": (Decimal("0E-9"), Decimal("-1.500000000"), Decimal("9" * 29 + "." + "9" * 9), None),
    "uint8": (Decimal(2**64 - 1), Decimal(0), None),
    "real": (0.0, -0.0, 1.5, _NAN, float("inf"), None),
    "double precision": (0.0, -0.0, 0.1, _NAN, float("-inf"), None),
    "bytea": (b"", b"\x00\xff", None),
    "jsonb": ('{"a": 1}', "null", None),
    "interval": ("1 day", "-00:00:01", None),
    "integer[]": ((), (1, None), (None, None, 7), None),
    "text[]": ((), ("a", None), (None, "b"), ("",), None),
    "boolean[]": ((True, None), (False,), None),
    "double precision[]": ((0.0, None), (-0.0, _NAN), (), None),
}


@dataclass(frozen=True)
class Sized(Listed):
    """A source that is small if the test says so, and otherwise of unknown size."""

    small_: list[bool] = field(default_factory=lambda: [False])

    def size(self, splits: Sequence[Split]) -> Size | None:
        return Size(1, 1) if self.small_[0] else None


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    from pyspark.cloudpickle import register_pickle_by_value

    for each in (pipeline_module, sys.modules[__name__]):
        register_pickle_by_value(each)
    return spark


def _read() -> physical.Read:
    types = {f"c{place}": type_ for place, type_ in enumerate(_VALUES)}
    return overwriting("e", "k", "g", k="integer", g="text", **types)


def _changes(pick: random.Random, came: list[Change], size: int) -> list[Change]:
    """Return changes of a few keys; some rows are repeated unchanged."""
    found: list[Change] = []
    for _ in range(size):
        key = (pick.choice((*range(8), None)), pick.choice(("a", "é", None)))
        chance = pick.random()
        if came and chance < 0.3:
            found.append(pick.choice(came))
        elif chance < 0.5:
            found.append(((*key, *(None for _ in _VALUES)), -1))
        else:
            found.append(((*key, *map(pick.choice, _VALUES.values())), 1))
    came += found
    return found


def _whole() -> physical.Operator:
    return physical.Normalize(_read(), "a1", ("k", "g"))


def _united() -> physical.Operator:
    """Return a union of two stateful parts of one source and an append source."""
    read = _read()
    one = _some(physical.Normalize(read, "a1", read.key), "g", "c2", "c18")
    two = _some(physical.Normalize(read, "a2", read.key), "c0", "c2", "c18")
    other = source("f", "append", g="text", c2="bigint", c18="boolean[]")
    return physical.Union((one, two, other), "retract")


def _joined() -> physical.Operator:
    """Return nested joins of a stateful source with append sources, with values of all types but arrays."""
    read = _read()
    kept = tuple(f"c{place}" for place, type_ in enumerate(_VALUES) if not type_.endswith("[]"))
    left = physical.Side(
        physical.Normalize(read, "a1", read.key), "j-l", ("g",), (*(each for each in kept if each != "c2"), "g")
    )
    right = physical.Side(source("f", "append", f="text", c2="bigint", c18="boolean[]"), "j-r", ("f",), ("f", "c2"))
    join = physical.Join("full", left, right, "j", (False,))
    names = [each.name for each in join.columns]
    below = physical.Map(join, (*(output(join, name, name) for name in names), output(join, "u", "coalesce(g, f)")))
    other = physical.Side(source("h", "append", h="text", n="bigint"), "i-r", ("h",), ("n",))
    view = physical.Join("full", physical.Side(below, "", ("u",), tuple(names)), other, "i", (False,))
    return fuse_joins(physical.Graph(view)).root


def _computed() -> physical.Operator:
    """Return a ranked aggregate over changing rows with a window function above, united with a total."""
    read = _read()
    rows = physical.Normalize(read, "a1", read.key)
    texts = {"g": "g", "s": "c3 + 1", "n": "c3 * 1.5", "t": "c0 || 'x'", "d": "c5", "f": "c12", "y": "c7"}
    outputs = tuple(output(rows, name, text) for name, text in texts.items())
    mapped = physical.Map(rows, outputs, output(rows, "w", "c4 IS NOT TRUE AND c3 < 32767"))
    columns = {each.name: each for each in physical.columns_of(mapped)}
    calls = (
        call("c", "count", None, "bigint"), call("cs", "count", "s", "bigint"), call("ss", "sum", "s", "bigint"),
        call("sn", "sum", "n", "numeric(38,1)"), call("lt", "min", "t", "text"), call("ud", "max", "d", "date"),
        call("cd", "count", "y", "bigint", distinct=True),
    )  # fmt: skip
    counted = physical.Aggregate(mapped, "a2", (columns["g"], columns["f"]), calls, "retract")
    first = physical.Rank(counted, "a3", ("g",), (physical.Order("ss", True, True),), "rank", 1, 2, "place")
    lag = physical.WindowCall("l", "lag", ("lt",), TEXT, (physical.Order("sn", False, False),), constants=("1",))
    shown = physical.Recompute(first, "a4", ("g",), (lag,))
    other = source("f", "append", f="text", c2="bigint", c18="boolean[]")
    none = physical.Aggregate(other, "a5", (), (call("c2", "sum", "c2", "bigint"),), "append")
    both = (_of(shown, "g", "c", "place", "l"), _of(none, g="'all'::text", c="c2", place="c2 * 2", l="'none'::text"))
    return physical.Union(both, "retract")


def _flattened() -> physical.Operator:
    """Return the elements of arrays, some of them several times."""
    rows = physical.Normalize(_read(), "a1", ("k", "g"))
    elements = physical.Flatten(rows, output(rows, "c16", "c16"), "element", parse_type("integer"), "n", outer=True)
    mapped = _of(elements, "g", "c0", "c4", "element", "n")
    times = output(mapped, "$times", "CASE WHEN c4 THEN 2::bigint WHEN n = 1 THEN 0::bigint ELSE 1::bigint END")
    return physical.Repeat(mapped, times)


def _broadcast() -> physical.Operator:
    """Return all pairs of rows of two sides, and rows with a key beside a replicated side."""
    rows = physical.Normalize(_read(), "a1", ("k", "g"))
    left = physical.Side(rows, "j-l", (), ("g", "c0", "c2"))
    right = physical.Side(source("h", "append", h="text", n="bigint"), "j-r", (), ("h",), replicated=True)
    pairs = physical.Join("inner", left, right, "j", ())
    keyed = physical.Side(source("f", "append", f="text", c2="bigint", c18="boolean[]"), "i-r", ("f",), ("c18",),
                          replicated=True)  # fmt: skip
    return physical.Join("inner", physical.Side(pairs, "i-l", ("g",), ("g", "c0", "c2", "h")), keyed, "i", (False,))


def _grouped() -> physical.Operator:
    """Return groups by arrays and floats, and a sum of floats."""
    rows = physical.Normalize(_read(), "a1", ("k", "g"))
    columns = {each.name: each for each in physical.columns_of(rows)}
    group = tuple(columns[name] for name in ("g", "c16", "c17", "c19", "c11"))
    counted = physical.Aggregate(rows, "a2", group, (call("c", "count", None, "bigint"),), "retract")
    halves = source("f", "append", f="text", c2="bigint", c18="boolean[]")
    mapped = _of(halves, "f", "c18", d="c2 * 0.5::double precision")
    by_list = tuple(each for each in physical.columns_of(mapped) if each.name == "c18")
    summed = physical.Aggregate(mapped, "a3", by_list, (call("s", "sum", "d", "double precision"),), "append")
    both = (_of(counted, "g", "c16", c="c::double precision"), _of(summed, g="'f'::text", c16="ARRAY[1, 2]", c="s"))
    return physical.Union(both, "retract")


def _of(below: physical.Operator, *names: str, **texts: str) -> physical.Operator:
    every = {name: f'"{name}"' for name in names} | texts
    return physical.Map(below, tuple(output(below, name, text) for name, text in every.items()))


def _some(normalize: physical.Normalize, *names: str) -> physical.Operator:
    body = physical.Map(normalize, tuple(output(normalize, name, f'"{name}"') for name in names))
    return physical.narrowed(physical.Graph(body), names).root


def _pipeline(folder: Path, body: physical.Operator, engine: PlacedEngine) -> tuple[Pipeline, list[bool]]:
    folder.mkdir()
    pipeline, small = Pipeline(folder, body, engine=engine), [False]
    pipeline.readers = {name: Sized(read, [], small) for name, read in pipeline.reads.items()}
    key = tuple(name for name in ("g", "c0", "c2", "c16", "c18") if name in pipeline.names)
    write = msgspec.structs.replace(pipeline.job.write, key=key)
    pipeline.job = msgspec.structs.replace(pipeline.job, write=write)
    pipeline.names = list(key)  # the write task's columns
    return pipeline, small


def _kept(pipeline: Pipeline) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    return {
        (name, bucket): [(each["rows"], each["digest"]) for each in runs]
        for name, buckets in pipeline.entries().items()
        for bucket, runs in buckets.items()
    }


def _too_large(*given: object) -> None:
    """Abandon the in-process batch after all its state is written."""
    raise SparkNeededError


@pytest.mark.share(7)
@pytest.mark.parametrize("body", [_whole, _united, _joined, _computed, _flattened, _broadcast, _grouped])
def test_whoever_does_a_batch_gives_the_same_and_keeps_the_same(
    body: Callable[[], physical.Operator], tmp_path: Path, session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pipeline runs in Spark, one alternates, and one falls back to Spark at the end."""
    pick, came, asked = random.Random(body.__name__), list[Change](), 0

    def spark() -> SparkSession:
        nonlocal asked
        asked += 1
        return session

    engine = placed_engine(spark, 3)
    pipelines = {name: _pipeline(tmp_path / name, body(), engine) for name in ("spark", "both", "large")}
    for turn, size in enumerate((30, 40, 20, 15)):
        batch = {
            "e": _changes(pick, came, size),
            "f": [(("a", turn, None), 1), ((None, 2, ()), 1)],
            "h": [(("a", turn), 1)],
        }
        if turn == 3:
            batch["e"] = [change for change in batch["e"] if change[1] > 0]
            came.clear()
        told, kept = {}, {}
        for name, (pipeline, small) in pipelines.items():
            small[0] = name == "large" or (name == "both" and turn != 1)
            if turn == 3:
                pipeline.truncate("e")
            pipeline.offer(**{source: batch[source] for source in pipeline.readers})
            before = asked
            with monkeypatch.context() as patch:
                if name == "large":
                    patch.setattr(local_batch.LocalBatch, "_written", _too_large)
                rows, state = pipeline.attempt()
            assert (asked > before) is (name == "large" or not small[0]), name
            pipeline.commit(rows, state)
            told[name], kept[name] = Counter(map(plain, rows)), _kept(pipeline)
        assert told["both"] == told["large"] == told["spark"]
        assert kept["both"] == kept["large"] == kept["spark"]


class _SparkAskedError(Exception):
    pass


def test_a_batch_without_rows_of_a_side_is_the_drivers_however_large_a_merge_of_that_side_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> Any:
        raise _SparkAskedError

    left = physical.Side(source("e", "append", k="bigint"), "j-l", ("k",), ("k",))
    right = physical.Side(source("f", "append", j="bigint", n="bigint"), "j-r", ("j",), ("n",))
    view = physical.Union((physical.Join("inner", left, right, "j", (False,)),), "retract")
    pipeline = Pipeline(tmp_path, view, engine=placed_engine(none, 1))
    pipeline.readers = {name: Sized(read, [], [True]) for name, read in pipeline.reads.items()}
    pipeline.batch(f=[((key, key), 1) for key in range(40)])
    monkeypatch.setattr(local_size, "_MERGED_ROWS", 30)
    pipeline.offer(f=[((1, 5), 1)])
    with pytest.raises(_SparkAskedError):
        pipeline.attempt()
    pipeline.batch(e=[((3,), 1)])
    assert pipeline.got() == Counter({(3, 3): 1})
