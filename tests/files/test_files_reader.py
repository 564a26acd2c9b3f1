"""Files in a folder → the rows that a reader returns, batch by batch."""

from __future__ import annotations

import gzip
import json
import os
import random
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import Limit, Offsets, ReadCounts, Size
from sinkql.connectors.files.local_listing import Folder
from sinkql.connectors.files.reader import FilesReader
from sinkql.errors import SinkqlError
from sinkql.logical.type import BIGINT, TEXT
from sinkql.machine import clock
from sinkql.physical import Column
from sinkql.runtime.batch.pacing import Pacer, PacingOrders

_ALL = Limit(1 << 40, 1 << 50)
_JSON = {"name": "JSON", "whole": False}
_CSV = {"name": "CSV", "header": True, "delimiter": ","}
_COLUMNS = (Column("id", BIGINT), Column("name", TEXT))


def _reader(tmp_path: Path, **changes: Any) -> FilesReader:
    settings: dict[str, Any] = {
        "source": "s",
        "folder": Folder(tmp_path / "in", "*", False),
        "state": tmp_path / "state",
        "home": "files",
        "columns": _COLUMNS,
        "format": _JSON,
        "policy": "fail",
        "max_files": None,
    }
    (tmp_path / "in").mkdir(exist_ok=True)
    settings |= changes
    return FilesReader(**settings, decoding=discover().formats[settings["format"]["name"]].decoding)


def _put(tmp_path: Path, name: str, text: str | bytes) -> Path:
    """Write a file with an old time, so that it counts as complete."""
    path = tmp_path / "in" / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


def _lines(rows: range) -> str:
    return "".join(json.dumps({"id": i, "name": f"n{i}"}) + "\n" for i in rows)


def _rows(
    reader: FilesReader, start: Offsets, end: Offsets, read_counts: ReadCounts | None = None
) -> list[dict[str, Any]]:
    batches = [
        batch
        for split in reader.splits(start, end)
        for batch in reader.read(split, read_counts or ReadCounts())
        if batch.num_rows
    ]
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def _drain(reader: FilesReader, limit: Limit) -> tuple[list[list[dict[str, Any]]], Offsets]:
    at: Offsets = reader.initial(at_end=False)
    found = []
    while (end := reader.latest(at, limit)) != at:
        found.append(_rows(reader, at, end))
        at = end
    return found, at


def test_every_file_is_read_once_in_the_order_of_names(tmp_path: Path) -> None:
    reader = _reader(tmp_path)
    _put(tmp_path, "b.json", _lines(range(3, 5)))
    _put(tmp_path, "a.json", _lines(range(3)))
    batches, at = _drain(reader, _ALL)
    _put(tmp_path, "c.json", _lines(range(5, 6)))
    end = reader.latest(at, _ALL)
    assert [[row["id"] for row in batch] for batch in batches] == [[0, 1, 2, 3, 4]]
    assert _rows(reader, at, end) == [{"id": 5, "name": "n5"}]
    assert end == reader.latest(end, _ALL)


def test_json_files_are_cut_exactly_at_the_row_limit(tmp_path: Path) -> None:
    reader = _reader(tmp_path)
    _put(tmp_path, "a.json", _lines(range(250)))
    _put(tmp_path, "b.json", _lines(range(250, 300)))
    batches, _ = _drain(reader, Limit(100))
    assert [len(batch) for batch in batches] == [100, 100, 100]
    assert list(range(300)) == [row["id"] for batch in batches for row in batch]


def test_a_file_longer_than_a_batch_is_offered_in_parts_at_once(tmp_path: Path) -> None:
    reader = _reader(tmp_path)
    _put(tmp_path, "a.json", _lines(range(250)))
    at: dict[str, Offsets] = {"f": reader.initial(at_end=False)}
    pacer, orders = Pacer({"f": reader}), PacingOrders(at, timedelta(seconds=1), 100)
    found = []
    for _ in range(3):
        end = pacer.next_end(at, orders, 0)
        found.append((len(_rows(reader, at["f"], end["f"])), pacer.cut))
        at = dict(end)
    assert found == [(100, True), (100, True), (50, False)]


