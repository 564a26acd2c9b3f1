"""After every batch, the top rows of each partition equal the result of the view's SQL over the current input."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from operators.pipeline import Pipeline, plain, source
from operators.test_aggregate import EVENT, changes
from sinkql import physical
from sinkql.connector_api.types import arrow_type
from sinkql.errors import SinkqlError
from sinkql.logical.type import parse_type
from sinkql.row_hash import Hashes
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state import sort_key as orders
from support.hashes import KEY, hashes_as

SIZES = (3, 0, 12, 20, 5, 30, 1)
ALL = list(EVENT)
Term = tuple[str, bool, bool]


def terms(*written: str) -> tuple[physical.Order, ...]:
    """Parse order terms written as "x", "x desc" or "x nulls first"."""
    found = []
    for each in written:
        name, *words = each.split()
        descending = "desc" in words
        first = "first" in words or (descending and "last" not in words)
        found.append(physical.Order(name, descending, first))
    return tuple(found)


def sql(order: Sequence[physical.Order]) -> str:
    return ", ".join(
        f"{each.column}{' DESC' * each.descending} NULLS {'FIRST' if each.nulls_first else 'LAST'}" for each in order
    )


def rank(order: tuple[physical.Order, ...], change: physical.Change = "retract", **options: Any) -> physical.Rank:
    options.setdefault("partition", ("g",))
    return physical.Rank(source("e", change, **EVENT), "ranked", order=order, **options)


def expected(pipeline: Pipeline, operator: physical.Rank, shown: Sequence[str]) -> Counter[Any]:
    by = f"PARTITION BY {', '.join(operator.partition)} " if operator.partition else ""
    over = f"{by}ORDER BY {sql(operator.order)}" if operator.order else by
    number = f"{operator.function}() OVER ({over})"
    last = "" if operator.last is None else f" AND number <= {operator.last}"
    query = f"SELECT *, {number} AS number FROM e QUALIFY number >= {operator.first}{last}"
    return pipeline.expected(f"SELECT {', '.join(shown)} FROM ({query})")


def check(pipeline: Pipeline, operator: physical.Rank) -> None:
    """Check the columns that the order determines, and that all rows are rows of the input."""
    total = operator.function != "row_number"
    decided = [*operator.partition, *(each.column for each in operator.order)]
    shown = [*(ALL if total else decided), *(["number"] if operator.number else [])]
    got = pipeline.got()
    places = [pipeline.names.index(name) for name in shown]
    found: Counter[Any] = Counter()
    rows: Counter[Any] = Counter()
    for row, count in got.items():
        found[plain(row[place] for place in places)] += count  # type: ignore[arg-type]  # any iterable will do
        rows[row[: len(ALL)]] += count
    assert found == expected(pipeline, operator, shown)
    assert rows <= pipeline.inputs["e"]


ORDERS = [
    terms("x"),
    terms("x desc nulls last", "n"),
    terms("n desc"),
    terms("k nulls first", "t desc"),
    terms("d desc", "b"),
    terms("r nulls first", "z"),
    terms("g", "y desc", "f"),
    terms("m desc nulls last"),
    terms("f"),
    terms("y nulls first"),
    (),
    terms("f", "x"),
]


@pytest.mark.share(6)
@pytest.mark.parametrize("change", ["append", "retract"])
@pytest.mark.parametrize("place", range(len(ORDERS)))
def test_first_rows_are_right_after_every_batch(place: int, change: physical.Change, tmp_path: Path) -> None:
    order = ORDERS[place]
    rng = random.Random(f"{place}{change}")
    functions = ["row_number", "rank", "dense_rank"] if order else ["row_number"]
    options: dict[str, Any] = {
        "function": functions[place % len(functions)],
        "partition": [("g",), (), ("g", "k")][place % 3],
        "first": [1, 1, 2][place % 3],
        "last": [2, 1, 4, 9][place % 4],
        "number": ["number", None][place % 2],
    }
    operator = rank(order, change, **options)
    pipeline = Pipeline(tmp_path / "s", operator, buckets=1 + place % 3)
    for size in SIZES:
        pipeline.batch(e=changes(rng, pipeline.inputs["e"], size, retract=change == "retract"))
        check(pipeline, operator)
    assert pipeline.merged > 0
    # the top rows depend only on the current rows, not on their history or the buckets
    again = Pipeline(tmp_path / "again", operator, buckets=2)
    again.batch(e=[(row, count) for row, count in pipeline.inputs["e"].items() if count])
    assert again.got() == pipeline.got()
    if change == "retract":
        pipeline.batch(e=[(row, -count) for row, count in pipeline.inputs["e"].items() if count])
        assert pipeline.got() == Counter()


@pytest.mark.share(6)
@pytest.mark.parametrize("last", [None, 3])
@pytest.mark.parametrize("function", ["row_number", "rank", "dense_rank"])
@pytest.mark.parametrize("reach", [1, 100])  # rows that are read together
def test_ranks_show_ties_and_offsets(function: Any, last: int | None, reach: int, tmp_path: Path) -> None:
    rng = random.Random(f"{function}{last}")
    operator = rank(terms("k", "x desc"), function=function, first=2, last=last, number="number")
    pipeline = Pipeline(tmp_path, operator)
    with patch("sinkql.runtime.state.operator.rank._TOGETHER", reach):
        for size in SIZES[:6]:
            pipeline.batch(e=changes(rng, pipeline.inputs["e"], size, retract=True))
            check(pipeline, operator)


PAIR = {"k": "integer", "v": "text"}


def pairs(change: physical.Change = "retract", **options: Any) -> physical.Rank:
    return physical.Rank(source("e", change, **PAIR), "ranked", ("k",), terms("v"), **options)


@pytest.mark.share(3)
@pytest.mark.parametrize("change", ["append", "retract"])
def test_long_prefixes_that_are_equal_are_told_apart(change: physical.Change, tmp_path: Path) -> None:
    rng = random.Random("prefix")
    pipeline = Pipeline(tmp_path, pairs(change, last=2, number="number"))
    query = "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v) AS number FROM e) WHERE number <= 2"
    for _ in range(8):
        rows = [((rng.randint(0, 2), f"https://example.com/{rng.randint(0, 30):03}"), 1) for _ in range(12)]
        gone = [(row, -1) for row, count in pipeline.inputs["e"].items() if count > 0 and rng.random() < 0.5]
        pipeline.batch(e=rows + (gone if change == "retract" else []))
        assert pipeline.got() == pipeline.expected(query)


@pytest.mark.parametrize("hashed", [0, 1])
def test_partitions_of_one_hash_are_told_apart(hashed: int, tmp_path: Path) -> None:
    """`$h2` tells keys apart if `$h1` is equal in both halves or only in the upper one."""
    rng = random.Random("collision")
    pipeline = Pipeline(tmp_path, pairs(last=2))
    query = "SELECT k, v FROM e QUALIFY row_number() OVER (PARTITION BY k ORDER BY v) <= 2"

    def colliding(domain: int, _: list[Any], upper: Hashes, lower: Hashes) -> tuple[Hashes, Hashes]:
        return (upper & np.uint64(hashed)) + np.uint64(5 << 40) if domain == KEY else upper, lower

    with hashes_as(colliding):
        for _ in range(8):
            rows = [((rng.randint(0, 5), rng.choice("abcdefgh")), 1) for _ in range(15)]
            gone = [(row, -1) for row, count in pipeline.inputs["e"].items() if count > 0 and rng.random() < 0.5]
            pipeline.batch(e=rows + gone)
            assert pipeline.got() == pipeline.expected(query)


def test_same_batch_again_gives_the_same(tmp_path: Path) -> None:
    rng = random.Random("again")
    pipeline = Pipeline(tmp_path, pairs(last=2, number="number"))
    for _ in range(5):
        rows = [((rng.randint(0, 3), rng.choice("aab")), 1) for _ in range(10)]
        pipeline.offer(e=rows)
        first, _ = pipeline.attempt()
        rng.shuffle(rows)
        pipeline.readers["e"].batches[-1] = rows
        second, name = pipeline.attempt()
        assert sorted(first) == sorted(second)
        pipeline.commit(second, name)


def test_only_what_shows_is_told_of(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, pairs(last=2))
    pipeline.batch(e=[((1, "a"), 1), ((1, "b"), 1), ((1, "c"), 1)])
    for batch in ([((1, "c"), -1)], [((1, "d"), 3)], [((2, "c"), 1), ((2, "c"), -1)]):
        pipeline.offer(e=batch)
        found, name = pipeline.attempt()
        assert found == []
        pipeline.commit(found, name)
    pipeline.offer(e=[((1, "a"), -1)])
    found, _ = pipeline.attempt()
    assert sorted(found) == [(1, "a", -1), (1, "d", 1)]


def test_rows_behind_many_that_go_are_the_first(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, pairs(last=2))
    rows = [(1, character) for character in "abcdefghijklmnop"]
    pipeline.batch(e=[(row, 1) for row in rows])
    for gone in (rows[:5], rows[5:12]):
        pipeline.batch(e=[(row, -1) for row in gone])
        assert pipeline.got() == Counter(sorted(+pipeline.inputs["e"])[:2])
    pipeline.batch(e=[(row, 1) for row in rows[:12]])
    assert pipeline.got() == Counter(rows[:2])


def test_row_taken_back_that_was_never_there_is_refused(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, pairs(last=1))
    pipeline.batch(e=[((1, "a"), 1), ((1, "b"), 1)])
    pipeline.readers["e"].batches.append([((1, "b"), -2), ((1, "a"), -1)])
    with pytest.raises(SinkqlError, match='rows ranked by "ranked"') as caught:
        pipeline.attempt()
    assert caught.value.code == "SQ3401"
    assert caught.value.detail == "row (1, 'b')"


def test_of_rows_that_only_come_the_first_alone_are_kept(tmp_path: Path) -> None:
    kept = {}
    for change in ("append", "retract"):
        pipeline = Pipeline(tmp_path / change, pairs(change, last=3))
        for batch in range(8):
            pipeline.batch(e=[((number % 2, f"{7 - batch}{number:03}"), 1) for number in range(300)])
        entries = state.load(pipeline.folder, pipeline.manifests[-1])["arrangements"]["ranked"]
        kept[change] = sum(run["rows"] for runs in entries.values() for run in runs)
    assert kept["append"] < 100
    assert kept["retract"] == 2400


@pytest.mark.parametrize(("function", "number"), [("row_number", None), ("rank", "number"), ("dense_rank", None)])
def test_rows_ranked_in_parts_and_then_together_are_the_first_of_all(
    function: Any, number: str | None, tmp_path: Path
) -> None:
    rng = random.Random(function)
    order = terms("k desc", "x")
    below = rank(order, partition=(), function=function, last=4, parts=True)
    operator = physical.Rank(below, "whole", (), order, function, 2, 4, number)
    pipeline = Pipeline(tmp_path, operator, buckets=3)
    for size in SIZES[:6]:
        pipeline.batch(e=changes(rng, pipeline.inputs["e"], size, retract=True))
        check(pipeline, operator)


def test_no_columns_and_no_rows(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, rank(terms("x"), partition=(), last=1))
    pipeline.batch(e=[])
    pipeline.batch(e=[])
    assert pipeline.got() == Counter()


NUMBERS: dict[str, list[Any]] = {
    "bigint": [-(2**63), -(2**62), -(2**40), -3, -1, 0, 1, 2, 1000, 2**24, 2**40, 2**63 - 1],
    "integer": [-(2**31), -1, 0, 1, 2**31 - 1],
    "numeric(38,10)": [f"{n}" for n in (-(10**27), -(10**19), -(10**10), -1, "-0.0000000001", 0, "0.1", 7, 10**19)],
    "double precision": [float("-inf"), -1e300, -1.0, -1e-300, 0.0, 1e-300, 1.0, 1e300, float("inf"), float("nan")],
    "real": [float("-inf"), -1.0, 0.0, 1.5, float("inf"), float("nan")],
    "text": ["", "a", "ab", "abc", "abcd", "abcde", "b", "z", "ä", "€", "𝄞"],
    "bytea": [b"", b"\x00", b"\x00\x01", b"a", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\xff"],
    "timestamp": [-(2**50), -1, 0, 1, 10**6, 17 * 10**14, 2**55],
    "date": [-100000, -1, 0, 1, 20000],
    "time": [0, 1, 86_399_999_999],
    "boolean": [False, True],
}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("type_", NUMBERS)
def test_bits_and_keys_sort_like_the_values(type_: str, first: bool, descending: bool) -> None:
    values = NUMBERS[type_]
    if type_.startswith("numeric"):
        values = [Decimal(each) for each in values]
    values = values[::-1] if descending else values
    values = [None, *values] if first else [*values, None]
    rows = pa.table({"v": pa.array(values, arrow_type(parse_type(type_)))})
    term = [(physical.Order("v", descending, first), "v")]
    keys = orders.sort_keys(rows, term)
    assert np.lexsort(keys[::-1]).tolist() == list(range(len(values)))
    assert orders.starts_of(np.zeros(len(values), np.int64), keys).all()
    bits = orders.first_bits(rows, term, np.zeros(len(values), np.int64)).astype(np.int64)
    assert (np.diff(bits) >= 0).all()
    assert bits.min() >= 0
    assert bits.max() < 1 << 32
    assert len(set(bits.tolist())) >= len(values) // 2


def test_bits_of_rows_without_an_order_sort_like_their_hashes() -> None:
    hashes = np.array([-(2**63), -(2**40), -1, 0, 1, 2**40, 2**63 - 1], np.int64)
    assert (np.diff(orders.hash_bits(hashes).astype(np.int64)) >= 0).all()


MANY = {"k": "integer", "v": "boolean", "n": "bigint"}


@contextmanager
def numbered_by_hash(sign: int = 1) -> Iterator[None]:
    """Set one `$h1` for all partitions, and the last column, times `sign`, as the row hash."""

    def numbered(domain: int, columns: list[Any], upper: Hashes, lower: Hashes) -> tuple[Hashes, Hashes]:
        if domain == KEY:
            return np.full(len(upper), 5 << 40, np.uint64), columns[0].to_numpy().astype(np.uint64)
        return (sign * columns[-1].to_numpy()).astype(np.int64).view(np.uint64), lower

    with hashes_as(numbered):
        yield


@pytest.mark.share(3)
@pytest.mark.parametrize("function", ["row_number", "rank", "dense_rank"])
@pytest.mark.parametrize("order", ["v", "v n"])
def test_many_rows_of_one_value_in_partitions_of_one_hash(order: str, function: Any, tmp_path: Path) -> None:
    """A partition has more rows of one value than the first read returns; they are stored by row hash."""
    rng = random.Random(f"{function} {order}")
    operator = physical.Rank(source("e", "retract", **MANY), "ranked", ("k",), terms(*order.split()), function, 1, 1)
    total = "v, n" if function == "row_number" else order.replace(" ", ", ")
    query = f"SELECT k, v, n FROM e QUALIFY {function}() OVER (PARTITION BY k ORDER BY {total}) <= 1"
    pipeline = Pipeline(tmp_path, operator, buckets=1)
    with numbered_by_hash(1 if order == "v" else -1):
        pipeline.batch(e=[((k, k == 1, n), 1) for k in range(5) for n in rng.sample(range(10, 99), 12)])
        for number in range(20):
            there = sorted(pipeline.inputs["e"].elements())
            gone = there[:1] if number % 3 == 2 else rng.sample(there, 2) if number % 2 else []
            come = {(k := rng.randrange(5), k == 1, rng.randrange(10, 99)) for _ in range(2)} - {*there}
            pipeline.batch(e=[*((row, -1) for row in gone), *((row, 1) for row in come)])
            assert pipeline.got() == pipeline.expected(query)


@pytest.mark.parametrize("other", [0, 2])
def test_a_row_of_another_partition_of_the_same_hashes_is_not_taken_back(other: int, tmp_path: Path) -> None:
    operator = physical.Rank(source("e", "retract", **MANY), "ranked", ("k",), terms("v"), "row_number", 1, 1)
    pipeline = Pipeline(tmp_path, operator, buckets=1)
    with numbered_by_hash():
        pipeline.batch(e=[((other, False, 7), 1)])
        pipeline.readers["e"].batches.append([((1, False, 7), -1)])
        with pytest.raises(SinkqlError, match=r'SQ3401.*rows ranked by "ranked"'):
            pipeline.attempt()
