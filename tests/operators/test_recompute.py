"""After every batch, window functions equal the result of the view's SQL over the current input."""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators.pipeline import Pipeline, source
from operators.test_aggregate import EVENT, changes
from operators.test_rank import sql, terms
from sinkql import physical
from sinkql.errors import SinkqlError
from sinkql.logical.type import DOUBLE, TEXT, parse_type
from sinkql.physical import Frame, FrameBound
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.operator.recompute import WIDEST
from sinkql.runtime.state.window.compute import collects
from sinkql.runtime.state.window.rows import Rows

SIZES = (4, 0, 12, 20, 3)
TOTAL = terms("k", "x desc", "m", "n nulls first", "d", "r", "t", "z", "b", "f", "y")
NUMERIC = "numeric(38,10)"


def bound(offset: int | str | None, *, start: bool) -> str:
    match offset:
        case None:
            return f"UNBOUNDED {'PRECEDING' if start else 'FOLLOWING'}"
        case 0:
            return "CURRENT ROW"
        case int():
            return f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"
        case str() if " " not in offset:
            return f"{offset.lstrip('-')} {'PRECEDING' if offset[0] == '-' else 'FOLLOWING'}"
        case _:
            months, days, micros = map(int, offset.split())
            interval = f"INTERVAL '{abs(months)} months {abs(days)} days {abs(micros)} microseconds'"
            return f"{interval} {'PRECEDING' if min(months, days, micros) < 0 else 'FOLLOWING'}"


def over(call: physical.WindowCall) -> str:
    """Return a window call as DuckDB's SQL."""
    order = f" ORDER BY {sql(call.order)}" if call.order else ""
    frame = ""
    if call.frame is not None:
        start, end = bound(call.frame.start.offset, start=True), bound(call.frame.end.offset, start=False)
        frame = f" {call.frame.unit.upper()} BETWEEN {start} AND {end} EXCLUDE {call.frame.exclude.upper()}"
    arguments = ", ".join([*call.columns[:1], *call.constants, *call.columns[1:]])
    return f"{call.function}({arguments}) OVER (PARTITION BY g{order}{frame})"


def call(function: str, *columns: str, type_: str = "bigint", **options: Any) -> physical.WindowCall:
    return physical.WindowCall("v", function, columns, parse_type(type_), **options)


def frame(unit: Any, start: int | str | None, end: int | str | None, exclude: Any = "no others") -> Frame:
    return Frame(unit, FrameBound(start), FrameBound(end), exclude)


def recompute(*calls: physical.WindowCall, change: physical.Change = "retract") -> physical.Recompute:
    named = tuple(
        physical.WindowCall(f"v{place}", *(getattr(each, name) for name in each.__struct_fields__[1:]))
        for place, each in enumerate(calls)
    )
    return physical.Recompute(source("e", change, **EVENT), "windows", ("g",), named)


BY = terms("k", "x desc")
FRAMES = [
    None,
    frame("rows", None, 0),
    frame("rows", -2, 1),
    frame("rows", 1, 3),
    frame("rows", -3, -2, "current row"),
    frame("rows", None, None, "group"),
    frame("rows", -2, 2, "ties"),
    frame("groups", -1, 0),
    frame("groups", 1, 2),
    frame("groups", -1, 1, "group"),
    frame("groups", None, 1, "ties"),
    frame("range", None, None),
    frame("range", 0, None, "current row"),
    frame("range", 0, 0, "ties"),
]
RANGES = [
    (terms("x"), frame("range", -2, 1)),
    (terms("x desc"), frame("range", 1, None)),
    (terms("m nulls first"), frame("range", "-3.351", "0.5")),
    (terms("n desc"), frame("range", "-12345678901234567890123456", "1")),
    (terms("t"), frame("range", "-1 0 0", "0 0 1")),
    (terms("y desc"), frame("range", "-660 -2 0", 0)),
    (terms("z desc nulls last"), frame("range", None, "0 400 5")),
]


