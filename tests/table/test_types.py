"""Values of every type from statements through a table, views and sinks to readers of Iceberg tables."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.table.snapshots import Summary

from sinkql.errors import SinkqlError
from sinkql.runtime.batch.engine import Engine
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.local.engine import LocalEngine
from sinkql.session import Session
from support.eager import compact_eagerly
from support.readers import duckdb_folder, open_table, spark_rows
from support.running import drain, loop_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SINK = "INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{0}') {1} WITH (COMMIT INTERVAL = '1s');"
_SETUP = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///catalog.db', WAREHOUSE = 'lake');
CREATE TABLE t (id bigint PRIMARY KEY, {declared});
CREATE MATERIALIZED VIEW plain AS SELECT {columns}, id FROM t WHERE x0 IS NOT NULL OR id > 3;
"""


@dataclass(frozen=True)
class Kind:
    """Result values of a type by their SQL; `stored` converts one to the form that an Iceberg reader returns.

    Values of an `ordered` type may be keys, and have a minimum and a maximum.
    """

    values: Mapping[str, Any]
    stored: Callable[[Any], Any] = lambda value: value
    ordered: bool = True
    there: Callable[[Any], bool] = lambda value: value is not None


def _range(lower: Any, upper: Any, bounds: str = "[)") -> dict[str, Any]:
    flags = {"lower_inclusive": bounds[0] == "[", "upper_inclusive": bounds[1] == "]", "empty": bounds == "--"}
    return {"lower": lower, "upper": upper, **flags}


_EMPTY = _range(None, None, "--")
_RANGES: Mapping[str, Any] = {
    "empty": _EMPTY, "(,)": _range(None, None, "()"), "[1,6)": _range(1, 6), "(,9)": _range(None, 9, "()"),
    "[-5,)": _range(-5, None), "[1.5,2]": _range(Decimal("1.5000000000"), Decimal("2.0000000000"), "[]"),
    "[4,10)": _range(4, 10),
    "(,-2.25]": _range(None, Decimal("-2.2500000000"), "(]"),
    "[2024-01-31,2024-02-02)": _range(date(2024, 1, 31), date(2024, 2, 2)),
    '["2024-01-31 10:00:00","2024-02-02 00:00:00.5"]': _range(
        datetime(2024, 1, 31, 10), datetime(2024, 2, 2, microsecond=500_000), "[]"
    ),
}  # fmt: skip
"""Stored form of ranges, by their texts."""


def _lists(value: Any) -> Any:
    return list(map(_lists, value)) if isinstance(value, tuple) else value


def _array(value: Any) -> Any:
    return None if value is None else {"items": _lists(value), "dimensions": min(len(value), 1)}


def _dimensioned(value: Any, dimensions: int) -> Any:
    if not value:
        return _array(value)
    for _ in range(dimensions - 1):
        value = tuple(itertools.chain.from_iterable(value))
    return {"items": _lists(value), "dimensions": dimensions}


