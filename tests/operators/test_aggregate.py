"""After every batch, an aggregate's rows equal the result of the view's SQL over the current input."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from operators.pipeline import Change, Pipeline, Row, call, columns, output, source
from sinkql import physical
from sinkql.errors import SinkqlError

EVENT = {
    "g": "text", "k": "integer", "x": "bigint", "m": "numeric(12,2)", "d": "double_precision", "r": "real",
    "t": "timestamp", "z": "timestamptz", "b": "bytea", "f": "boolean", "y": "date", "n": "numeric(38,10)",
}  # fmt: skip
NUMERIC = "numeric(38,10)"


def event(rng: random.Random) -> Row:
    """Return a row of few distinct values, many of them special values of their type."""
    start = datetime(2024, 1, 1)
    choices: tuple[list[Any], ...] = (
        ["a", "b", "", "ä", None],
        [0, 1, None],
        [1, 2, -3, 2**40, None],
        [Decimal("1.10"), Decimal("-2.25"), Decimal("0.00"), None],
        [0.0, -0.0, float("nan"), float("inf"), float("-inf"), -1.5, -2.75, 2.25, None],
        [0.0, -0.0, float("nan"), 0.5, -0.25, -8.0, None],
        [start, start + timedelta(microseconds=1), datetime(1969, 12, 31, 23, 59, 59, 999999), None],
        [start.replace(tzinfo=UTC), datetime(2030, 5, 5, tzinfo=UTC), None],
        [b"", b"\x00", b"\xff\x00", None],
        [True, False, None],
        [date(1969, 12, 31), date(2024, 2, 29), None],
        [Decimal("12345678901234567890123456.0123456789"), Decimal("-1"), Decimal("0.0000000001"), None],
    )
    return tuple(rng.choice(values) for values in choices)


def changes(rng: random.Random, live: Counter[Row], size: int, *, retract: bool) -> list[Change]:
    """Return inserts, some with a multiplicity, and with `retract` also deletes of existing rows."""
    found: list[Change] = []
    for _ in range(size):
        row = event(rng)
        found.append((row, rng.choice([1, 1, 2]) if retract else 1))
    if retract:
        for row, count in live.items():
            if count and rng.random() < 0.4:
                found.append((row, -rng.randint(1, count)))
        again = event(rng)
        found += [(again, 1), (again, -1)]
    rng.shuffle(found)
    return found


def counts(below: physical.Operator, change: physical.Change) -> physical.Operator:
    calls = (
        call("c", "count", None, "bigint"),
        call("cx", "count", "x", "bigint"),
        call("sx", "sum", "x", NUMERIC),
        call("sk", "sum", "k", "bigint"),
        call("sm", "sum", "m", "numeric(38,2)"),
        call("sn", "sum", "n", NUMERIC),
    )
    return physical.Aggregate(below, "counts", columns(g="text"), calls, change)


COUNTS = """
    SELECT g, count(*) AS c, count(x) AS cx, sum(x) AS sx, sum(k) AS sk, sum(m) AS sm, sum(n) AS sn
    FROM e
    GROUP BY g
