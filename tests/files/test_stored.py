"""Parquet and ORC files → rows of declared columns, split by split, or an error that names the file and the column."""

from __future__ import annotations

import datetime as dt
import io
import os
import random
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from files.test_files_reader import _ALL, _drain, _put, _reader, _rows
from sinkql import compile as compile_sql
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import Limit, ReadCounts, UndecodableError
from sinkql.connectors.files import content, file_format
from sinkql.decode import text_column
from sinkql.errors import SinkqlError
from sinkql.logical.type import BIGINT, TEXT, parse_type
from sinkql.physical import Column

_PARQUET, _ORC = {"name": "PARQUET"}, {"name": "ORC"}
_WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {"PARQUET": pq.write_table, "ORC": po.write_table}


def _write(tmp_path: Path, name: str, columns: dict[str, Any], format_: str = "PARQUET", **options: Any) -> Path:
    path = _put(tmp_path, name, b"")
    table = pa.table(
        {each: values if isinstance(values, pa.Array) else pa.array(values) for each, values in columns.items()}
    )
    _WRITERS[format_](table, path, **options)
    return _put(tmp_path, name, path.read_bytes())


def _read(
    tmp_path: Path, types: dict[str, str], format_: str = "PARQUET", **changes: Any
) -> tuple[list[Any], ReadCounts]:
    columns = tuple(
        Column(name, parse_type(type_.removesuffix(" not null")), not type_.endswith(" not null"))
        for name, type_ in types.items()
    )
    found = _reader(tmp_path, format={"name": format_}, columns=columns, **changes)
    start, read_counts = found.initial(at_end=False), ReadCounts()
    return [tuple(row.values()) for row in _rows(found, start, found.latest(start, _ALL), read_counts)], read_counts


_DAY, _AT = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 1, 2, 3, 4)
_VALUES: list[tuple[pa.Array, str, Any]] = [
    (pa.array([True, None]), "boolean", True),
    (pa.array([-5, None], pa.int8()), "smallint", -5),
    (pa.array([-5, None], pa.int8()), "bigint", -5),
    (pa.array([7, None], pa.int32()), "numeric(12,2)", Decimal("7.00")),
    (pa.array([2**64 - 1, None], pa.uint64()), "numeric(20,0)", Decimal(2**64 - 1)),
    (pa.array([2**64 - 1, None], pa.uint64()), "uint8", 2**64 - 1),
    (pa.array([7, None], pa.int64()), "uint2", 7),
    (pa.array([1.5, None], pa.float32()), "double precision", 1.5),
    (pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)), "numeric(38,10)", Decimal("1.5000000000")),
    (pa.array([_DAY, None]), "date", _DAY),
    (pa.array([_AT, None], pa.timestamp("ns")), "timestamp", _AT),
    (pa.array([_AT, None], pa.timestamp("us", "Europe/Berlin")), "timestamptz", _AT.replace(tzinfo=dt.UTC)),
    (pa.array([dt.time(1, 2, 3, 4), None], pa.time64("ns")), "time", dt.time(1, 2, 3, 4)),
    (pa.array(["é", None]).dictionary_encode(), "text", "é"),
    (pa.array(["A0EEBC999C0B4EF8BB6D6BB9BD380A11", None]), "uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    (pa.array([UUID(int=1).bytes, None], pa.uuid()), "uuid", str(UUID(int=1))),
    (pa.array(['{"b":1,"a":2}', None]), "jsonb", '{"a": 2, "b": 1}'),
    (pa.array([b"\0\xff", None]), "bytea", b"\0\xff"),
    (pa.array([{"bb": [Decimal("1.10"), None], "a": _DAY}, None]), "jsonb", '{"a": "2024-02-29", "bb": [1.10, null]}'),
    (pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int8())), "jsonb", '{"k": 1}'),
]  # fmt: skip