KINDS = {
    "uint2": Kind({"0": 0, "'65535'": 65535, "7::uint2 * 6::uint2": 42, "NULL": None}),
    "uint4": Kind({"4294967295": 2**32 - 1, "'0'": 0, "8::numeric": 8, "NULL": None}),
    "uint8": Kind({
        "18446744073709551615": 2**64 - 1, "'18446744073709551615'::uint8": 2**64 - 1, "'0'": 0, "12": 12, "NULL": None,
    }, lambda value: None if value is None else Decimal(value)),
    "uint8[]": Kind({"'{0,NULL,18446744073709551615}'": (0, None, 2**64 - 1), "'{}'": (), "NULL": None},
                    lambda value: _array(value and tuple(None if each is None else Decimal(each) for each in value)),
                    ordered=False),
    "time": Kind({
        "'12:30'": time(12, 30), "TIME '00:00'": time(), "'11:59:59.999999 PM'": time(23, 59, 59, 999_999),
        "TIME '23:30' + INTERVAL '2 hours'": time(1, 30), "'04:05:06'::time": time(4, 5, 6), "NULL": None,
    }),
    "interval": Kind({
        "'1 day 02:30'": "1 day 02:30:00", "INTERVAL '14 months -3 days'": "1 year 2 mons -3 days", "'0'": "00:00:00",
        "TIMESTAMP '2024-01-01' - TIMESTAMP '2024-01-02 01:02:03.5'": "-1 days -01:02:03.5", "NULL": None,
    }, ordered=False),
    "int[]": Kind({
        "'{1,NULL,3}'": (1, None, 3), "'{}'": (), "ARRAY[4, 2 + 3]": (4, 5), "'{-2147483648}'::int[]": (-(2**31),),
        "NULL": None,
    }, _array, ordered=False),
    "time[]": Kind({"'{12:30,NULL,00:00}'": (time(12, 30), None, time()), "'{}'": (), "NULL": None}, _array, False),
    "interval[]": Kind({
        "'{1 day 02:30,NULL,\"14 months\"}'": ("1 day 02:30:00", None, "1 year 2 mons"), "'{}'": (),
        "ARRAY[INTERVAL '1 day', TIMESTAMP '2024-01-02' - TIMESTAMP '2024-01-01 01:00']": ("1 day", "23:00:00"),
        "'{-3 days}'::interval[]": ("-3 days",), "NULL": None,
    }, _array, ordered=False),
    "oid": Kind({"4294967295": 2**32 - 1, "'0'": 0, "7::oid": 7, "NULL": None}),
    "mz_timestamp": Kind({
        "18446744073709551615": 2**64 - 1, "12": 12, "'0'::mz_timestamp": 0, "NULL": None,
    }, lambda value: None if value is None else Decimal(value)),
    "int[][]": Kind({
        "'{{1,2},{3,NULL}}'": ((1, 2), (3, None)), "'{}'": (), "ARRAY[[4, 5, 6]]": ((4, 5, 6),), "'{{},{}}'": (),
        "NULL": None,
    }, lambda value: _dimensioned(value, 2), ordered=False),
    "text[][][]": Kind({
        "'{{{a,b},{c,d}}}'": ((("a", "b"), ("c", "d")),), "'{{{e}},{{NULL}}}'": ((("e",),), ((None,),)), "'{}'": (),
        "NULL": None,
    }, lambda value: _dimensioned(value, 3), ordered=False),
    "int[][] list": Kind({
        "'{{{1,2},{3,4}},NULL,{}}'": (((1, 2), (3, 4)), None, ()), "'{}'": (), "NULL": None,
    }, lambda value: value if value is None else [_dimensioned(each, 2) for each in value], ordered=False),
    "int list[][]": Kind({
        "'{{{1,2},{3}},{NULL,{}}}'": (((1, 2), (3,)), (None, ())), "'{}'": (), "NULL": None,
    }, lambda value: _dimensioned(value, 2), ordered=False),
    "text list": Kind({
        """'{a,NULL,"b, c","null",é}'""": ("a", None, "b, c", "null", "é"), "'{}'": (), "'{\"\"}'": ("",), "NULL": None,
    }, _lists, ordered=False),
    "int list[]": Kind({
        "'{{1,NULL},NULL,{}}'": ((1, None), None, ()), "'{}'": (),
        "ARRAY['{7}'::int list]": ((7,),), "NULL": None,
    }, _array, ordered=False),
    "text[] list": Kind({
        "'{{a,NULL},{},NULL}'": (("a", None), (), None), "'{}'": (), "NULL": None,
    }, lambda value: None if value is None else list(map(_array, value)), ordered=False),
    "int4range": Kind({
        "'[1,5]'": "[1,6)", "'empty'": "empty", "'(,)'": "(,)", "int4range(3, 9, '(]')": "[4,10)", "'[-5,)'": "[-5,)",
        "'(5,5)'::int4range": "empty", "NULL": None,
    }, _RANGES.get, ordered=False),
    "numrange": Kind({
        "'[1.50,2]'": "[1.5,2]", "numrange(NULL, -2.25, '[]')": "(,-2.25]", "'empty'": "empty", "NULL": None,
    }, _RANGES.get, ordered=False),
    "daterange": Kind({"'(2024-01-30,2024-02-01]'": "[2024-01-31,2024-02-02)", "'(,)'": "(,)", "NULL": None},
                      _RANGES.get, ordered=False),
    "tsrange": Kind({
        "'[2024-01-31 10:00,2024-02-02 00:00:00.5]'": '["2024-01-31 10:00:00","2024-02-02 00:00:00.5"]',
        "'empty'": "empty", "NULL": None,
    }, _RANGES.get, ordered=False),
    "int8range[]": Kind({
        """'{"[1,5]",empty,NULL,"(,9)"}'""": ("[1,6)", "empty", None, "(,9)"), "'{}'": (), "NULL": None,
    }, lambda value: _array(value and tuple(map(_RANGES.get, value))), ordered=False),
    "int4range list": Kind({
        """'{"[1,5]",NULL}'""": ("[1,6)", None), "'{}'": (), "NULL": None,
    }, lambda value: None if value is None else list(map(_RANGES.get, value)), ordered=False),
    "map[text=>int]": Kind({
        "'{b=>2,a=>1}'": (("a", 1), ("b", 2)),
        "'{é=>NULL,\"x, y\"=>3,null_=>4}'": (("null_", 4), ("x, y", 3), ("é", None)),
        "MAP['z' => 1, 'a' => 2 + 3, 'z' => 9]": (("a", 5), ("z", 9)), "'{}'": (), "NULL": None,
    }, lambda value: value if value is None else dict(value), ordered=False),
    'record(a int, "B c" text NOT NULL)': Kind({
        "'(1,\"x, \"\"y\"\"\")'": (1, 'x, "y"'), "'(,\"\")'": (None, ""), "ROW(NULL, 'z')": (None, "z"),
        "ROW(3::smallint, 'q')::record(p int, q text NOT NULL)": (3, "q"), "NULL": None,
    }, lambda value: value if value is None else dict(zip(("a", "B c"), value, strict=True)), ordered=False,
        there=lambda value: value is not None and None not in value),
    "record(a interval, b map[text=>interval])": Kind({
        """'("1 day 02:30","{k=>1 mon,l=>NULL}")'""": ("1 day 02:30:00", (("k", "1 mon"), ("l", None))),
        "ROW(INTERVAL '90 min', MAP['k' => INTERVAL '0'])": ("01:30:00", (("k", "00:00:00"),)), "NULL": None,
    }, lambda value: value if value is None else {"a": value[0], "b": dict(value[1])}, ordered=False),
    "record(a int, b record(c text))": Kind({
        "'(,)'": (None, None), "ROW(1, ROW(NULL))": (1, (None,)), "'(2,\"(x)\")'": (2, ("x",)), "NULL": None,
    }, lambda value: value if value is None else {"a": value[0], "b": None if value[1] is None else {"c": value[1][0]}},
        ordered=False, there=lambda value: value is not None and None not in value),
    "record(r int4range, items text list)[][]": Kind({
        """'{{"([1\\\\,5],{a})",NULL},{"(,)","(empty,{})"}}'""":
            ((("[1,6)", ("a",)), None), ((None, None), ("empty", ()))),
        "'{}'": (), "NULL": None,
    }, lambda value: _array(value) if not value else {"items": [
        each and {"r": _RANGES.get(each[0]), "items": _lists(each[1])} for each in itertools.chain.from_iterable(value)
    ], "dimensions": 2}, ordered=False),
    "map[text=>record(at date, tags text[])] list": Kind({
        """'{{k=>"(2024-02-29,\\"{a,NULL}\\")"},NULL,{},{k=>NULL,j=>"(,)"}}'""":
            ((("k", (date(2024, 2, 29), ("a", None))),), None, (), (("j", (None, None)), ("k", None))),
        "'{}'": (), "NULL": None,
    }, lambda value: value if value is None else [
        None if each is None else {key: one and {"at": one[0], "tags": _array(one[1])} for key, one in each}
        for each in value
    ], ordered=False),
    "record(items int list, dimensions int)[][]": Kind({
        """'{{"(\\"{1,NULL}\\",7)"},{NULL}}'""": ((((1, None), 7),), (None,)), "'{}'": (), "NULL": None,
    }, lambda value: _array(value) if not value else {"items": [
        each and {"items": list(each[0]), "dimensions": each[1]} for each in itertools.chain.from_iterable(value)
    ], "dimensions": 2}, ordered=False),
    "map[text=>int][][]": Kind({
        "'{{{a=>1},{}},{NULL,{b=>NULL}}}'": (((("a", 1),), ()), (None, (("b", None),))), "'{}'": (), "NULL": None,
    }, lambda value: _array(value) if not value else {"items": [
        each if each is None else dict(each) for each in itertools.chain.from_iterable(value)
    ], "dimensions": 2}, ordered=False),
    "numeric(6, 2) list list": Kind({
        "'{{1.5,NULL},NULL,{}}'": ((Decimal("1.50"), None), None, ()), "'{}'": (), "NULL": None,
    }, _lists, ordered=False),
}  # fmt: skip
Model = dict[int, tuple[Any, ...]]


