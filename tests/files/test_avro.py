"""Avro files → rows of declared columns, with every codec and type; damage is an error that names its place."""

from __future__ import annotations

import bz2
import datetime as dt
import io
import lzma
import zlib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest

from files.test_files_reader import _put
from files.test_stored import _read
from sinkql import compile as compile_sql
from sinkql.connectors.files import typed_formats
from sinkql.connectors.files.typed_formats import _long
from sinkql.errors import SinkqlError

_MARK = bytes(range(16))
_AT = dt.datetime(2024, 2, 29, 1, 2, 3, 4000, dt.UTC)
_LOGICAL = ("bytes", "decimal", {"precision": 5, "scale": 2})


def _of(kind: str, logical: str, more: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **(more or {})}


_NODE = {
    "type": "record",
    "name": "a.Node",
    "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}
_PLACE = {
    "type": "record",
    "name": "Place",
    "fields": [
        {"name": "town", "type": "string"},
        {"name": "at", "type": _of("long", "timestamp-micros")},
        {"name": "price", "type": _of(*_LOGICAL)},
    ],
}
_VALUES: list[tuple[Any, str, Any, Any]] = [
    ("boolean", "boolean", True, True),
    ("int", "bigint", -5, -5),
    ("long", "numeric(20,0)", 2**63 - 1, Decimal(2**63 - 1)),
    ("float", "double precision", 1.5, 1.5),
    ("string", "text", "é", "é"),
    ("bytes", "bytea", b"\0\xff", b"\0\xff"),
    ({"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}, "text", "BLUE", "BLUE"),
    ({"type": "fixed", "name": "Four", "size": 4}, "bytea", b"abcd", b"abcd"),
    (_of("int", "date"), "date", dt.date(2024, 2, 29), dt.date(2024, 2, 29)),
    (_of("int", "time-millis"), "time", dt.time(1, 2, 3, 4000), dt.time(1, 2, 3, 4000)),
    (_of("long", "time-micros"), "time", dt.time(1, 2, 3, 4), dt.time(1, 2, 3, 4)),
    (_of("long", "timestamp-millis"), "timestamptz", _AT, _AT),
    (_of("long", "timestamp-micros"), "timestamptz", _AT, _AT),
    (_of("long", "local-timestamp-micros"), "timestamp", _AT.replace(tzinfo=None), _AT.replace(tzinfo=None)),
    (_of("string", "uuid"), "uuid", UUID(int=1), str(UUID(int=1))),
    (_of(*_LOGICAL), "numeric(12,2)", Decimal("-1.50"), Decimal("-1.50")),
    (
        _of("fixed", "decimal", {"name": "D", "size": 16, "precision": 38, "scale": 0}),
        "numeric(38,0)",
        Decimal(10**37),
        Decimal(10**37),
    ),
    (
        {"type": "array", "items": ["null", _of(*_LOGICAL)]},
        "numeric(5,2)[]",
        [Decimal("1.10"), None],
        [Decimal("1.10"), None],
    ),
    ({"type": "array", "items": "string"}, "jsonb", ["a", "b"], '["a", "b"]'),
    ({"type": "map", "values": "int"}, "jsonb", {"k": 1}, '{"k": 1}'),
    (
        _PLACE,
        "jsonb",
        {"town": "x", "at": _AT, "price": Decimal("1.10")},
        '{"at": "2024-02-29T01:02:03.004000+00:00", "town": "x", "price": 1.10}',
    ),
    (["Place", "null"], "jsonb", None, None),
    (["null", "string", "long"], "jsonb", 7, "7"),
    (_NODE, "jsonb", {"v": 1, "next": {"v": 2, "next": None}}, '{"v": 1, "next": {"v": 2, "next": null}}'),
]


def _schema(*types: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "R",
        "namespace": "a",
        "fields": [{"name": f"c{place}", "type": type_} for place, type_ in enumerate(types)],
    }


def _avro(schema: Any, rows: list[Any], **options: Any) -> bytes:
    file = io.BytesIO()
    fastavro.writer(file, fastavro.parse_schema(schema), rows, sync_marker=_MARK, **options)
    return file.getvalue()


def test_a_column_is_read_as_its_own_type_or_one_with_room_for_it(tmp_path: Path) -> None:
    row = {f"c{place}": value for place, (_, _, value, _) in enumerate(_VALUES)} | {"c24": 1}
    _put(tmp_path, "a.avro", _avro(_schema(*(type_ for type_, _, _, _ in _VALUES), "int"), [row]))
    rows, read_counts = _read(tmp_path, {f"c{place}": type_ for place, (_, type_, _, _) in enumerate(_VALUES)}, "AVRO")
    assert rows == [tuple(expected for _, _, _, expected in _VALUES)]
    assert read_counts.rows == 1


def test_columns_are_found_in_files_where_none_are_declared(tmp_path: Path) -> None:
    types = [
        "int",
        _of("string", "uuid"),
        ["null", "string", "long"],
        _of(*_LOGICAL),
        {"type": "array", "items": "int"},
    ]
    _put(tmp_path, "a.avro", _avro(_schema(*types), []))
    program = compile_sql(f"CREATE SOURCE s FROM FILES (PATH = '{tmp_path / 'in'}') FORMAT AVRO;")
    (notice,) = program.notices
    assert "(c0 integer, c1 uuid, c2 jsonb, c3 numeric(5,2), c4 integer list)" in notice.message


def _snappy(data: bytes) -> bytes:
    return bytes(pa.Codec("snappy").compress(data, asbytes=True)) + zlib.crc32(data).to_bytes(4, "big")


def _deflate(data: bytes) -> bytes:
    return zlib.compress(data)[2:-4]


_PACK: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _deflate,
    "snappy": _snappy,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstandard": lambda data: bytes(pa.Codec("zstd").compress(data, asbytes=True)),
}


def _packed(codec: str, blocks: int, rows: int) -> bytes:
    """Return a file of blocks with `rows` numbered rows each, compressed without the reader's code."""
    empty = _avro(_schema("long"), [], metadata={"more": "yes"})
    name = codec.encode()
    head = empty.replace(b"avro.codec\x08null", b"avro.codec" + bytes((len(name) * 2,)) + name)
    found = [head]
    for block in range(blocks):
        numbers = _avro(_schema("long"), [{"c0": block * rows + row} for row in range(rows)], sync_interval=1 << 30)
        data = numbers[numbers.index(_MARK) + len(_MARK) :][: -len(_MARK)]
        data = data[len(_zigzag(rows)) :]
        data = data[len(_zigzag(_number(data))) :]
        packed = _PACK[codec](data)
        found += [_zigzag(rows), _zigzag(len(packed)), packed, _MARK]
    return b"".join(found)


def _number(data: bytes) -> int:
    found = fastavro.schemaless_reader(io.BytesIO(data), "long", None)
    assert isinstance(found, int)
    return found


def _zigzag(number: int) -> bytes:
    found = io.BytesIO()
    fastavro.schemaless_writer(found, "long", number)
    return found.getvalue()


@pytest.mark.parametrize("codec", _PACK)
def test_files_of_every_codec_are_read_and_what_is_damaged_is_an_error(tmp_path: Path, codec: str) -> None:
    data = _packed(codec, 5, 70_000 if codec == "null" else 100)
    _put(tmp_path, "a.avro", data)
    rows, _ = _read(tmp_path, {"c0": "bigint"}, "AVRO")
    assert [row[0] for row in rows] == list(range(len(rows)))
    assert len(rows) == 5 * (70_000 if codec == "null" else 100)
    damaged = data[:-16] + bytes(16) if codec == "null" else data[:-30] + bytes(14) + data[-16:]
    for number, bad in enumerate((data[:-3], data[: -len(_MARK)], damaged)):
        _put(tmp_path, "a.avro", bad)
        with pytest.raises(SinkqlError) as error:
            _read(tmp_path, {"c0": "bigint"}, "AVRO", state=tmp_path / f"{number}", policy="skip")
        assert error.value.code == "SQ3102"
        assert "cannot be read as AVRO: its block at byte " in error.value.message


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[1]", "it does not begin like an Avro file"),
        (b"Obj\x01\x02", "its schema cannot be read: "),
        (_avro("int", [1]), "its values are not records: their type is int"),
        (
            _packed("null", 1, 1).replace(b"\x08null", b"\x08lzma"),
            "its codec lzma is unknown; the codecs are null, deflate, ",
        ),
        (_packed("null", 1, 1).replace(b'"c0"', b'"c1"'), "it has no column c0; it has c1"),
    ],
)
def test_a_file_that_has_no_rows_of_the_columns_is_an_error(tmp_path: Path, data: bytes, why: str) -> None:
    _put(tmp_path, "a.avro", data)
    with pytest.raises(SinkqlError) as error:
        _read(tmp_path, {"c0": "bigint"}, "AVRO", policy="skip")
    assert error.value.code == "SQ3102"
    assert why in error.value.message


