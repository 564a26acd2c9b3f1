"""Arrays, lists, maps and records in files: equal values from all formats, and errors for values that do not fit."""

from __future__ import annotations

import json
import random
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from sinkql.connector_api.types import arrow_type, parse_type
from sinkql.connectors.iceberg.file.arrow_types import ranges
from sinkql.errors import SinkqlError
from sinkql.logical import Type
from sinkql.logical.nested import write_nested
from sinkql.logical.range import SUBTYPES
from sinkql.session import Session

_VALUES: dict[str, tuple[Any, ...]] = {
    "integer": (0, -(2**31), 2**31 - 1, 7),
    "uint4": (0, 2**32 - 1),
    "uint8": (0, 2**64 - 1, 2**63),
    "numeric(6,2)": (Decimal("1.50"), Decimal("-0.01"), Decimal("9999.99")),
    "double precision": (0.5, -1e300, 3.0),
    "boolean": (True, False),
    "text": ("", "a", "b, c", 'q"\\', "null", "{}", " é "),
    "date": (date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31)),
    "time": (time(12, 30), time(23, 59, 59, 999_999)),
}
_ROWS = 60


def _made(random_: random.Random, type_: Type, values: tuple[Any, ...]) -> Any:
    """Return a random value of a nested type; its scalars are from `values`."""
    if random_.random() < 0.15:
        return None
    if type_.name == "record":
        return tuple(_made(random_, each.type, values) for each in type_.fields)
    if type_.name == "map":
        keys = sorted(random_.sample(("a", "b c", "", "é", "null", "x=>y", '"'), random_.randrange(4)))
        return tuple((key, _made(random_, type_.value, values)) for key in keys)
    if type_.element is None:
        return random_.choice(values)
    return tuple(_made(random_, type_.element, values) for _ in range(random_.randrange(4)))


def _json(value: Any, type_: Type) -> Any:
    if value is None or (not type_.nested and isinstance(value, bool | int | float | str)):
        return value
    if type_.name == "record":
        return {each.name: _json(one, each.type) for each, one in zip(type_.fields, value, strict=True)}
    if type_.name == "map":
        return {key: _json(one, type_.value) for key, one in reversed(value)}
    return [_json(each, type_.element) for each in value] if type_.element is not None else str(value)


def _in_files(type_: Type) -> pa.DataType:
    """Return the Arrow type of the columns in files."""
    if type_.name == "map":
        return pa.map_(pa.string(), _in_files(type_.value))
    if type_.name == "record":
        return pa.struct([(each.name, _in_files(each.type)) for each in reversed(type_.fields)])
    return pa.list_(_in_files(type_.element)) if type_.element is not None else arrow_type(type_)


def _disordered(value: Any, type_: Type) -> Any:
    """Return a value with its record fields and map keys in another order, and the first key of a map twice."""
    if value is None or not type_.nested:
        return value
    if type_.name == "record":
        pairs = zip(type_.fields, value, strict=True)
        return tuple(reversed([_disordered(one, each.type) for each, one in pairs]))
    if type_.name == "map":
        held = [(key, _disordered(one, type_.value)) for key, one in value]
        return [*((key, None) for key, _ in held[:1]), *reversed(held)]
    assert type_.element is not None
    return [_disordered(each, type_.element) for each in value]


def _csv(value: Any, type_: str) -> str:
    def scalar(each: Any, _: Type) -> str:
        return each if isinstance(each, str) else str(each).lower()

    return "" if value is None else '"' + write_nested(value, parse_type(type_), scalar).replace('"', '""') + '"'


_FORMS = (
    "{}[]", "{} list list", "{} list[]", "{}[] list", "map[text=>{}]", 'record(x {0}, "Y z" map[text=>{0}[]])',
    "map[text=>record(k {0}, l {0} list)] list",
)  # fmt: skip
_NAMES = "abcdefg"