def test_a_csv_file_with_comments_that_is_longer_than_the_limit_is_one_batch(tmp_path: Path) -> None:
    reader = _reader(tmp_path, format={**_CSV, "comment": "#"})
    for name in ("a.csv", "b.csv"):
        _put(tmp_path, name, "name,id\n" + "".join(f"x{i},{i}\n" for i in range(50)))
    batches, _ = _drain(reader, Limit(10))
    assert [len(batch) for batch in batches] == [50, 50]


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(4))
def test_ranges_of_csv_give_the_records_and_errors_of_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    fields = ['"a\nb"', "x", '"', '"q""q\n\n"', "é", '"""\n"', "", '"1,\n2"', "\xa0"]
    usual = [field for field in fields if field != '"']
    end = "\r\n" if seed == 3 else "\n"
    records = [f"{i if chance.random() < 0.95 else 'no'},{chance.choice(usual)}" for i in range(150)]
    if seed == 2:
        records[100] += chance.choice('"')
    form = {**_CSV, "header": seed != 1}
    text = ("id,name" + end if form["header"] else "") + end.join(records) + chance.choice(["", end])
    _put(tmp_path, "a.csv", text)
    whole = _reader(tmp_path, format=form, policy="skip", state=tmp_path / "whole")
    start, told = whole.initial(at_end=False), ReadCounts()
    expected = _rows(whole, start, whole.latest(start, _ALL), told)
    assert told.failed
    monkeypatch.setattr("sinkql.connectors.files.content.LONGEST_LINE", 60)
    for step in (1, 100):
        monkeypatch.setattr("sinkql.connectors.files.file_format._SPLIT_BYTES", 2 * step)
        monkeypatch.setattr("sinkql.connectors.files.content.PART_BYTES", step)
        for limit in (_ALL, Limit(17), Limit(1000, 300)):
            reader = _reader(
                tmp_path, format=form, policy="skip", state=tmp_path / f"{step}-{limit.rows}-{limit.bytes}"
            )
            at, found, read_counts = start, [], ReadCounts()
            while (then := reader.latest(at, limit)) != at:
                found += _rows(reader, at, then, read_counts)
                at = then
            assert found == expected
            assert (read_counts.rows, read_counts.failed, read_counts.bytes) == (told.rows, told.failed, told.bytes)
            assert [(each.position, each.message) for each in read_counts.errors] == [
                (each.position, each.message) for each in told.errors
            ]
        assert len(reader.splits(start, at)) > 2


@pytest.mark.parametrize("head", ["id,name\r", '\ufeff"id","na\nme"\r'])
def test_a_csv_file_of_carriage_returns_is_not_cut_at_newlines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: str
) -> None:
    monkeypatch.setattr("sinkql.connectors.files.file_format._SPLIT_BYTES", 40)
    monkeypatch.setattr("sinkql.connectors.files.content.PART_BYTES", 20)
    _put(tmp_path, "a.csv", head + '1,a\n2,b\r3,"c\n"\r' * 50)
    columns = (Column("id", BIGINT), Column("name" if "name" in head else "na\nme", TEXT))
    reader = _reader(tmp_path, format=_CSV, columns=columns, policy="skip")
    start, read_counts = reader.initial(at_end=False), ReadCounts()
    end = reader.latest(start, Limit(17))
    assert _rows(reader, start, end, read_counts) == [{columns[0].name: 3, columns[1].name: "c\n"}] * 50
    assert (read_counts.rows, read_counts.failed) == (100, 50)


def test_byte_ranges_give_each_line_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.Random(5)
    lines = [json.dumps({"id": i, "name": "x" * seed.randrange(40)}) for i in range(400)]
    path = _put(tmp_path, "a.json", "\n".join(lines))
    reader = _reader(tmp_path)
    for step in (1, 7, 64, 1000, path.stat().st_size):
        monkeypatch.setattr("sinkql.connectors.files.file_format._SPLIT_BYTES", 2 * step)
        monkeypatch.setattr("sinkql.connectors.files.content.PART_BYTES", step)
        monkeypatch.setattr("sinkql.connectors.files.split_rows._BLOCK_BYTES", 100)
        start = reader.initial(at_end=False)
        rows = _rows(reader, start, reader.latest(start, _ALL))
        assert list(range(400)) == [row["id"] for row in rows]