@pytest.mark.share(8)
@pytest.mark.parametrize("type_", KINDS)
def test_sinks_hold_what_was_put_into_a_table(session: Session, type_: str) -> None:
    _check(session, [type_], LocalEngine())


@pytest.mark.spark
def test_sinks_in_spark_hold_what_was_put_into_a_table(spark: SparkSession, session: Session) -> None:
    from sinkql.runtime.spark.engine import SparkEngine

    engine = SparkEngine(lambda: spark, buckets=2)
    model = _check(session, list(KINDS), engine)
    read = [place for place, type_ in enumerate(KINDS) if "time" not in type_]  # Spark reads times from no table
    columns = ", ".join(f"x{place}" for place in read)
    session.execute(f"CREATE MATERIALIZED VIEW untimed AS SELECT id, {columns} FROM t")
    session.execute(f"CREATE SINK untimed_sink FROM untimed {_SINK.format('untimed', 'KEY (id) MODE UPSERT')}")
    drain(_loops(session, engine, "untimed_sink")[0])
    kinds = list(KINDS.values())
    expected = {id_: [kinds[place].stored(row[place]) for place in read] for id_, row in model.items()}
    assert expected == {id_: list(map(_plain, row)) for id_, *row in spark_rows(spark, open_table(Path(), "n.untimed"))}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_plain, value))
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value.asDict(recursive=True) if hasattr(value, "asDict") else value