def test_a_column_is_read_as_its_own_type_or_one_with_room_for_it(tmp_path: Path) -> None:
    _write(
        tmp_path, "a.parquet", {f"c{place}": values for place, (values, _, _) in enumerate(_VALUES)} | {"more": [1, 2]}
    )
    rows, _ = _read(tmp_path, {f"c{place}": type_ for place, (_, type_, _) in enumerate(_VALUES)})
    assert rows == [tuple(value for _, _, value in _VALUES), (None,) * len(_VALUES)]


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (pa.array(["1"]), "bigint"), (pa.array([1], pa.int64()), "integer"), (pa.array([1]), "numeric(10,0)"),
        (pa.array([1.5]), "real"), (pa.array([1.5]), "numeric(10,2)"), (pa.array([_DAY]), "timestamp"),
        (pa.array([_AT]), "timestamptz"), (pa.array([Decimal("1.25")], pa.decimal128(10, 2)), "numeric(9,2)"),
        (pa.array([Decimal("1.25")], pa.decimal128(10, 2)), "numeric(20,1)"), (pa.array([b"x"]), "text"),
        (pa.array([[1]]), "text"), (pa.array([True]), "integer"),
    ],
)  # fmt: skip
def test_a_column_of_another_type_is_an_error_that_names_both(tmp_path: Path, values: pa.Array, type_: str) -> None:
    path = _write(tmp_path, "a.parquet", {"id": [1], "c": values})
    with pytest.raises(SinkqlError) as error:
        _read(tmp_path, {"id": "bigint", "c": type_}, policy="skip")
    assert error.value.code == "SQ3102"
    assert f'file "{path}" cannot be read as PARQUET: column "c" has type ' in error.value.message
    assert f", not {type_}" in error.value.message


@pytest.mark.parametrize("columns", [{"other": [1]}, {"ID": [1]}])
def test_a_file_without_a_column_is_an_error(tmp_path: Path, columns: dict[str, Any]) -> None:
    _write(tmp_path, "a.parquet", columns)
    with pytest.raises(SinkqlError, match="it has no column id; it has ") as error:
        _read(tmp_path, {"id": "bigint"})
    assert error.value.code == "SQ3102"


@pytest.mark.parametrize(("type_", "values"), [("uint2", [7, -1, 65536, 65535]), ("uint8", [7, -1, 2**63 - 1])])
def test_unsigned_integers_of_signed_columns_are_not_below_zero(tmp_path: Path, type_: str, values: list[int]) -> None:
    _write(tmp_path, "a.parquet", {"n": pa.array(values)})
    rows, read_counts = _read(tmp_path, {"n": type_}, policy="skip")
    assert [value for (value,) in rows] == [value for value in values if value not in (-1, 65536)]
    assert read_counts.failed == len(values) - len(rows)
    assert "-1 does not fit" in read_counts.errors[0].message


def test_values_that_do_not_fit_are_invalid_rows(tmp_path: Path) -> None:
    ends = b"".join(end.to_bytes(4, "little") for end in range(9))
    texts = pa.Array.from_buffers(pa.string(), 8, [None, pa.py_buffer(ends), pa.py_buffer(b"a\xffc\0efgh")])
    base = 1_700_000_000_000_000_000
    at = pa.array([base, base, base, base, base + 1, None, base, base], pa.int64()).view(pa.timestamp("ns"))
    day = pa.array([0, 0, 0, 0, 0, 0, 3_000_000, -800_000], pa.int32()).view(pa.date32())
    _write(tmp_path, "a.parquet", {"n": pa.array(range(8)), "t": texts, "at": at, "d": day}, row_group_size=3)
    types = {"n": "bigint", "t": "text", "at": "timestamp not null", "d": "date"}
    rows, read_counts = _read(tmp_path, types, policy="skip")
    assert [row[:2] for row in rows] == [(0, "a"), (2, "c")]
    assert (read_counts.rows, read_counts.failed) == (8, 6)
    assert [each.position for each in read_counts.errors] == [f"a.parquet:{row}" for row in (2, 4, 5, 6, 7, 8)]
    with pytest.raises(SinkqlError, match=r'a\.parquet:2: column "t": ') as error:
        _read(tmp_path, types)
    assert error.value.code == "SQ3101"