def test_a_recreated_reader_continues_from_its_offsets(tmp_path: Path) -> None:
    _put(tmp_path, "a.json", _lines(range(10)))
    first = _reader(tmp_path)
    at = first.latest(first.initial(at_end=False), Limit(4))
    again = _reader(tmp_path)
    end = again.latest(json.loads(json.dumps(at)), _ALL)
    assert list(range(4, 10)) == [row["id"] for row in _rows(again, at, end)]


def test_the_log_stays_short_and_whole(tmp_path: Path) -> None:
    reader = _reader(tmp_path)
    at: Offsets = reader.initial(at_end=False)
    for i in range(40):
        _put(tmp_path, f"f{i:03}.json", _lines(range(i, i + 1)))
        end = reader.latest(at, _ALL)
        assert [i] == [row["id"] for row in _rows(reader, at, end)]
        at = end
    assert len(reader.required_files(at)) <= 16
    assert reader.latest(at, _ALL) == at


def test_a_file_that_changed_after_it_was_listed_is_an_error_by_name(tmp_path: Path) -> None:
    reader = _reader(tmp_path)
    _put(tmp_path, "a.json", _lines(range(3)))
    start = reader.initial(at_end=False)
    at = reader.latest(start, _ALL)
    path = tmp_path / "in" / "a.json"
    path.write_text(_lines(range(4)))
    with pytest.raises(SinkqlError, match=r"a\.json.* changed after it was listed") as poll:
        reader.latest(at, _ALL)
    with pytest.raises(SinkqlError) as replay:
        _rows(reader, start, at)
    assert [poll.value.code, replay.value.code] == ["SQ3301", "SQ3301"]


def test_a_file_that_was_only_touched_is_the_same_file(tmp_path: Path) -> None:
    reader = _reader(tmp_path)
    path = _put(tmp_path, "a.json", _lines(range(3)))
    at = reader.latest(reader.initial(at_end=False), _ALL)
    path.touch()
    assert at == reader.latest(at, _ALL)


def test_a_file_gone_before_it_was_read_is_an_error(tmp_path: Path) -> None:
    reader = _reader(tmp_path)
    path = _put(tmp_path, "a.json", _lines(range(3)))
    start = reader.initial(at_end=False)
    at = reader.latest(start, _ALL)
    path.unlink()
    with pytest.raises(SinkqlError) as error:
        _rows(reader, start, at)
    assert error.value.code == "SQ3302"
    assert error.value.message.endswith(" was removed but must be read")  # also true for a second read


def test_a_damaged_log_is_an_error(tmp_path: Path) -> None:
    reader = _reader(tmp_path)
    _put(tmp_path, "a.json", _lines(range(3)))
    at = reader.latest(reader.initial(at_end=False), _ALL)
    segment = tmp_path / "state" / reader.required_files(at)[0]
    segment.write_bytes(segment.read_bytes()[:-5])
    with pytest.raises(SinkqlError) as error:
        _reader(tmp_path).latest(at, _ALL)
    assert error.value.code == "SQ3303"


def test_a_file_just_being_written_waits_unless_the_run_is_bounded(tmp_path: Path) -> None:
    reader = _reader(tmp_path)
    path = tmp_path / "in" / "a.json"
    path.write_text(_lines(range(3)))
    start = reader.initial(at_end=False)
    far = path.stat().st_mtime + 3600
    os.utime(path, (far, far))
    assert start == reader.latest(start, _ALL)
    target = reader.target(start)
    assert [row["id"] for row in _rows(reader, start, reader.latest(start, _ALL, target))] == [0, 1, 2]


def test_a_file_whose_time_lies_ahead_is_read_once_it_was_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 1.0
    monkeypatch.setattr(clock, "monotonic_ns", lambda: int(seconds * 1_000_000_000))
    reader, far, read = _reader(tmp_path), time.time() + 3600, []
    start = reader.initial(at_end=False)
    for rows, wait in ((1, 0), (None, 0.9), (2, 0.9), (None, 0.9), (None, 0.2)):
        if rows is not None:
            os.utime(_put(tmp_path, "a.json", _lines(range(rows))), (far, far))
        seconds += wait
        read.append([row["id"] for row in _rows(reader, start, reader.latest(start, _ALL))])
    assert read == [[], [], [], [], [0, 1]]