def _check(session: Session, types: Sequence[str], engine: Engine) -> Model:
    """Change a table with a column of each type at random; check its sinks against a model after every batch."""
    kinds = [KINDS[type_] for type_ in types]
    names = [f"x{place}" for place in range(len(types))]
    ordered = [name for name, kind in zip(names, kinds, strict=True) if kind.ordered]
    declared = ", ".join(map(" ".join, zip(names, types, strict=True)))
    session.execute(_SETUP.format(declared=declared, columns=", ".join(reversed(names))))
    session.execute(
        "CREATE SINK plain_sink FROM plain " + _SINK.format("plain", f"KEY ({', '.join(['id', *ordered])}) MODE UPSERT")
    )
    if ordered:
        extremes = ", ".join(f"min({name}) AS least_{name}, max({name}) AS most_{name}" for name in ordered)
        session.execute(
            f"CREATE MATERIALIZED VIEW grouped AS SELECT {ordered[0]}, count(*) AS rows, {extremes} FROM t"
            f" GROUP BY {ordered[0]};"
            f"CREATE SINK grouped_sink FROM grouped {_SINK.format('grouped', f'KEY ({ordered[0]}) MODE UPSERT')}"
        )
    loops = _loops(session, engine)
    model: Model = {}
    chance = random.Random(str(types))
    for _ in range(3):
        for _ in range(4):
            _change(session, kinds, model, chance)
        for each in loops:
            drain(each)
        (found,) = session.execute("SELECT * FROM t")
        assert {id_: tuple(row) for id_, *row in found.rows} == model
        kept = {id_: row for id_, row in model.items() if kinds[0].there(row[0]) or id_ > 3}
        expected = Counter(
            repr((*(kind.stored(value) for kind, value in reversed(list(zip(kinds, row, strict=True)))), id_))
            for id_, row in kept.items()
        )
        assert _read("plain") == expected
        if ordered:
            assert _read("grouped") == _grouped(model, [names.index(name) for name in ordered], kinds)
    return model


