"""A row is visible while its comparison with mz_now() is true, to the microsecond, for every type."""

from __future__ import annotations

import operator
import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from sinkql.errors import SinkqlError
from sinkql.program.compiler import compile_text
from sinkql.testing import Pipeline, loads
from support.overwriting import registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BASE = 1_704_067_200_000
START = datetime(2024, 1, 1)
EPOCH = datetime(1970, 1, 1)
STEPS = range(-2, 3)
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
MICROS = (-2000, -1001, -1000, -999, -1, 0, 1, 499, 500, 999, 1000, 1001)
VALUES: dict[str, list[Any]] = {
    "timestamp": [*(START + timedelta(microseconds=each) for each in MICROS), datetime(1, 1, 1), datetime(9999, 1, 1)],
    "timestamptz": [(START + timedelta(microseconds=each)).replace(tzinfo=UTC) for each in MICROS],
    "date": [START.date(), date(2023, 12, 31), date(1900, 1, 1)],
    "numeric(38,10)": [*(BASE + Decimal(each) / 1000 for each in MICROS), Decimal(10) ** 17, -(Decimal(10) ** 17)],
    "bigint": [BASE - 1, BASE, BASE + 1, 2**63 - 1, -(2**63)],
    "integer": [0, -1, 2**31 - 1],
    "uint8": [BASE, BASE + 1],
}


def milliseconds(value: Any) -> Fraction:
    if isinstance(value, datetime):
        return Fraction((value.replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1), 1000)
    if isinstance(value, date):
        return milliseconds(datetime(value.year, value.month, value.day))
    return Fraction(value)


def moment(at: int) -> datetime:
    return EPOCH + timedelta(milliseconds=at)


def shown(pipeline: Pipeline, view: str) -> list[int]:
    return [row["id"] for row in pipeline.rows(view)]


@pytest.mark.parametrize("type_", VALUES)
def test_a_row_shows_while_the_comparison_is_true(type_: str) -> None:
    views = {}
    for number, sign in enumerate(COMPARISONS):
        views[f"l{number}"] = (sign, f"mz_now() {sign} v")
        views[f"r{number}"] = (sign, f"(v) {FLIPPED[sign]} (mz_now())")
    script = f"CREATE SOURCE t (id integer NOT NULL, v {type_}) FROM FILES (PATH = 't') FORMAT JSON;"
    for name, (_, condition) in views.items():
        script += f"CREATE VIEW {name} AS SELECT id FROM t WHERE {condition};"
    values = VALUES[type_]
    with loads(script) as pipeline:
        pipeline.set_time(moment(BASE + STEPS[0]))
        pipeline.insert(
            "t", [*({"id": place, "v": value} for place, value in enumerate(values)), {"id": -1, "v": None}]
        )
        for step in STEPS:
            pipeline.set_time(moment(BASE + step))
            for name, (sign, condition) in views.items():
                compare = COMPARISONS[sign]
                true = [place for place, each in enumerate(values) if compare(BASE + step, milliseconds(each))]
                assert shown(pipeline, name) == true, (condition, step)


@pytest.mark.spark
def test_the_times_are_the_same_in_spark(spark: SparkSession) -> None:
    from sinkql import logical
    from sinkql.connector_api.types import parse_type
    from sinkql.evaluate import function_of
    from sinkql.lowering.spark.expression import spark_sql
    from sinkql.lowering.spark.sql import spark_type

    for type_ in ("timestamp", "timestamptz", "date", "numeric(38,10)", "bigint"):
        script = f"CREATE SOURCE t (id integer NOT NULL, v {type_} NOT NULL) FROM FILES (PATH = 't') FORMAT JSON;"
        script += "CREATE VIEW both AS SELECT id FROM t WHERE mz_now() >= v AND mz_now() <= v;"
        with loads(script) as pipeline:
            view = pipeline._catalog.item("materialize.public.both")
        assert isinstance(view, logical.View)
        bound = view.relation
        while not isinstance(bound, logical.Bound):
            (bound,) = logical.inputs_of(bound)
        assert bound.begin is not None
        assert bound.end is not None
        values = [each.isoformat() if isinstance(each, date) else each for each in VALUES[type_]]
        texts = [f"({place}, '{each}')" for place, each in enumerate(values)]
        rows = f"SELECT id, CAST(v AS {spark_type(parse_type(type_))}) AS v FROM VALUES {', '.join(texts)} AS t(id, v)"
        text = f"SELECT {spark_sql(bound.begin)}, {spark_sql(bound.end)} FROM ({rows}) ORDER BY id"
        computed = [function_of(each, ["id", "v"]) for each in (bound.begin, bound.end)]
        expected = [tuple(each((0, value)) for each in computed if each) for value in VALUES[type_]]
        assert [tuple(row) for row in spark.sql(text).collect()] == expected, type_