@pytest.mark.parametrize("element", _VALUES)
def test_nested_values_are_read_alike_from_all_formats(
    element: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    random_, values = random.Random(element), _VALUES[element]
    texts = [form.format(element) for form in _FORMS]
    types = list(map(parse_type, texts))
    rows = [tuple(_made(random_, type_, values) for type_ in types) for _ in range(_ROWS)]
    table = pa.table(
        [
            pa.array([_disordered(value, type_) for value in column], _in_files(type_))
            for column, type_ in zip(zip(*rows, strict=True), types, strict=True)
        ],
        list(_NAMES),
    )
    for kind in ("json", "csv", "parquet", "orc"):
        (tmp_path / kind).mkdir()
    lines = [json.dumps(dict(zip(_NAMES, map(_json, row, types), strict=True))) for row in rows]
    (tmp_path / "json" / "f.json").write_text("\n".join(lines))
    csv = "".join(f"{','.join(map(_csv, row, texts))}\n" for row in rows)
    (tmp_path / "csv" / "f.csv").write_text(f"{','.join(_NAMES)}\n{csv}")
    pq.write_table(table, tmp_path / "parquet" / "f.parquet")
    with Session() as session:
        formats = {"json": "JSON", "csv": "CSV WITH HEADER", "parquet": "PARQUET"}
        if element != "time":  # ORC has no type for it
            pa.orc.write_table(table, tmp_path / "orc" / "f.orc")
            formats["orc"] = "ORC"
        declared = ", ".join(map(" ".join, zip(_NAMES, texts, strict=True)))
        for kind, format_ in formats.items():
            session.execute(f"CREATE SOURCE {kind}_rows ({declared}) FROM FILES (PATH = '{kind}') FORMAT {format_}")
            (found,) = session.execute(f"SELECT * FROM {kind}_rows")
            assert list(found.rows) == rows, kind


@pytest.mark.parametrize(
    ("type_", "value", "message"),
    [
        ("int[]", "1", "expected integer[], got number"),
        ("int[]", '["1"]', "expected integer, got str"),
        ("int[]", "[1.5]", "1.5 is not an integer"),
        ("int[]", "[[1]]", "expected integer, got array"),
        ("text list", "[1]", "expected text, got number"),
        ("date list", '["2024-02-30"]', '"2024-02-30" is not a date'),
        ("int list list", "[1]", "expected integer list, got number"),
        ("int[][]", "[[1], [2, 3]]", "the arrays in it are not of one length"),
        ("int[][]", "[[1], null]", "the arrays in it are not of one length"),
        ("int[][]", "[1]", "expected integer[], got number"),
        ("map[text=>int]", "[1]", "expected map[text=>integer], got array"),
        ("map[text=>int]", '{"k": "1"}', "expected integer, got str"),
        ("record(x int)", '{"x": 1.5}', "1.5 is not an integer"),
        ("record(x int NOT NULL)", '{"y": 1}', 'null value in field "x", which is NOT NULL'),
        ("int4range", '"[5,1]"', '"[5,1]" is not an int4range'),
        ("tsrange[]", '["[1,2)"]', '"[1,2)" is not a tsrange'),
        ("numrange", "[1, 2]", "expected numrange, got array"),
    ],
)
def test_a_member_that_does_not_fit_is_an_invalid_row(
    type_: str, value: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "f.json").write_text(f'{{"a": null}}\n{{"a": {value}}}\n')
    with Session() as session:
        session.execute(f"CREATE SOURCE s (a {type_}) FROM FILES (PATH = 'in') FORMAT JSON")
        with pytest.raises(SinkqlError) as failed:
            session.execute("SELECT * FROM s")
    assert f'column "a": {message}' in f"{failed.value.message} {failed.value.detail}"


_RANGES = {
    "int4range": ("[1,6)", "empty", "(,)", None, "[-5,)", "(,2147483647)"),
    "numrange": ("[1.5,2]", "(-0.25,)", "empty", None),
    "daterange": ("[2024-02-29,2024-03-01)", "(,9999-12-31)", None),
    "tsrange": ('("2024-02-29 10:00:00","2024-03-01 00:00:00.5"]', "empty", None),
    "tstzrange": ('["2024-02-29 10:00:00+00",)', "(,)", None),
}


@pytest.mark.parametrize("type_", _RANGES)
def test_ranges_are_read_alike_from_all_formats(type_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts, quote = _RANGES[type_], '"'
    bound = arrow_type(SUBTYPES[type_])
    flags = [(name, pa.bool_()) for name in ("lower_inclusive", "upper_inclusive", "empty")]
    structs = ranges(pa.array(texts, pa.string()), pa.struct([("lower", bound), ("upper", bound), *flags]))
    for kind in ("json", "csv", "parquet", "orc"):
        (tmp_path / kind).mkdir()
    lines = [json.dumps({"a": text, "b": [text], "c": text}) for text in texts]
    (tmp_path / "json" / "f.json").write_text("\n".join(lines))
    quoted = [
        [
            "" if each is None else quote + each.replace(quote, quote * 2) + quote
            for each in (text, write_nested((text,), parse_type(f"{type_}[]"), lambda each, _: str(each)), text)
        ]
        for text in texts
    ]
    (tmp_path / "csv" / "f.csv").write_text("a,b,c\n" + "".join(f"{','.join(row)}\n" for row in quoted))
    table = pa.table({"a": structs, "b": pa.array([[text] for text in texts]), "c": pa.array(texts, pa.string())})
    pq.write_table(table, tmp_path / "parquet" / "f.parquet")
    pa.orc.write_table(table, tmp_path / "orc" / "f.orc")
    formats = {"json": "JSON", "csv": "CSV WITH HEADER", "parquet": "PARQUET", "orc": "ORC"}
    with Session() as session:
        for kind, format_ in formats.items():
            declared = f"a {type_}, b {type_}[], c {type_}"
            session.execute(f"CREATE SOURCE {kind}_rows ({declared}) FROM FILES (PATH = '{kind}') FORMAT {format_}")
            (found,) = session.execute(f"SELECT * FROM {kind}_rows")
            assert list(found.rows) == [(text, (text,), text) for text in texts], kind


def test_structs_that_are_no_ranges_are_invalid_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    flags = {"lower_inclusive": True, "upper_inclusive": True, "empty": False}
    rows = [{"lower": 5, "upper": 1, **flags}, {"lower": 5, "upper": 2**31 - 1, **flags}]
    bounds = [("lower", pa.int32()), ("upper", pa.int32())]
    type_ = pa.struct([*bounds, *((name, pa.bool_()) for name in flags)])
    for number, row in enumerate(rows):
        pq.write_table(pa.table({"a": pa.array([row], type_)}), tmp_path / "in" / f"{number}.parquet")
    with Session() as session:
        for number, message in enumerate(("range lower bound must be", "integer out of range")):
            session.execute(
                f"CREATE SOURCE s{number} (a int4range) FROM FILES (PATH = 'in/{number}.parquet') FORMAT PARQUET"
            )
            with pytest.raises(SinkqlError, match=message):
                session.execute(f"SELECT * FROM s{number}")


def test_arrays_of_two_dimensions_are_read_alike_from_all_formats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows: list[Any] = [((1, 2), (3, None)), ((4,), (5,)), (), None]
    written = [*rows[:2], ((), ()), None]
    for kind in ("json", "csv", "parquet", "uneven"):
        (tmp_path / kind).mkdir()
    lines = [json.dumps({"a": value, "n": place}) for place, value in enumerate(written)]
    (tmp_path / "json" / "f.json").write_text("\n".join(lines))
    (tmp_path / "csv" / "f.csv").write_text(
        "a,n\n" + "".join(f"{_csv(row, 'integer[][]')},{n}\n" for n, row in enumerate(rows))
    )
    type_ = arrow_type(parse_type("integer[][]"))
    table = pa.table({"a": pa.array(written, type_), "n": pa.array(range(4), pa.int32())})
    pq.write_table(table, tmp_path / "parquet" / "f.parquet")
    pq.write_table(pa.table({"a": pa.array([[[1]], [[1], [2, 3]]], type_)}), tmp_path / "uneven" / "f.parquet")
    with Session() as session:
        for kind, format_ in {"json": "JSON", "csv": "CSV WITH HEADER", "parquet": "PARQUET"}.items():
            session.execute(
                f"CREATE SOURCE {kind}_rows (a int[][], n int) FROM FILES (PATH = '{kind}') FORMAT {format_}"
            )
            (found,) = session.execute(f"SELECT a FROM {kind}_rows ORDER BY n")
            assert [row[0] for row in found.rows] == rows, kind
        session.execute("CREATE SOURCE s (a int[][]) FROM FILES (PATH = 'uneven') FORMAT PARQUET")
        with pytest.raises(SinkqlError, match="the arrays in it are not of one length"):
            session.execute("SELECT * FROM s")


_RECORD = {"type": "record", "name": "P", "fields": [
    {"name": "x", "type": ["null", "int"]},
    {"name": "order", "type": {"type": "map", "values": ["null", "string"]}},
]}  # fmt: skip
_ROWS_FOUND: list[Any] = [
    ((1, (("a", None), ("b", "y"))), (("k", (None, ())),), ((2, ()),)),
    ((None, ()), (), ()),
]


@pytest.mark.parametrize("format_", ["AVRO", "PARQUET", "ORC"])
def test_structs_maps_and_lists_of_files_are_found_as_records_maps_and_lists(
    format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    rows: list[dict[str, Any]] = [
        {"r": {"x": 1, "order": {"b": "y", "a": None}}, "m": {"k": {"x": None, "order": {}}},
         "l": [{"x": 2, "order": {}}]},
        {"r": {"x": None, "order": {}}, "m": {}, "l": []},
    ]  # fmt: skip
    with (tmp_path / "in" / "f").open("wb") as file:
        if format_ == "AVRO":
            kinds = {"r": _RECORD, "m": {"type": "map", "values": "P"}, "l": {"type": "array", "items": "P"}}
            fields = [{"name": name, "type": type_} for name, type_ in kinds.items()]
            fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, rows)
        else:
            held = pa.struct([("x", pa.int32()), ("order", pa.map_(pa.string(), pa.string()))])
            types = {"r": held, "m": pa.map_(pa.string(), held), "l": pa.list_(held)}
            table = pa.table(
                [pa.array([_pairs(row[name]) for row in rows], types[name]) for name in types], list(types)
            )
            (pq.write_table if format_ == "PARQUET" else pa.orc.write_table)(table, file)
    record = 'record(x integer, "order" map[text=>text])'
    with Session(tmp_path / "catalog.db") as session:
        (made,) = session.execute(f"CREATE SOURCE s FROM FILES (PATH = 'in') FORMAT {format_}")
        assert f"(r {record}, m map[text=>{record}], l {record} list)" in made.notices[0].message
        session.execute(f"CREATE SOURCE j (r jsonb, m jsonb, l jsonb) FROM FILES (PATH = 'in') FORMAT {format_}")
    with Session(tmp_path / "catalog.db") as session:
        (found,) = session.execute("SELECT * FROM s")
        assert list(found.rows) == _ROWS_FOUND
        (found,) = session.execute("SELECT r -> 'x' AS x, l -> 0 -> 'x' AS y FROM j")
        assert list(found.rows) == [("1", "2"), ("null", None)]


def _pairs(value: Any) -> Any:
    """Convert dictionaries that are maps to pairs, as Arrow expects them."""
    if isinstance(value, list):
        return list(map(_pairs, value))
    if not isinstance(value, dict):
        return value
    pairs = [(key, _pairs(each)) for key, each in value.items()]
    return dict(pairs) if "x" in value else pairs


def test_records_of_files_have_the_fields_of_all_that_were_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    inner = pa.struct([pa.field("b", pa.string(), nullable=False)])
    first = pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("gone", pa.bool_()), pa.field("in", inner)])
    second = pa.struct([("in", pa.struct([("b", pa.string()), ("c", pa.date32())])), ("a", pa.int32()), ("d", inner)])
    old, new = {"a": 1, "gone": True, "in": {"b": "x"}}, {"in": {"b": None, "c": date(2024, 1, 2)}, "a": 2, "d": None}
    for name, rows in {"1": pa.array([old], first), "2": pa.array([new], second), "3": pa.array([old], first)}.items():
        pq.write_table(pa.table({"r": rows, "l": pa.array([[rows[0].as_py()]], pa.list_(rows.type))}), f"in/{name}")
    with Session(tmp_path / "catalog.db") as session:
        (made,) = session.execute("CREATE SOURCE s FROM FILES (PATH = 'in') FORMAT PARQUET")
        record = 'record(a integer, gone boolean, "in" record(b text, c date), d record(b text NOT NULL))'
        assert f"(r {record}, l {record} list)" in made.notices[0].message
        rows_of = {"1": (1, True, ("x", None), None), "2": (2, None, (None, date(2024, 1, 2)), None)}
        (found,) = session.execute("SELECT * FROM s")
        assert list(found.rows) == [(rows_of[name], (rows_of[name],)) for name in ("1", "2", "1")]
        pq.write_table(pa.table({"r": [{"a": "x"}], "l": [None]}), "in/0")
        with pytest.raises(SinkqlError, match=r'column "r" is missing or has another type'):
            session.execute("CREATE SOURCE other FROM FILES (PATH = 'in') FORMAT PARQUET")