def test_documents_that_take_much_room_come_in_parts_and_too_many_of_one_row_fail_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_column, "_WIDEST", 1 << 12)
    texts = ['"%s"' % (f"{number}" * 600) for number in range(9)]
    lists = [[text, text] if number != 5 else [text] * 9 for number, text in enumerate(texts)]
    _write(tmp_path, "wide", {"v": pa.array(texts), "l": pa.array(lists)})
    rows, read_counts = _read(tmp_path, {"v": "jsonb", "l": "jsonb list"}, policy="skip")
    assert rows == [(text, found) for number, (text, found) in enumerate(zip(texts, lists, strict=True)) if number != 5]
    assert [(each.position.rpartition(":")[2], each.message) for each in read_counts.errors] == [
        ("6", text_column.WIDE)
    ]


def test_times_that_no_day_and_no_calendar_has_are_invalid_rows(tmp_path: Path) -> None:
    far = 400_000_000_000_000  # milliseconds: a year in the range of microseconds, but not of a date
    at = pa.array([2**62, 0, far, 0, 0], pa.int64()).view(pa.timestamp("ms"))
    time = pa.array([0, 86_399_999, 0, 86_400_000, -1], pa.int32()).view(pa.time32("ms"))
    _write(tmp_path, "a.parquet", {"at": at, "t": time})
    rows, read_counts = _read(tmp_path, {"at": "timestamp", "t": "time"}, policy="skip")
    assert rows == [(dt.datetime(1970, 1, 1), dt.time(23, 59, 59, 999000))]
    assert [each.position for each in read_counts.errors] == [f"a.parquet:{row}" for row in (1, 3, 4, 5)]


def _write_avro(table: pa.Table, path: Path, **options: Any) -> None:
    fields = [{"name": name, "type": type_} for name, type_ in (("id", "long"), ("name", "string"))]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "R", "fields": fields}, table.to_pylist(), **options)


_WRITERS["AVRO"] = _write_avro
_SMALL_PIECES = {"PARQUET": {"row_group_size": 300}, "ORC": {"stripe_size": 2000}, "AVRO": {"sync_interval": 1500}}


@pytest.mark.parametrize("format_", ["PARQUET", "ORC", "AVRO"])
def test_splits_of_a_file_give_each_row_once_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    monkeypatch.setattr(content, "PART_BYTES", 1000)
    monkeypatch.setattr(file_format, "_SPLIT_BYTES", 5000)
    seed = random.Random(1)
    names = [seed.randbytes(5).hex() for _ in range(5000)]
    for number in range(2):
        _write(tmp_path, f"{number}.x", {"id": range(5000), "name": names}, format_, **_SMALL_PIECES[format_])
    found = _reader(tmp_path, format={"name": format_})
    start = found.initial(at_end=False)
    end = found.latest(start, Limit(6000))
    splits = list(found.splits(start, end))
    assert len(splits) > 10
    seed.shuffle(splits)
    read_counts = ReadCounts()
    pieces = [[row for batch in found.read(split, read_counts) for row in batch.to_pylist()] for split in splits]
    assert sum(1 for piece in pieces if piece) >= 5
    rows = [row for piece in pieces for row in piece]
    assert sorted(row["id"] for row in rows) == list(range(5000))
    assert {row["name"] for row in rows} == set(names)
    assert read_counts.bytes == (tmp_path / "in" / "0.x").stat().st_size
    rest, _ = _drain(found, Limit(6000))
    assert [len(batch) for batch in rest] == [5000, 5000]