def test_a_record_that_is_nested_too_deeply_is_an_invalid_row(tmp_path: Path) -> None:
    records = [b"\x02\x02" * levels + b"\x02\x00" for levels in (100, 3000)]  # nodes with 1, and a next node or none
    blocks = b"".join(b"\x02" + _long(len(record)) + record + _MARK for record in records)
    _put(tmp_path, "a.avro", _avro(_schema(_NODE), []) + blocks)
    rows, read_counts = _read(tmp_path, {"c0": "jsonb"}, "AVRO", policy="skip")
    assert (len(rows), read_counts.failed) == (1, 1)
    message = read_counts.errors[0].message  # either limit may come first: the planner raises Python's recursion limit
    assert "nested too deeply" in message or "nested more than" in message


_LISTS = {"type": "array", "items": "null"}
_NOTHING = {"type": "record", "name": "Nothing", "fields": []}


@pytest.mark.parametrize(
    ("schema", "record", "count", "why"),
    [
        (_schema(_NODE), b"\x02\x02" * 200_000 + b"\x02\x00", 1, "a record in it is nested too deeply"),
        (_schema(_LISTS), _zigzag(1 << 50) + b"\x00", 1, "its lists claim more values"),
        (_schema({"type": "array", "items": _NOTHING}), _zigzag(-(1 << 50)) + b"\x00\x00", 1, "its lists claim"),
        (_schema(_LISTS), _zigzag(3000) * 1500 + b"\x00", 1, "its lists claim more values"),
        (_schema(_NOTHING), b"", 1 << 50, "it claims 1125899906842624 records in 0 bytes"),
        (_schema(_NODE), b"\x02\x04", 1, "a value in it is of no type of its union"),
        (_schema(_NODE), b"\x02", 1, "its data is cut off"),
    ],
)
def test_a_block_that_would_end_the_process_is_an_error(
    tmp_path: Path, schema: Any, record: bytes, count: int, why: str
) -> None:
    data = _avro(schema, []) + _long(count) + _long(len(record)) + record + _MARK
    _put(tmp_path, "a.avro", data)
    with pytest.raises(SinkqlError, match="its block at byte") as error:
        _read(tmp_path, {"c0": "jsonb"}, "AVRO", policy="skip")
    assert (error.value.code, why in error.value.message) == ("SQ3102", True)


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_a_block_is_not_unpacked_beyond_what_may_be_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    _put(tmp_path, "a.avro", _packed(codec, 1, 5000))
    assert len(_read(tmp_path, {"c0": "bigint"}, "AVRO")[0]) == 5000
    monkeypatch.setattr(typed_formats, "_LARGEST", 1 << 13)
    with pytest.raises(SinkqlError, match=r"more than \d+ MiB") as error:
        _read(tmp_path, {"c0": "bigint"}, "AVRO")
    assert error.value.code == "SQ3102"