def test_a_map_with_a_key_that_is_no_text_is_an_invalid_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    bytes_ = pa.array([b"b", b"\xff", b"a", b"z", b"y"], pa.binary())
    keys = pa.Array.from_buffers(pa.string(), len(bytes_), bytes_.buffers())
    held = pa.MapArray.from_arrays(pa.array([0, 3, 5], pa.int32()), keys, pa.array(range(5)))
    pq.write_table(pa.table({"m": held, "l": pa.array([None, None], pa.list_(pa.int32()))}), "in/f.parquet")
    (tmp_path / "in" / "f.json").write_text('{"m": {"\\u0000": 1}}\n{"m": {"z": 3, "y": 4}}\n')
    with Session(tmp_path / "catalog.db") as session:
        for format_, why in {
            "PARQUET": r"(?s)f.parquet:1.*column \"m\": .*utf-8",
            "JSON": r'column "m": .* U\+0000',
        }.items():
            made = (
                f"CREATE SOURCE {format_} (m map[text=>bigint]) FROM FILES (PATH = 'in', GLOB = '*.{format_.lower()}')"
            )
            session.execute(f"{made} FORMAT {format_}")
            with pytest.raises(SinkqlError, match=why):
                session.execute(f"SELECT * FROM {format_}")
            session.execute(f"DROP SOURCE {format_}; {made} FORMAT {format_} WITH (ON ERROR = SKIP)")
            assert session.execute(f"SELECT * FROM {format_}")[0].rows == (((("y", 4), ("z", 3)),),)