def test_a_bounded_run_leaves_out_what_comes_later(tmp_path: Path) -> None:
    reader = _reader(tmp_path)
    _put(tmp_path, "b.json", _lines(range(3)))
    start = reader.initial(at_end=False)
    target = reader.target(start)
    _put(tmp_path, "a.json", _lines(range(3, 6)))
    end = reader.latest(start, _ALL, target)
    assert [row["id"] for row in _rows(reader, start, end)] == [0, 1, 2]
    assert end == reader.latest(end, _ALL, target)


def test_a_bounded_run_in_several_batches_ends_at_its_target(tmp_path: Path) -> None:
    reader = _reader(tmp_path)
    for i in range(3):
        _put(tmp_path, f"{i}.json", _lines(range(4 * i, 4 * i + 4)))
    at = reader.initial(at_end=False)
    target = reader.target(at)
    batches = []
    for _ in range(3):
        end = reader.latest(at, Limit(rows=5), target)
        batches.append([row["id"] for row in _rows(reader, at, end)])
        at = end
    assert [list(range(5)), list(range(5, 10)), [10, 11]] == batches
    assert at == target


def test_max_files_bounds_a_batch(tmp_path: Path) -> None:
    reader = _reader(tmp_path, max_files=2)
    for i in range(5):
        _put(tmp_path, f"{i}.json", _lines(range(i, i + 1)))
    batches, _ = _drain(reader, _ALL)
    assert [len(batch) for batch in batches] == [2, 2, 1]


def test_lag_is_the_age_of_the_oldest_file_that_is_not_read_whole(tmp_path: Path) -> None:
    reader = _reader(tmp_path)
    _put(tmp_path, "a.json", _lines(range(10)))
    age = time.time() - 1_700_000_000
    start = reader.initial(at_end=False)
    part = reader.latest(start, Limit(4))
    whole = reader.latest(start, _ALL)
    lags = [reader.lag(offsets) for offsets in (start, part, whole)]
    assert [lag >= age for lag in lags] == [True, True, False]
    assert lags[2] == 0


def test_hidden_and_other_files_are_left_out_and_subfolders_are_read_if_asked(tmp_path: Path) -> None:
    for name in ("a.json", ".b.json", "_c.json", "d.txt", "day=1/e.json", "day=1/_left/f.json"):
        _put(tmp_path, name, _lines(range(1)))
    flat = Folder(tmp_path / "in", "*.json", False)
    deep = Folder(tmp_path / "in", "*.json", True)
    assert sorted(name for name, _ in flat.names()) == ["a.json"]
    assert sorted(name for name, _ in deep.names()) == ["a.json", "day=1/e.json"]


def test_an_absent_folder_is_an_error(tmp_path: Path) -> None:
    reader = _reader(tmp_path, folder=Folder(tmp_path / "none", "*", False))
    with pytest.raises(SinkqlError) as error:
        reader.latest(reader.initial(at_end=False), _ALL)
    assert error.value.code == "SQ3304"


def test_compressed_files_are_read(tmp_path: Path) -> None:
    _put(tmp_path, "a.json.gz", gzip.compress(_lines(range(3)).encode()))
    _put(tmp_path, "b.csv.gz", gzip.compress(b"id,name\n7,x\n"))
    json_rows, _ = _drain(_reader(tmp_path, folder=Folder(tmp_path / "in", "*.json.gz", False)), _ALL)
    csv_rows, _ = _drain(_reader(tmp_path, folder=Folder(tmp_path / "in", "*.csv.gz", False), format=_CSV), _ALL)
    assert [[row["id"] for row in rows[0]] for rows in (json_rows, csv_rows)] == [[0, 1, 2], [7]]


@pytest.mark.parametrize("block", [10, 1 << 20])
def test_a_json_row_that_does_not_parse_is_named_by_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr("sinkql.connectors.files.split_rows._BLOCK_BYTES", block)
    lines = _lines(range(30)).splitlines()
    lines[16] = '{"id": "seventeen"}'
    _put(tmp_path, "a.json", "\n".join(lines))
    reader = _reader(tmp_path)
    start = reader.initial(at_end=False)
    with pytest.raises(SinkqlError) as error:
        _rows(reader, start, reader.latest(start, _ALL))
    assert error.value.code == "SQ3101"
    assert 'a.json:17: column "id": expected bigint, got str' in error.value.message