"""


def having(below: physical.Operator, change: physical.Change) -> physical.Operator:
    grouped = counts(below, change)
    where = output(grouped, "", "c > 2 AND sx IS NOT NULL")
    outputs = (output(grouped, "g", "g || '!'"), output(grouped, "avg", "sx::double precision / cx"))
    return physical.Map(grouped, outputs, where)


def extremes(below: physical.Operator, change: physical.Change) -> physical.Operator:
    calls = tuple(
        call(f"{function}_{name}", function, name, EVENT[name].replace("_", " "))
        for name in ("x", "m", "d", "r", "t", "g", "b", "n")
        for function in ("min", "max")
    )
    return physical.Aggregate(below, "extremes", columns(k="integer"), calls, change)


def distinct_counts(below: physical.Operator, change: physical.Change) -> physical.Operator:
    calls = (
        *(call(f"c_{name}", "count", name, "bigint", distinct=True) for name in ("x", "d", "g", "n")),
        call("s_x", "sum", "x", NUMERIC, distinct=True),
        call("s_m", "sum", "m", "numeric(38,2)", distinct=True),
        call("c", "count", "x", "bigint"),
        call("s", "sum", "x", NUMERIC),
        call("l", "min", "x", "bigint"),
    )
    return physical.Aggregate(below, "distinct_counts", columns(k="integer"), calls, change)


def everything(below: physical.Operator, change: physical.Change) -> physical.Operator:
    """Return an aggregate of a single group, which exists from the first batch on."""
    calls = (
        call("c", "count", None, "bigint"),
        call("s", "sum", "m", "numeric(38,2)"),
        call("d", "count", "g", "bigint", distinct=True),
        call("l", "min", "t", "timestamp"),
        call("h", "max", "d", "double precision"),
    )
    return physical.Aggregate(below, "everything", (), calls, change)


def plain_total(below: physical.Operator, change: physical.Change) -> physical.Operator:
    where = output(below, "", "g = 'a'")
    calls = (call("c", "count", None, "bigint"), call("h", "max", "x", "bigint"))
    return physical.Aggregate(physical.Map(below, where=where), "total", (), calls, change)


def distinct_rows(below: physical.Operator, change: physical.Change) -> physical.Operator:
    return physical.Aggregate(below, "distinct_rows", columns(k="integer", d="double_precision"), (), change)


def every_type(below: physical.Operator, change: physical.Change) -> physical.Operator:
    names = ("m", "r", "t", "z", "b", "f", "y", "n")
    group = columns(**{name: EVENT[name] for name in names})
    return physical.Aggregate(below, "every_type", group, (call("c", "count", None, "bigint"),), change)


def twice(below: physical.Operator, change: physical.Change) -> physical.Operator:
    calls = (
        call("groups", "count", "g", "bigint"),
        call("h", "max", "sx", NUMERIC),
        call("d", "count", "sm", "bigint", distinct=True),
    )
    return physical.Aggregate(counts(below, change), "twice", columns(c="bigint"), calls, "retract")


def union(below: physical.Operator, change: physical.Change) -> physical.Operator:
    """Return an aggregate over a union of source rows and rows of another aggregate."""
    left = physical.Map(below, (output(below, "v", "x"),))
    grouped = counts(below, change)
    right = physical.Map(grouped, (output(grouped, "v", "c"),))
    both = physical.Union((left, right, left))
    calls = (call("c", "count", None, "bigint"), call("s", "sum", "v", NUMERIC))
    return physical.Aggregate(both, "both", columns(v="bigint"), calls, "retract")


VIEWS = {
    counts: COUNTS,
    having: f"SELECT g || '!', CAST(sx / CAST(cx AS DECIMAL(38,10)) AS DOUBLE) FROM ({COUNTS}) WHERE c > 2 AND cx > 0",
    extremes: """
        SELECT k, min(x), max(x), min(m), max(m), min(d), max(d), min(r), max(r), min(t), max(t), min(g), max(g),
            min(b), max(b), min(n), max(n)
        FROM e GROUP BY k""",
    distinct_counts: """
        SELECT k, count(DISTINCT x), count(DISTINCT d), count(DISTINCT g), count(DISTINCT n), sum(DISTINCT x),
            sum(DISTINCT m), count(x), sum(x), min(x)
        FROM e GROUP BY k""",
    everything: "SELECT count(*), sum(m), count(DISTINCT g), min(t), max(d) FROM e",
    plain_total: "SELECT count(*), max(x) FROM e WHERE g = 'a'",
    distinct_rows: "SELECT DISTINCT k, d FROM e",
    every_type: "SELECT m, r, t, z, b, f, y, n, count(*) FROM e GROUP BY ALL",
    twice: f"SELECT c, count(g), max(sx), count(DISTINCT sm) FROM ({COUNTS}) GROUP BY c",
    union: f"""
        SELECT v, count(*), sum(v)
        FROM (SELECT x AS v FROM e UNION ALL SELECT c FROM ({COUNTS}) UNION ALL SELECT x FROM e)
        GROUP BY v""",
}


@pytest.mark.share(8)
@pytest.mark.parametrize("change", ["append", "retract"])
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.__name__)
def test_after_every_batch_a_view_is_what_its_sql_gives(view: Any, change: physical.Change, tmp_path: Path) -> None:
    rng = random.Random(f"{view.__name__}{change}")
    pipeline = Pipeline(tmp_path, view(source("e", change, **EVENT), change), buckets=1 + len(view.__name__) % 4)
    for size in (0, 3, 0, 12, 1, 20, 30, 5, 8, 2, 40, 1):
        pipeline.batch(e=changes(rng, pipeline.inputs["e"], size, retract=change == "retract"))
        assert pipeline.expected(VIEWS[view]) == pipeline.got()
    if change == "retract":
        pipeline.batch(e=[(row, -count) for row, count in pipeline.inputs["e"].items() if count])
        assert pipeline.expected(VIEWS[view]) == pipeline.got()
        pipeline.batch(e=changes(rng, pipeline.inputs["e"], 9, retract=True))
        assert pipeline.expected(VIEWS[view]) == pipeline.got()
    assert pipeline.merged > 0


_PAIR = {"g": "text", "x": "bigint"}


@pytest.mark.parametrize("wrong", [[(None, -3)], [(1, -2), (None, 1)], [(1, 1), (None, -2)]])
@pytest.mark.parametrize("column", [None, "x"])
def test_a_row_taken_back_that_was_never_there_is_refused(
    column: str | None, wrong: list[tuple[int | None, int]], tmp_path: Path
) -> None:
    calls = (call("c", "count", column, "bigint"),)
    view = physical.Aggregate(source("e", "retract", **_PAIR), "counted", columns(g="text"), calls, "retract")
    pipeline = Pipeline(tmp_path, view)
    pipeline.batch(e=[(("a", 1), 1), (("a", None), 1)])
    pipeline.readers["e"].batches.append([(("a", x), diff) for x, diff in wrong])
    if column is None and sum(diff for _, diff in wrong) >= -2:
        pipeline.attempt()  # count(*) cannot tell the rows apart
        return
    with pytest.raises(SinkqlError, match='aggregate "counted"') as caught:
        pipeline.attempt()
    assert caught.value.code == "SQ3401"


def test_a_value_taken_back_that_was_never_there_is_refused(tmp_path: Path) -> None:
    calls = (call("h", "max", "x", "bigint"),)
    view = physical.Aggregate(source("e", "retract", **_PAIR), "highest", columns(g="text"), calls, "retract")
    pipeline = Pipeline(tmp_path, view)
    pipeline.batch(e=[(("a", 1), 2)])
    pipeline.readers["e"].batches.append([(("a", 2), -1)])
    with pytest.raises(SinkqlError, match='aggregate "highest"') as caught:
        pipeline.attempt()
    assert (caught.value.code, caught.value.detail) == ("SQ3401", 'column "x", value 2')