@pytest.mark.parametrize("format_", _SMALL_PIECES)
def test_an_invalid_row_has_its_number_in_the_file(tmp_path: Path, format_: str) -> None:
    ids = [None if number == 4500 else number for number in range(5000)]
    names = [f"{number:07}" * 3 for number in range(5000)]
    table = pa.table({"id": pa.array(ids if format_ != "AVRO" else [each or 0 for each in ids]), "name": names})
    if format_ == "AVRO":
        table = table.set_column(1, "name", pa.array(["\0" if each is None else "a" for each in ids]))
    _put(tmp_path, "a.x", b"")
    _WRITERS[format_](table, tmp_path / "in" / "a.x", **_SMALL_PIECES[format_])
    os.utime(tmp_path / "in" / "a.x", (1_700_000_000, 1_700_000_000))
    _, read_counts = _read(tmp_path, {"id": "bigint not null", "name": "text"}, format_, policy="skip")
    assert [each.position for each in read_counts.errors] == ["a.x:4501"]


class _Counting(io.BytesIO):
    """A file that counts the bytes read from it."""

    count = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data


@pytest.mark.parametrize(
    ("format_", "rows", "options"), [("ORC", 50_000, {"stripe_size": 2000}), ("AVRO", 2000, {"sync_interval": 20})]
)
def test_invalid_rows_of_every_piece_are_numbered_without_reading_all_before_them_again(
    tmp_path: Path, format_: str, rows: int, options: dict[str, Any]
) -> None:
    path = _put(tmp_path, "a.x", b"")
    _WRITERS[format_](pa.table({"name": [f"{each:030}" for each in range(rows)], "id": range(rows)}), path, **options)
    stream = _Counting(path.read_bytes())
    decoder = discover().formats[format_].decoding.stored
    assert decoder is not None
    columns = [Column("name", parse_type("uuid")), Column("id", BIGINT)]
    parts = list(decoder({"name": format_}, columns).decode(stream))
    assert [failure.line for part in parts for failure in part.failures] == list(range(1, rows + 1))
    assert stream.count < 5 * len(stream.getvalue())


def test_a_file_rewritten_after_it_was_listed_gives_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "PART_BYTES", 1000)
    path = _write(tmp_path, "a.parquet", {"id": range(1000), "name": ["x"] * 1000}, compression="none")
    found = _reader(tmp_path, format=_PARQUET)
    start = found.initial(at_end=False)
    (split,) = found.splits(start, found.latest(start, _ALL))
    data = bytearray(path.read_bytes())
    data[3000] ^= 1
    path.write_bytes(data)
    with pytest.raises(SinkqlError, match="changed after it was listed") as error:
        list(found.read(split, ReadCounts()))
    assert error.value.code == "SQ3301"


@pytest.mark.parametrize("format_", ["PARQUET", "ORC"])
@pytest.mark.parametrize("damage", ["cut", "empty", "text", "inside"])
def test_a_damaged_file_is_an_error_and_its_rows_come_once_when_it_is_mended(
    tmp_path: Path, format_: str, damage: str
) -> None:
    whole = _write(tmp_path, "a.x", {"id": range(1000), "name": ["x"] * 1000}, format_).read_bytes()
    inside = whole[:40] + bytes(each ^ 0x55 for each in whole[40:300]) + whole[300:]
    broken = {"cut": whole[:-20], "empty": b"", "text": b"id,name\n1,x\n" * 10, "inside": inside}[damage]
    _put(tmp_path, "a.x", broken)
    columns = {"id": "bigint", "name": "text"}
    with pytest.raises(SinkqlError, match=f'a.x" cannot be read as {format_}: ') as error:
        _read(tmp_path, columns, format_)
    assert error.value.code == "SQ3102"
    _put(tmp_path, "a.x", whole)
    assert [row[0] for row in _read(tmp_path, columns, format_)[0]] == list(range(1000))