def check(pipeline: Pipeline, operator: physical.Recompute) -> None:
    calls = ", ".join(f"{over(each)} AS {each.name}" for each in operator.calls)
    assert pipeline.got() == pipeline.expected(f"SELECT *, {calls} FROM e")


def run(folder: Path, operator: physical.Recompute, seed: str, sizes: tuple[int, ...] = SIZES) -> Pipeline:
    rng = random.Random(seed)
    pipeline = Pipeline(folder, operator)
    retract = physical.change_of(operator.input) == "retract"
    for size in sizes:
        pipeline.batch(e=changes(rng, pipeline.inputs["e"], size, retract=retract))
        check(pipeline, operator)
    return pipeline


@pytest.mark.parametrize("change", ["append", "retract"])
def test_numbers_and_values_of_other_rows_are_right(change: physical.Change, tmp_path: Path) -> None:
    run(
        tmp_path,
        recompute(
            call("row_number", order=TOTAL),
            call("rank", order=BY),
            call("dense_rank", order=BY),
            call("percent_rank", order=BY, type_="double precision"),
            call("cume_dist", order=BY, type_="double precision"),
            call("ntile", order=TOTAL, constants=("3",), type_="integer"),
            call("lag", "m", order=TOTAL, constants=("1",), type_="numeric(12,2)"),
            call("lead", "x", "k", order=TOTAL, constants=("2",)),
            call("lag", "b", order=TOTAL, constants=("-1",), type_="bytea"),
            call("lead", "b", order=TOTAL, constants=("0",), type_="bytea"),
            call("rank"),
            change=change,
        ),
        f"numbers{change}",
    )


@pytest.mark.share(3)
@pytest.mark.parametrize("place", range(len(FRAMES)))
def test_frames_have_the_rows_that_they_should(place: int, tmp_path: Path) -> None:
    each = FRAMES[place]
    order = TOTAL if each is not None and each.unit == "rows" else BY
    operator = recompute(
        call("count", order=order, frame=each),
        call("count", "n", order=order, frame=each),
        call("sum", "n", order=order, frame=each, type_=NUMERIC),
        call("sum", "x", order=order, frame=each),
        call("min", "d", order=order, frame=each, type_="double precision"),
        call("max", "b", order=order, frame=each, type_="bytea"),
        call("min", "t", order=order, frame=each, type_="timestamp"),
        call("first_value", "y", order=TOTAL, frame=each, type_="date"),
        call("last_value", "n", order=TOTAL, frame=each, type_=NUMERIC),
        call("nth_value", "x", order=TOTAL, frame=each, constants=("2",)),
    )
    run(tmp_path, operator, f"frame{place}", (14, 9, 3))


@pytest.mark.share(2)
@pytest.mark.parametrize("place", range(len(RANGES)))
def test_ranges_reach_as_far_as_they_say(place: int, tmp_path: Path) -> None:
    order, each = RANGES[place]
    calls = (call("count", order=order, frame=each), call("sum", "k", order=order, frame=each))
    run(tmp_path, recompute(*calls), f"range{place}", (20, 9))


_DAYS = [
    datetime(2024, month, day)
    for month in (1, 2, 3, 4)
    for day in (1, 2, 28, 29, 30, 31)
    if day <= (31, 29, 31, 30)[month - 1]
]
_NEAR: dict[str, tuple[list[Any], list[tuple[str, str]]]] = {
    "integer": ([1, 2, 3, 5, 8], [("-1", "2"), ("1", "3"), ("-3", "-2")]),
    "numeric(6,2)": (
        [Decimal(each).scaleb(-2) for each in (100, 150, 155, 156, 206, 211, 212)],
        [("-0.5", "0.5"), ("-0.555", "0.555"), ("-0.561", "-0.055"), ("0.055", "0.555")],
    ),
    "timestamp": (_DAYS, [("-1 0 0", "1 0 0"), ("-1 -1 0", "1 1 0"), ("0 -1 0", "0 29 0"), ("1 1 0", "2 0 0")]),
    "date": ([each.date() for each in _DAYS], [("-1 0 0", "1 0 0"), ("0 -2 0", "0 0 0"), ("-2 0 0", "-1 0 0")]),
}
"""Values whose distances equal the bounds of ranges, or differ from them slightly."""