@pytest.mark.share(2)
@pytest.mark.parametrize("version", [3, 2])
def test_values_stay_what_they_are_in_compactions_and_rebuilds(
    session: Session, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    compact_eagerly(monkeypatch)
    kinds, names = list(KINDS.values()), [f"x{place}" for place in range(len(KINDS))]
    declared, columns = ", ".join(map(" ".join, zip(names, KINDS, strict=True))), ", ".join(names)
    session.execute(_SETUP.format(declared=declared, columns=", ".join(reversed(names))))
    session.execute(f"CREATE MATERIALIZED VIEW keyed AS SELECT {columns}, 1 AS v, id FROM t")
    for relation, mode in {"plain": "MODE APPEND", "keyed": "KEY (id) NOT ENFORCED MODE UPSERT"}.items():
        sink = _SINK.format(relation, mode).replace(");", f", FORMAT VERSION = {version});")
        session.execute(f"CREATE SINK {relation}_sink FROM {relation} {sink}")
    model: Model = {}
    chance = random.Random(version)
    for epoch in range(1, 5):
        for _ in range(8 if epoch < 4 else 0):
            _change(session, kinds, model, chance)
        values = dict.fromkeys(model, 1)
        if epoch == 4:
            values[min(model)] = 2
            view = f"SELECT {columns}, CASE WHEN id = {min(model)} THEN 2 ELSE 1 END AS v, id FROM t"
            session.execute(f"CREATE OR REPLACE MATERIALIZED VIEW keyed AS {view}")
        for loop in _loops(session, LocalEngine(), epoch=epoch):
            assert (epoch == 4 and loop.job.write.mode == "upsert") == loop.needs_full_refresh()
            drain(loop)
            assert epoch != 4 or _snapshots("keyed", "overwrite")[-1]["added-records"] == "1"
            loop.maintenance.optimize(lambda: True)
        rows = {id_: [kind.stored(value) for kind, value in zip(kinds, row, strict=True)] for id_, row in model.items()}
        assert _read("keyed") == Counter(repr((*row, values[id_], id_)) for id_, row in rows.items())
        assert _summed("plain") == Counter(
            repr((*reversed(row), id_)) for id_, row in rows.items() if kinds[0].there(model[id_][0]) or id_ > 3
        )
    assert _snapshots("keyed", "replace")
    assert _snapshots("plain", "replace")


def _snapshots(table: str, operation: str) -> list[Summary]:
    """Return the summaries of the table's snapshots with an operation."""
    summaries = [each.summary for each in open_table(Path(), f"n.{table}").metadata.snapshots]
    return [each for each in summaries if each is not None and each.operation.value == operation]


def _change(session: Session, kinds: Sequence[Kind], model: Model, chance: random.Random) -> None:
    key, texts = chance.randrange(8), [chance.choice(list(kind.values)) for kind in kinds]
    if key not in model:
        session.execute(f"INSERT INTO t VALUES ({key}, {', '.join(texts)})")
    elif chance.random() < 0.7:
        session.execute(
            f"UPDATE t SET {', '.join(f'x{place} = {text}' for place, text in enumerate(texts))} WHERE id = {key}"
        )
    else:
        session.execute(f"DELETE FROM t WHERE id = {key}")
        del model[key]
        return
    model[key] = tuple(kind.values[text] for kind, text in zip(kinds, texts, strict=True))


def _loops(session: Session, engine: Engine, sink: str = "", *, epoch: int = 1) -> list[BatchLoop]:
    found = []
    for job in session.jobs():
        if not job.sink.endswith(sink):
            continue
        loop = loop_of(job, session.context(job), session.catalog.registry, engine=engine)
        loop.start(epoch=epoch)
        found.append(loop)
    return found


def _grouped(model: Model, ordered: Sequence[int], kinds: Sequence[Kind]) -> Counter[str]:
    groups: dict[Any, list[tuple[Any, ...]]] = {}
    for row in model.values():
        groups.setdefault(row[ordered[0]], []).append(row)
    found: Counter[str] = Counter()
    for value, rows in groups.items():
        extremes: list[Any] = []
        for place in ordered:
            values = [row[place] for row in rows if row[place] is not None]
            extremes += [kinds[place].stored(each(values, default=None)) for each in (min, max)]
        found[repr((kinds[ordered[0]].stored(value), len(rows), *extremes))] += 1
    return found


def _read(table: str) -> Counter[str]:
    """Return the rows that DuckDB reads, and check that PyIceberg reads the same; it reads NULL lists as empty."""
    loaded = open_table(Path(), f"n.{table}")
    found = duckdb_folder(loaded.location())
    others = [tuple(row.values()) for row in loaded.scan().to_arrow().to_pylist()]
    assert Counter(map(_blurred, others)) == Counter(map(_blurred, found))
    return Counter(map(repr, found))


def _summed(table: str) -> Counter[str]:
    """Return the rows of a changelog; each occurs as often as the sum of its diffs."""
    found: Counter[str] = Counter()
    for *row, diff, _ in duckdb_folder(open_table(Path(), f"n.{table}").location()):
        found[repr(tuple(row))] += diff
    assert min(found.values()) >= 0
    return +found


def _blurred(row: tuple[Any, ...]) -> str:
    return repr(list(map(_blur, row)))


def _blur(value: Any) -> Any:
    """Return a value in which empty values are NULL and maps are dictionaries."""
    if isinstance(value, list) and all(isinstance(each, tuple) for each in value):
        value = dict(value)
    if isinstance(value, dict):
        return {key: _blur(each) for key, each in value.items()} or None
    return list(map(_blur, value)) if isinstance(value, list) else value


def test_a_sink_shows_its_ranges_and_no_array_of_lengths_that_its_table_has_not(session: Session) -> None:
    session.execute(_SETUP.format(declared="x0 int4range, x1 tstzrange, x2 int8range[]", columns="x0, x1, x2"))
    session.execute("CREATE TABLE boards (id int PRIMARY KEY, x int[][], y int[][] list)")
    for relation in ("plain", "boards"):
        key = _SINK.format(relation, "KEY (id) MODE UPSERT")
        session.execute(f"CREATE SINK {relation}_sink FROM {relation} {key}")
    ranges = ("'[1,5]', '[2024-01-31 10:00+02,)', '{empty,\"(,4]\"}'", "'empty', '(,)', NULL", "NULL, 'empty', '{}'")
    for id_, values in enumerate(ranges):
        session.execute(f"INSERT INTO t VALUES ({id_ + 7}, {values})")
    session.execute("INSERT INTO boards VALUES (1, '{}', '{}')")
    loops = _loops(session, LocalEngine())
    for each in loops:
        drain(each)
    selected = [session.execute(f"SELECT x0, x1, x2 FROM {name} ORDER BY id")[0].rows for name in ("t", "plain_sink")]
    assert selected[0] == selected[1]
    assert selected[0][0] == ("[1,6)", '["2024-01-31 08:00:00+00",)', ("empty", "(,5)"))
    assert session.execute("SELECT x, y FROM boards_sink")[0].rows == (((), ()),)
    session.execute("UPDATE boards SET y = '{{{1,2}}}'")
    for each in loops:
        drain(each)
    with pytest.raises(SinkqlError, match=r'SQ3513.* in column "y"'):
        session.execute("SELECT * FROM boards_sink")