def test_values_that_do_not_fit_are_invalid_rows_of_their_numbers(tmp_path: Path) -> None:
    plain = _schema("bytes", "int", "bytes", ["null", "int"], {"type": "array", "items": "bytes"}, ["int", "double"])
    good: dict[str, Any] = {"c0": b"a", "c1": 1, "c2": b"\x01", "c3": 1, "c4": [b"x"], "c5": 1}
    bad: list[dict[str, Any]] = [
        {"c0": b"\xff"},
        {"c1": 9_999_999},
        {"c2": b"\x7f" * 9},
        {"c3": None},
        {"c4": [b"x", b"\xff"]},
        {"c5": float("nan")},
    ]
    data = _avro(plain, [row for each in bad for row in (good, good | each)], sync_interval=20)
    told = _schema(
        "string",
        _of("int", "date"),
        _of("bytes", "decimal", {"precision": 5}),
        ["null", "int"],
        {"type": "array", "items": "string"},
        ["int", "double"],
    )
    _put(tmp_path, "a.avro", _avro(told, []) + data[len(_avro(plain, [])) :])
    types = {"c0": "text", "c1": "date", "c2": "numeric(5,0)", "c3": "integer not null", "c4": "text[]", "c5": "jsonb"}
    rows, read_counts = _read(tmp_path, types, "AVRO", policy="skip")
    assert rows == [("a", dt.date(1970, 1, 2), Decimal(1), 1, ["x"], "1")] * 6
    assert (read_counts.rows, read_counts.failed) == (12, 6)
    assert [each.position for each in read_counts.errors] == [f"a.avro:{row}" for row in range(2, 13, 2)]
    assert [each.message.split(":")[0] for each in read_counts.errors] == [
        'column "c0"',
        'column "c1"',
        'column "c2"',
        'null value in column "c3", which is NOT NULL',
        'column "c4"',
        'column "c5"',
    ]