@pytest.mark.parametrize("order", ["x", "x desc", "x nulls first"])
@pytest.mark.parametrize(
    ("type_", "start", "end"), [(type_, *each) for type_, (_, ranges) in _NEAR.items() for each in ranges]
)
def test_a_range_ends_where_a_value_is_just_so_far(
    type_: str, start: str, end: str, order: str, tmp_path: Path
) -> None:
    columns = {"g": "text", "x": type_}
    counted = call("count", order=terms(order), frame=frame("range", start, end))
    operator = physical.Recompute(source("e", "retract", **columns), "windows", ("g",), (counted,))
    pipeline = Pipeline(tmp_path, operator)
    pipeline.batch(e=[(("a", each), 1) for each in (*_NEAR[type_][0], None, None)])
    check(pipeline, operator)


PAIR = {"g": "text", "x": "double_precision"}


def doubles(*calls: physical.WindowCall) -> physical.Recompute:
    return physical.Recompute(source("e", "retract", **PAIR), "windows", ("g",), calls)


def test_a_range_of_floats_has_nan_alone_and_infinities_with_themselves(tmp_path: Path) -> None:
    values = [1.0, 2.5, 2.4, float("inf"), float("-inf"), None, "NaN"]
    for order, counted in (("x", [1, 3, 2, 1, 1, 1, 1]), ("x desc", [3, 1, 2, 1, 1, 1, 1])):
        near = call("count", order=terms(order), frame=frame("range", "-1.5", 0))
        pipeline = Pipeline(tmp_path / order.replace(" ", ""), doubles(near))
        pipeline.batch(e=[(("a", each), 1) for each in values])
        assert {row[1]: row[2] for row in pipeline.got()} == dict(zip(values, counted, strict=True))


def test_sum_of_floats_depends_on_what_is_there_alone(tmp_path: Path) -> None:
    """A running sum would keep rounding errors of large values that were deleted."""
    order = terms("x")
    calls = (
        call("sum", "x", order=order, type_="double precision"),
        physical.WindowCall("w", "sum", ("x",), DOUBLE, order, frame("rows", -1, 0)),
    )
    pipeline = Pipeline(tmp_path / "s", doubles(*calls))
    pipeline.batch(e=[(("a", each), 1) for each in (1e300, 0.1, 0.2, -1e300, 0.3)])
    pipeline.batch(e=[(("a", -1e300), -1), (("a", 1e300), -1)])
    again = Pipeline(tmp_path / "again", doubles(*calls))
    again.batch(e=[(("a", each), 1) for each in (0.3, 0.1, 0.2)])
    assert pipeline.got() == again.got()
    assert sorted(row[2] for row in again.got()) == [0.1, 0.1 + 0.2, 0.1 + 0.2 + 0.3]


def test_sum_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    types = {"g": "text", "x": "bigint"}
    operator = physical.Recompute(source("e", "retract", **types), "windows", ("g",), (call("sum", "x"),))
    pipeline = Pipeline(tmp_path, operator)
    pipeline.batch(e=[(("a", 2**63 - 1), 1), (("b", 1), 1)])
    pipeline.offer(e=[(("a", 1), 1)])
    with pytest.raises(SinkqlError, match='sum out of range in "v"') as caught:
        pipeline.attempt()
    assert caught.value.code == "SQ3211"


def test_row_taken_back_that_was_never_there_is_refused(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, doubles(call("count")))
    pipeline.batch(e=[(("a", 1.0), 1)])
    pipeline.readers["e"].batches.append([(("a", 1.0), -2)])
    with pytest.raises(SinkqlError, match='rows of keys of "windows"') as caught:
        pipeline.attempt()
    assert caught.value.code == "SQ3401"