@pytest.mark.parametrize("format_", ["PARQUET", "ORC"])
def test_a_file_without_rows_gives_none(tmp_path: Path, format_: str) -> None:
    _write(tmp_path, "a.x", {"id": pa.array([], pa.int64()), "name": pa.array([], pa.string())}, format_)
    assert _read(tmp_path, {"id": "bigint", "name": "text"}, format_)[0] == []


def test_columns_of_a_source_are_those_of_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    duckdb.sql(
        "COPY (SELECT 1::int AS id, 'x' AS name, 1.5::decimal(9,2) AS amount, now() AS at, [1] AS tags, "
        "uuid() AS key) TO 'in/a.parquet'"
    )
    (notice,) = compile_sql("CREATE SOURCE s FROM FILES (PATH = 'in') FORMAT PARQUET;").notices
    columns = "id integer, name text, amount numeric(9,2), at timestamptz, tags integer list, key uuid"
    assert notice.message.replace('"', "") == f"columns found in a sample: ({columns})"
    _write(tmp_path, "b.parquet", {"id": ["x"]})
    with pytest.raises(SinkqlError, match=r'in/b\.parquet" cannot be sampled: column "id" is missing or has') as error:
        compile_sql("CREATE SOURCE s FROM FILES (PATH = 'in') FORMAT PARQUET;")
    assert error.value.code == "SQ3102"


@pytest.mark.parametrize("format_", ["PARQUET", "ORC"])
def test_names_that_arrow_takes_for_paths_are_those_of_columns(tmp_path: Path, format_: str) -> None:
    """Column `a.b` is not field `b` of column `a`."""
    columns: dict[str, Any] = {"id": [1, 2], "a.b": [3, 4], "a": [{"b": 7}, {"b": 8}], "c`d": [5, 6], "*": [7, 8]}
    _write(tmp_path, "a", {**columns, ".": [9, 9], "a.": [0, 0]}, format_)
    for name in ("id", "a.b", "c`d", "*", ".", "a."):
        found, _ = _read(tmp_path, {name: "bigint"}, format_)
        assert found == [(each,) for each in {**columns, ".": [9, 9], "a.": [0, 0]}[name]], name
    found, _ = _read(tmp_path, {"a": "jsonb", "a.b": "bigint"}, format_)
    assert found == [('{"b": 7}', 3), ('{"b": 8}', 4)]


def test_int96_has_all_years_of_a_timestamp(tmp_path: Path) -> None:
    """Spark, Hive and Impala write it, with 9999-12-31 for "no end"; nanoseconds only cover 1677 to 2262."""
    times = [dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(1, 1, 1), dt.datetime(2024, 2, 29, 1, 2, 3, 4)]
    _write(tmp_path, "a", {"t": pa.array(times, pa.timestamp("us"))}, use_deprecated_int96_timestamps=True)
    assert _read(tmp_path, {"t": "timestamp"})[0] == [(each,) for each in times]


@pytest.mark.parametrize("format_", ["PARQUET", "ORC"])
def test_a_file_that_is_torn_anywhere_is_undecodable(format_: str) -> None:
    """A file that is cut off or has a changed byte causes no other error, which would not name the file."""
    stored = io.BytesIO()
    _WRITERS[format_](pa.table({"id": range(50), "text": ["é"] * 50}), stored)  # type: ignore[arg-type]
    data, seed, torn = stored.getvalue(), random.Random(4), []
    for _ in range(150):
        cut, changed = data[: seed.randrange(len(data))], bytearray(data)
        changed[seed.randrange(len(data))] = seed.choice([0, 0xFF, seed.randrange(256)])
        torn += [cut] if format_ == "PARQUET" else [cut, bytes(changed)]
    names = data.replace(b"text", b"t\xffxt")
    decoding = discover().formats[format_].decoding.stored
    assert decoding is not None
    failed = 0
    for each in (*torn, names):
        with suppress(UndecodableError):
            list(decoding({"name": format_}, [Column("id", BIGINT), Column("text", TEXT)]).decode(io.BytesIO(each)))
            continue
        failed += 1
    assert failed > 100