def test_several_bounds_show_what_all_of_them_do() -> None:
    script = """
        CREATE TABLE t (id integer NOT NULL, a timestamp, b timestamp);
        CREATE VIEW v AS
        SELECT id FROM t WHERE mz_now() >= a AND id > 0 AND mz_now() < b AND mz_now() < a + INTERVAL '1 minute';
        CREATE VIEW between AS SELECT id FROM t WHERE mz_now() BETWEEN a AND b AND id <> 2;
        CREATE VIEW around AS SELECT id FROM t WHERE a BETWEEN '2024-01-01' AND mz_now();
    """
    rows = [(1, 0, 30), (2, 0, 90), (3, 20, 30), (0, 0, 90), (4, 30, 20)]
    with loads(script) as pipeline:
        pipeline.set_time(START)
        pipeline.insert(
            "t",
            [{"id": id_, "a": START + timedelta(seconds=a), "b": START + timedelta(seconds=b)} for id_, a, b in rows],
        )
        for second in (0, 10, 20, 29, 30, 31, 59, 60, 90, 91):
            pipeline.set_time(START + timedelta(seconds=second))
            assert shown(pipeline, "v") == [i for i, a, b in rows if i > 0 and a <= second < b and second < a + 60]
            assert shown(pipeline, "between") == sorted(i for i, a, b in rows if i != 2 and a <= second <= b)
            assert shown(pipeline, "around") == sorted(i for i, a, b in rows if a <= second)


def test_having_shows_groups_by_what_they_come_to() -> None:
    script = """
        CREATE TABLE t (g text, at timestamp);
        CREATE VIEW fresh AS
        SELECT g, count(*) AS n FROM t GROUP BY g HAVING mz_now() <= max(at) + INTERVAL '1 minute' AND count(*) > 1;
    """
    with loads(script) as pipeline:
        pipeline.set_time(START)
        rows = [{"g": g, "at": START + timedelta(seconds=at)} for g, at in (("a", 0), ("a", 10), ("b", 0), ("c", 0))]
        pipeline.insert("t", [*rows, rows[3]])
        seen = {}
        for second in (0, 60, 61, 70, 71):
            pipeline.set_time(START + timedelta(seconds=second))
            seen[second] = [(row["g"], row["n"]) for row in pipeline.rows("fresh")]
        assert seen == {0: [("a", 2), ("c", 2)], 60: [("a", 2), ("c", 2)], 61: [("a", 2)], 70: [("a", 2)], 71: []}
        pipeline.insert("t", {"g": "b", "at": START + timedelta(seconds=71)})
        assert pipeline.rows("fresh") == [{"g": "b", "n": 2}]
        pipeline.delete("t", {"g": "b", "at": START})
        assert pipeline.rows("fresh") == []


JOINS = """
    CREATE TABLE a (id integer NOT NULL, g integer, seen timestamp);
    CREATE TABLE b (g integer, name text, until timestamp);
"""
JOINED = {
    "both": ("a JOIN b USING (g)", "mz_now() <= seen AND mz_now() < until"),
    "one": ("a JOIN b ON a.g = b.g AND a.id > 0", "mz_now() <= seen AND name <> 'z'"),
    "left": ("a LEFT JOIN b USING (g)", "mz_now() <= seen"),
    "filled": ("a LEFT JOIN b USING (g)", "mz_now() < until"),
    "right": ("b RIGHT JOIN a USING (g)", "mz_now() <= seen"),
    "full": ("a FULL JOIN b USING (g)", "mz_now() <= seen AND mz_now() < until"),
    "within": (
        "(SELECT seen + INTERVAL '5 seconds' AS late, id, name FROM a JOIN b USING (g)) AS x",
        "mz_now() < late",
    ),
    "of two": ("a JOIN b USING (g)", "mz_now() < greatest(seen, until)"),
}