def test_rows_whose_values_stay_are_not_told_of(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, doubles(call("rank", order=terms("x"))))
    pipeline.batch(e=[(("a", 1.0), 1), (("a", 3.0), 1), (("b", 0.0), 1)])
    pipeline.offer(e=[(("a", 2.0), 1)])
    found, _ = pipeline.attempt()
    assert sorted(found) == [("a", 2.0, 2, 1), ("a", 3.0, 2, -1), ("a", 3.0, 3, 1)]


def test_manifest_says_how_many_rows_the_widest_key_has(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, doubles(call("count")), buckets=1)
    for batch, widest in (([("a", 1.0)] * 3, 3), ([("b", 1.0)] * 2, 3), ([("b", 2.0)] * 4, 6)):
        pipeline.batch(e=[(row, 1) for row in batch])
        entries = state.load(pipeline.folder, pipeline.manifests[-1])["arrangements"]["windows"]["0"]
        assert entries[-1][WIDEST] == widest


def test_window_over_all_rows(tmp_path: Path) -> None:
    operator = physical.Recompute(
        source("e", "retract", **PAIR), "windows", (), (call("row_number", order=terms("g", "x")),)
    )
    pipeline = Pipeline(tmp_path, operator, buckets=3)
    pipeline.batch(e=[])
    for rows in ([("b", 1.0), ("a", 2.0)], [("a", 1.0)]):
        pipeline.batch(e=[(row, 1) for row in rows])
        assert pipeline.got() == pipeline.expected("SELECT *, row_number() OVER (ORDER BY g, x) FROM e")
    pipeline.batch(e=[(("a", 1.0), -1), (("a", 2.0), -1), (("b", 1.0), -1)])
    assert pipeline.got() == Counter()


@collects("longest")
def _longest(rows: Rows, call: physical.WindowCall) -> pa.Array:
    """Return the first value of each key and its number of rows."""
    values = rows.column(call.columns[0]).to_pylist()
    pairs = zip(rows.begins.tolist(), rows.ends.tolist(), strict=True)
    return pa.array([f"{values[begin]} of {end - begin}" if begin < end else "nothing" for begin, end in pairs])


@pytest.mark.parametrize("key", [("g",), ()])
@pytest.mark.parametrize("distinct", [False, True])
def test_one_row_a_key_as_its_rows_come_and_go(key: tuple[str, ...], distinct: bool, tmp_path: Path) -> None:
    longest = physical.WindowCall("v", "longest", ("x",), TEXT, terms("x desc"), distinct=distinct)
    operator = physical.Recompute(source("e", "retract", g="text", x="bigint"), "windows", key, (longest,), True)
    pipeline = Pipeline(tmp_path, operator)
    pipeline.batch(e=[])
    assert pipeline.got() == (Counter() if key else Counter([("nothing",)]))
    pipeline.batch(e=[(("a", 2), 2), (("a", 1), 1), (("b", 1), 1)])
    assert pipeline.got() == Counter(
        [("a", f"2 of {2 if distinct else 3}"), ("b", "1 of 1")] if key else [(f"2 of {2 if distinct else 4}",)]
    )
    pipeline.offer(e=[(("b", 1), -1), (("b", 1), 1)])
    assert pipeline.attempt()[0] == []
    pipeline.commit(*pipeline.attempt())
    pipeline.offer(e=[(("a", 2), 1)])
    again = pipeline.attempt()
    assert bool(again[0]) != distinct
    pipeline.commit(*again)
    pipeline.batch(e=[(("a", 3), 1)])
    count = (3 if distinct else 5) + (not key and not distinct)
    assert pipeline.got() == Counter([("a", f"3 of {count}"), ("b", "1 of 1")] if key else [(f"3 of {count}",)])
    pipeline.batch(e=[(("b", 1), -1), (("a", 3), -1), (("a", 2), -3), (("a", 1), -1)])
    assert pipeline.got() == (Counter() if key else Counter([("nothing",)]))
