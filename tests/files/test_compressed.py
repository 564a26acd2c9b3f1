"""Compressed files, whole and damaged, and lines of any length: rows once, or an error that names the file."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest

from files.test_files_reader import _ALL, _CSV, _drain, _put, _reader, _rows
from sinkql.connector_api.stream import Limit, Offsets
from sinkql.connectors.files import content, split_rows
from sinkql.connectors.files import content as compression_module
from sinkql.connectors.files.content import Compression, Written
from sinkql.connectors.files.local_listing import Folder
from sinkql.connectors.files.split_rows import whole_lines
from sinkql.errors import SinkqlError

_ENDINGS = {"gzip": ".gz", "bz2": ".bz2", "zstd": ".zst", "lz4": ".lz4"}
_WORDS: dict[str, Compression] = {"gzip": "GZIP", "bz2": "BZIP2", "zstd": "ZSTD", "lz4": "LZ4"}


def _json(first: int, stop: int) -> bytes:
    return b"".join(b'{"id": %d}\n' % number for number in range(first, stop))


def _compressed(data: bytes, codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    found: bytes = sink.getvalue().to_pybytes()
    return found


@pytest.mark.parametrize("codec", _ENDINGS)
def test_a_file_of_several_members_is_read_whole_by_its_name_or_by_the_option(tmp_path: Path, codec: str) -> None:
    empty = _compressed(b"", codec) if codec != "bz2" else b""  # Arrow takes an empty bz2 stream for damage
    data = _compressed(_json(0, 1000), codec) + empty + _compressed(_json(1000, 1500), codec)
    table = b"".join(_compressed(part, codec) for part in (b"id,na", b"me\n7,x\n8", b",y\n"))
    ways: list[tuple[str, Compression]] = [(f"a.json{_ENDINGS[codec].upper()}", "AUTO"), ("a.json", _WORDS[codec])]
    for name, compression in ways:
        home = tmp_path / name
        _put(home, name, data)
        batches, _ = _drain(_reader(home, written=Written(compression)), _ALL)
        assert [list(range(1500))] == [[row["id"] for row in batch] for batch in batches]
        _put(home / "csv", name, table)
        batches, _ = _drain(_reader(home / "csv", written=Written(compression), format=_CSV), _ALL)
        assert [[row["id"] for row in batch] for batch in batches] == [[7, 8]]


def test_a_name_means_nothing_where_the_option_says_what_it_is(tmp_path: Path) -> None:
    _put(tmp_path, "a.json.gz", _json(0, 3))
    batches, _ = _drain(_reader(tmp_path, written=Written("NONE")), _ALL)
    assert [[row["id"] for row in batch] for batch in batches] == [[0, 1, 2]]


@pytest.mark.parametrize("codec", _ENDINGS)
def test_a_file_that_grows_beyond_all_measure_is_refused(
    tmp_path: Path, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression_module, "_MOST_BYTES", 1 << 20)
    rows = _json(0, 1000)
    _put(tmp_path, f"a.json{_ENDINGS[codec]}", _compressed(rows + b"\n" * (24 << 20), codec))
    with pytest.raises(SinkqlError, match=r"SQ3102.*more than 1 MiB.*more than 200 times"):
        _drain(_reader(tmp_path), _ALL)
    _put(tmp_path, f"a.json{_ENDINGS[codec]}", _compressed(rows + b"\n" * (1 << 19), codec))
    batches, _ = _drain(_reader(tmp_path), _ALL)
    assert [len(batch) for batch in batches] == [1000]


@pytest.mark.parametrize("blank", [b"\n", b" \n", b"\r\n", b"\t\r\n"])
def test_blank_lines_before_between_and_after_rows_are_none(tmp_path: Path, blank: bytes) -> None:
    _put(
        tmp_path, "a.json", blank * 1000 + _json(0, 2) + blank * 1000 + _json(2, 3) + blank * 1000 + blank.strip(b"\n")
    )
    batches, _ = _drain(_reader(tmp_path), _ALL)
    assert [[row["id"] for row in batch] for batch in batches] == [[0, 1, 2]]


def _damages(codec: str) -> dict[str, bytes]:
    one, two = _compressed(_json(10, 2010), codec), _compressed(_json(2010, 2020), codec)
    return {
        "cut in the first member": one[: len(one) // 2],
        "cut after the header": one[:5],
        "cut in the second member": one + two[:-1],
        "cut in the second header": one + two[:3],
        "trailing garbage": one + b"and more\n",
        "no bytes": b"",
        "not compressed": _json(10, 2010),
    }


@pytest.mark.parametrize("codec", _ENDINGS)
@pytest.mark.parametrize("damage", _damages("gzip"))
def test_a_damaged_file_is_an_error_and_its_rows_come_once_when_it_is_mended(
    tmp_path: Path, codec: str, damage: str
) -> None:
    """The mended file replaces it, or, as the hint suggests, it is moved away and comes back under another name."""
    name = f"b.json{_ENDINGS[codec]}"
    for way in ("in place", "moved"):
        home = tmp_path / way
        _put(home, "a.json", _json(0, 10))
        path = _put(home, name, _damages(codec)[damage])
        before = _reader(home)
        start = before.initial(at_end=False)
        with pytest.raises(SinkqlError) as error:
            _rows(before, start, before.latest(start, _ALL))
        assert error.value.code == "SQ3102"
        assert f'"{path}" cannot be read as JSON: ' in error.value.message
        again, ids = _reader(home), []
        if way == "moved":
            path.rename(home / name)
            at = again.latest(start, _ALL)
            ids = [row["id"] for row in _rows(again, start, at)]
            start = at
            assert ids == list(range(10))
        _put(home, name if way == "in place" else f"c{name}", _compressed(_json(10, 2020), codec))
        ids += [row["id"] for row in _rows(again, start, again.latest(start, _ALL))]
        assert ids == list(range(2020))


def test_the_rest_of_a_file_that_was_read_in_part_may_be_corrected(tmp_path: Path) -> None:
    """The hint for a row that does not decode suggests it; only the part already read must stay the same."""
    path = _put(tmp_path, "a.json", _json(0, 5) + b'{"id": "x"}\n' + _json(6, 8))
    before = _reader(tmp_path)
    at: Offsets = before.latest(before.initial(at_end=False), Limit(4))
    with pytest.raises(SinkqlError, match=r"a\.json:6: "):
        _rows(before, at, before.latest(at, _ALL))
    _put(tmp_path, path.name, _json(0, 8))
    after = _reader(tmp_path)
    assert [row["id"] for row in _rows(after, at, after.latest(at, _ALL))] == [4, 5, 6, 7]
    _put(tmp_path, path.name, _json(1, 9))
    with pytest.raises(SinkqlError) as error:
        _reader(tmp_path).latest(at, _ALL)
    assert error.value.code == "SQ3301"


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a.jsonl.zst"])
def test_a_line_that_is_too_long_is_an_error_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for module in (content, split_rows):
        monkeypatch.setattr(module, "LONGEST_LINE", 5000)
    monkeypatch.setattr(content, "PART_BYTES", 100)
    monkeypatch.setattr(split_rows, "_BLOCK_BYTES", 100)
    codec = {".gz": "gzip", ".zst": "zstd"}.get(Path(name).suffix)
    fits, long = (_json(0, 30) + b'{"id": 3, "name": "%b"}\n' % (b"x" * size) + _json(30, 60) for size in (4000, 9000))
    _put(tmp_path, f"fits/{name}", fits if codec is None else _compressed(fits, codec))
    found = _reader(tmp_path, folder=Folder(tmp_path / "in" / "fits", "*", False))
    assert [len(batch) for batch in _drain(found, _ALL)[0]] == [61]
    _put(tmp_path, name, long if codec is None else _compressed(long, codec))
    found = _reader(tmp_path)
    start = found.initial(at_end=False)
    with pytest.raises(SinkqlError, match=rf'of source "s" at {name}:31: it is longer') as error:
        _rows(found, start, found.latest(start, _ALL))
    assert error.value.code == "SQ3101"


def test_a_long_line_is_copied_few_times_and_no_more_of_it_is_kept_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counting(io.BytesIO):
        calls = 0

        def read(self, size: int | None = -1) -> bytes:
            self.calls += 1
            return super().read(size)

    stream = Counting(b"x" * (100 << 20) + b"\n")
    assert [len(block) for block in whole_lines(stream)] == [(100 << 20) + 1]
    assert stream.calls < 12
    monkeypatch.setattr(split_rows, "LONGEST_LINE", 4 << 20)
    tracemalloc.start()
    with pytest.raises(content.LongLineError):
        list(whole_lines(stream := Counting(b"x" * (40 << 20))))
    assert tracemalloc.get_traced_memory()[1] < (40 << 20) + 6 * (4 << 20)
    tracemalloc.stop()