def test_skipped_rows_are_counted_and_the_others_come(tmp_path: Path) -> None:
    _put(tmp_path, "a.csv", 'id,name\n1,x\n2,y,z\nq,w\n4,\n5,""\n')
    reader = _reader(tmp_path, format=_CSV, policy="skip")
    start = reader.initial(at_end=False)
    read_counts = ReadCounts()
    rows = _rows(reader, start, reader.latest(start, _ALL), read_counts)
    assert [(row["id"], row["name"]) for row in rows] == [(1, "x"), (4, None), (5, "")]
    assert [(each.position, each.message) for each in read_counts.errors] == [
        ("a.csv:3", "expected 2 fields, found 3"),
        ("a.csv:4", 'column "id": "q" is not a bigint'),
    ]
    assert (read_counts.rows, read_counts.failed) == (5, 2)


def test_a_csv_header_with_a_column_in_other_case_says_how_to_declare_it(tmp_path: Path) -> None:
    _put(tmp_path, "a.csv", "ID,Name\n1,x\n")
    reader = _reader(tmp_path, format=_CSV)
    start = reader.initial(at_end=False)
    with pytest.raises(SinkqlError, match='it has ID, Name; a name with capitals is declared in quotes, as "ID"'):
        _rows(reader, start, reader.latest(start, _ALL))


def test_a_csv_header_without_a_declared_column_is_an_error(tmp_path: Path) -> None:
    _put(tmp_path, "a.csv", "id,nam\n1,x\n")
    reader = _reader(tmp_path, format=_CSV)
    start = reader.initial(at_end=False)
    with pytest.raises(SinkqlError, match="its header has no column name; it has id, nam") as error:
        _rows(reader, start, reader.latest(start, _ALL))
    assert error.value.code == "SQ3102"


@pytest.mark.parametrize("text", ["", "id,name\n"])
def test_files_without_rows_give_none(tmp_path: Path, text: str) -> None:
    _put(tmp_path, "a.csv", text)
    reader = _reader(tmp_path, format=_CSV)
    batches, at = _drain(reader, _ALL)
    assert batches == [[]]
    assert len(reader.required_files(at)) == 1


def test_columns_go_by_the_headers_names_that_are_given(tmp_path: Path) -> None:
    _put(tmp_path, "a.csv", 'x;"Order Id";Name\n# a comment; "\n-;1;NA\n-;2;"NA"\n')
    form = {"header": True, "names": ["Order Id", "Name"], "delimiter": ";", "null": "NA", "comment": "#"}
    batches, _ = _drain(_reader(tmp_path, format={"name": "CSV", **form}), _ALL)
    assert batches == [[{"id": 1, "name": None}, {"id": 2, "name": "NA"}]]


def test_a_file_that_is_one_array_is_one_batch(tmp_path: Path) -> None:
    _put(tmp_path, "a.json", '[{"id": 1},\n {"id": 2, "name": "x"}]')
    _put(tmp_path, "b.json.gz", gzip.compress(b'[{"id": 3}]'))
    reader = _reader(tmp_path, format={"name": "JSON", "whole": False, "array": True})
    batches, _ = _drain(reader, Limit(1))
    assert [[row["id"] for row in batch] for batch in batches] == [[1, 2], [3]]


def _skipped(tmp_path: Path, name: str, data: bytes, **changes: Any) -> tuple[list[Any], list[str], ReadCounts]:
    """Return the ids read from a file, the positions of skipped records, and the counts."""
    _put(tmp_path, name, data)
    reader = _reader(tmp_path, policy="skip", **changes)
    start, read_counts = reader.initial(at_end=False), ReadCounts()
    rows = _rows(reader, start, reader.latest(start, _ALL), read_counts)
    assert read_counts.rows == len(rows) + read_counts.failed
    return [row["id"] for row in rows], [each.position for each in read_counts.errors], read_counts