@pytest.mark.parametrize("form", JOINED)
def test_a_join_shows_what_its_sides_do_at_each_time(form: str) -> None:
    from_, where = JOINED[form]
    rng = random.Random(form)
    a = [(i, rng.choice([1, 2, 3, None]), _time(rng.choice([*range(0, 60, 5), None]))) for i in range(12)]
    b = [(rng.choice([1, 2, 4, None]), rng.choice("xyz"), _time(rng.choice([10, 30, 50, None]))) for _ in range(8)]
    with loads(f"{JOINS} CREATE VIEW v AS SELECT id, name FROM {from_} WHERE {where};") as pipeline:
        for second in range(0, 61, 5):
            pipeline.set_time(START + timedelta(seconds=second))
            half = slice(second % 2, None, 2)
            if second in (0, 15):
                pipeline.insert("a", [{"id": i, "g": g, "seen": seen} for i, g, seen in a[half]])
                pipeline.insert("b", [{"g": g, "name": name, "until": until} for g, name, until in b[half]])
            if second == 25:
                pipeline.delete("a", {"id": 2})
            found = Counter(tuple(row.values()) for row in pipeline.rows("v"))
            then = where.replace("mz_now()", f"(TIMESTAMP '{START}' + INTERVAL {second} SECOND)")
            assert found == _of_duckdb(pipeline, f"SELECT id, name FROM {from_} WHERE {then}"), second


def _of_duckdb(pipeline: Pipeline, sql: str) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as database:
        for table in JOINS.strip().splitlines():
            database.execute(table)
        for name in "ab":
            rows = [list(row.values()) for row in pipeline.rows(name)]
            database.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)
        return Counter(database.execute(sql).fetchall())


def _time(second: int | None) -> datetime | None:
    return None if second is None else START + timedelta(seconds=second)


@pytest.mark.parametrize("holes", [False, True])
def test_rows_that_overwrite_each_other_show_as_they_are_last(holes: bool) -> None:
    script = f"""
        CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');
        CREATE SOURCE e FROM LOAD GENERATOR COUNTER;
        CREATE MATERIALIZED VIEW recent AS
        SELECT k, t FROM e WHERE mz_now() < x::bigint * 1000 + {BASE} AND t <> 'hidden';
        CREATE VIEW busy AS SELECT count(*) AS n FROM recent;
        CREATE SINK recent_sink FROM recent INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 'a')
          KEY (k) MODE UPSERT WITH (COMMIT INTERVAL = '1s');
    """
    catalog = compile_text(script, registry=registry(Path("nowhere"), holes=holes)).catalog
    assert catalog is not None
    with Pipeline(catalog, ()) as pipeline:

        def seen(second: int) -> tuple[list[tuple[int, str]], int]:
            pipeline.set_time(START + timedelta(seconds=second))
            rows = [(row["k"], row["t"]) for row in pipeline.rows("recent")]
            assert rows == [(row["k"], row["t"]) for row in pipeline.rows("recent_sink")]
            return rows, pipeline.rows("busy")[0]["n"]

        pipeline.set_time(START)
        pipeline.upsert("e", [{"k": 1, "x": 30, "t": "a"}, {"k": 2, "x": 30, "t": "b"}, {"k": 3, "x": 99, "t": "c"}])
        assert seen(0) == ([(1, "a"), (2, "b"), (3, "c")], 3)
        pipeline.upsert("e", [{"k": 1, "x": 60, "t": "d"}, {"k": 3, "x": 99, "t": "hidden"}])
        assert seen(29) == ([(1, "d"), (2, "b")], 2)
        assert seen(30) == ([(1, "d")], 1)
        pipeline.upsert("e", {"k": 2, "x": 50, "t": "e"})
        assert seen(30) == ([(1, "d"), (2, "e")], 2)
        pipeline.delete("e", {"k": 1})
        assert seen(49) == ([(2, "e")], 1)
        assert seen(50) == ([], 0)


def test_the_time_of_a_pipeline_continues() -> None:
    with loads("CREATE TABLE t (id integer NOT NULL, a timestamp); CREATE VIEW v AS SELECT id FROM t;") as pipeline:
        pipeline.set_time("2024-01-01 00:00:01+01")
        pipeline.commit()
        with pytest.raises(SinkqlError, match="cannot go back") as caught:
            pipeline.set_time("2023-12-31 23:00:00")
        assert caught.value.code == "SQ2661"
        pipeline.set_time(datetime(2023, 12, 31, 23, 0, 1))