def test_a_quote_that_is_not_closed_is_an_error_with_its_line(tmp_path: Path) -> None:
    ids, places, read_counts = _skipped(tmp_path, "a.csv", b'id,name\n1,"a\nb"\n2,"x\n3,y\n4,z\n', format=_CSV)
    assert (ids, places) == ([1], ["a.csv:4"])
    assert "includes the rest of the file, 3 lines" in read_counts.errors[0].message


def test_places_are_lines_and_an_invalid_byte_fails_its_row(tmp_path: Path) -> None:
    ids, places, _ = _skipped(tmp_path, "a.csv", b'id,name\n1,"a\n\nb"\n2,\xff\nx,c\n\n3,d\n', format=_CSV)
    assert (ids, places) == ([1, 3], ["a.csv:5", "a.csv:6", "a.csv:7"])


def test_a_row_may_be_larger_than_a_block(tmp_path: Path) -> None:
    long = "x" * (5 << 20)
    ids, places, _ = _skipped(tmp_path, "a.csv", f'id,name\n1,{long}\n2,"{long}\n"\n3,y\n'.encode(), format=_CSV)
    assert (ids, places) == ([1, 2, 3], [])


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path) -> None:
    assert _skipped(tmp_path, "a.json", b'\xef\xbb\xbf{"id": 1}\n{"id": 2}\n')[:2] == ([1, 2], [])


def test_a_byte_order_mark_is_no_part_of_the_header(tmp_path: Path) -> None:
    assert _skipped(tmp_path, "a.csv", b"\xef\xbb\xbfid,name\n1,x\n", format=_CSV)[:2] == ([1], [])


def test_a_blank_line_of_one_column_is_a_row(tmp_path: Path) -> None:
    column = (Column("id", TEXT),)
    plain = {"name": "CSV", "header": False, "delimiter": ","}
    ids, places, _ = _skipped(tmp_path, "a.csv", b'a\n\n""\nb\n', format=plain, columns=column)
    assert (ids, places) == (["a", None, "", "b"], [])


_COMPRESSED = gzip.compress(_lines(range(9)).encode(), mtime=0)


@pytest.mark.parametrize(
    ("files", "size"),
    [
        ({}, Size(0, 0)),
        ({"a.json": ""}, Size(0, 0)),
        ({"a.json": _lines(range(1000)), "b.json": _lines(range(9))}, Size(1009, len(_lines(range(1000))) + 9 * 24)),
        ({f"{each}.json": _lines(range(1)) for each in range(12)}, Size(12, 12 * 24)),
        ({"a.json.gz": _COMPRESSED}, Size(len(_COMPRESSED) // 10, len(_COMPRESSED) * 10)),
    ],
)
def test_the_size_of_a_batch_is_by_lines_or_by_bytes(tmp_path: Path, files: dict[str, str | bytes], size: Size) -> None:
    reader = _reader(tmp_path)
    for name, text in files.items():
        _put(tmp_path, name, text)
    start = reader.initial(at_end=False)
    assert size == reader.size(reader.splits(start, reader.latest(start, _ALL)))


def test_the_size_of_a_part_of_a_file_has_its_share_of_the_lines(tmp_path: Path) -> None:
    reader = _reader(tmp_path)
    _put(tmp_path, "a.json", "".join(f'{{"id": {i}, "name": "x"}}\n' for i in range(100, 900)))
    start = reader.initial(at_end=False)
    middle = reader.latest(start, Limit(200, 1 << 50))
    assert Size(200, 200 * 25) == reader.size(reader.splits(start, middle))
    assert Size(600, 600 * 25) == reader.size(reader.splits(middle, reader.latest(middle, _ALL)))


def test_the_rows_of_a_format_without_lines_are_guessed(tmp_path: Path) -> None:
    array = _reader(tmp_path, format=_JSON | {"array": True})
    _put(tmp_path, "a.json", "[" + ",".join(_lines(range(40)).split("\n")[:-1]) + "]")
    start = array.initial(at_end=False)
    size = array.size(array.splits(start, array.latest(start, _ALL)))
    bytes_ = (tmp_path / "in" / "a.json").stat().st_size
    assert Size(bytes_ // 100, bytes_) == size
