"""Files that are rewritten, replaced or touched → rows of one state of each file, or an error that names it."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from files.test_files_reader import _ALL, _CSV, _drain, _put, _reader, _rows
from sinkql.connector_api.stream import Limit, Offsets, ReadCounts
from sinkql.connectors.files.local_listing import Folder
from sinkql.connectors.files.reader import FilesReader
from sinkql.errors import SinkqlError

_WIDE = 700
"""With rows of this width, the middle of a file is not in the head and tail that identify it."""


def _text(version: int, rows: int = 30) -> str:
    """Return JSON lines of a version; their size, the first row and the last row are the same in all versions."""
    numbers = [0 if row in (0, rows - 1) else version for row in range(rows)]
    return "".join(json.dumps({"id": number, "name": "x" * _WIDE}) + "\n" for number in numbers)


def _rewrite(path: Path, text: str | bytes, how: str) -> None:
    before = path.stat()
    data = text.encode() if isinstance(text, str) else text
    if how == "replaced":
        other = path.with_name(".other")
        other.write_bytes(data)
        other.rename(path)
    else:
        with path.open("r+b") as file:
            file.write(data)
            file.truncate()
    if how != "in place":
        os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))


_HOW = ("in place", "in place with its time set back", "replaced")


@pytest.mark.parametrize("how", _HOW)
@pytest.mark.parametrize("name", ["a.json", "a.csv", "a.json.gz"])
def test_a_file_rewritten_between_listing_and_reading_gives_no_row(tmp_path: Path, name: str, how: str) -> None:
    texts: list[str | bytes] = [_text(1), _text(2)]
    if name == "a.csv":
        texts = [f"id,name\n0,a\n{n},b\n0,c\n" for n in (1, 2)]
    if name == "a.json.gz":
        texts = [gzip.compress(_text(version).encode(), mtime=0) for version in (1, 2)]
    path = _put(tmp_path, name, texts[0])
    reader = _reader(tmp_path, format=_CSV) if name == "a.csv" else _reader(tmp_path)
    start = reader.initial(at_end=False)
    end = reader.latest(start, _ALL)
    _rewrite(path, texts[1], how)
    (split,) = reader.splits(start, end)
    rows = reader.read(split, ReadCounts())
    with pytest.raises(SinkqlError, match=r"a\.\w+.* changed after it was listed") as error:
        next(rows)
    assert error.value.code == "SQ3301"


@pytest.mark.parametrize("how", _HOW)
def test_a_file_rewritten_after_it_was_read_is_found_at_the_next_look(tmp_path: Path, how: str) -> None:
    path = _put(tmp_path, "a.json", _text(1))
    reader = _reader(tmp_path)
    at = reader.latest(reader.initial(at_end=False), _ALL)
    assert at == reader.latest(at, _ALL)
    _rewrite(path, _text(2), how)
    for again in (reader, _reader(tmp_path)):
        with pytest.raises(SinkqlError) as error:
            again.latest(at, _ALL)
        assert error.value.code == "SQ3301"
        assert error.value.detail is not None
        assert ("replaced" if how == "replaced" else "rewritten in place") in error.value.detail


@pytest.mark.parametrize("how", _HOW)
def test_a_file_rewritten_between_two_batches_of_it_is_an_error(tmp_path: Path, how: str) -> None:
    path = _put(tmp_path, "a.json", _text(1))
    reader = _reader(tmp_path)
    start = reader.initial(at_end=False)
    at = reader.latest(start, Limit(10))
    assert len(_rows(reader, start, at)) == 10
    _rewrite(path, _text(2), how)
    with pytest.raises(SinkqlError) as error:
        reader.latest(at, Limit(10))
    assert error.value.code == "SQ3301"
    with pytest.raises(SinkqlError) as replay:
        _rows(reader, start, at)
    assert replay.value.code == "SQ3301"


def test_a_file_rewritten_in_place_is_found_among_many_within_twenty_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinkql.connectors.files.discovery._AT_LEAST", 1)
    paths = [_put(tmp_path, f"{number:03}.json", '{"id": 1}\n') for number in range(100)]
    reader = _reader(tmp_path)
    at = reader.latest(reader.initial(at_end=False), _ALL)
    assert at == reader.latest(at, _ALL)
    paths[70].write_text('{"id": 2}\n')

    def look_twenty_times() -> None:
        for _ in range(20):
            reader.latest(at, _ALL)

    with pytest.raises(SinkqlError, match=r"070\.json"):
        look_twenty_times()


def test_a_file_with_another_stamp_and_the_same_content_is_compared_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _put(tmp_path, "a.json", _text(1))
    reader = _reader(tmp_path)
    at = reader.latest(reader.initial(at_end=False), _ALL)
    _rewrite(path, _text(1), "replaced")
    _put(tmp_path, "b.json", _text(2))
    after = reader.latest(at, _ALL)
    assert [row["id"] for row in _rows(reader, at, after)] == [0, *[2] * 28, 0]
    compared: list[Path] = []
    monkeypatch.setattr(Folder, "open", lambda _, file: compared.append(file))
    assert after == _reader(tmp_path).latest(after, _ALL)
    assert compared == []


def test_a_file_written_to_while_it_is_listed_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _put(tmp_path, "a.json", _text(1))
    reader = _reader(tmp_path)
    start = reader.initial(at_end=False)

    def digest(data: bytes) -> str:
        path.touch()
        return "0"

    with monkeypatch.context() as patched:
        patched.setattr("sinkql.connectors.files.content.digest", digest)
        assert start == reader.latest(start, _ALL)
        with pytest.raises(SinkqlError) as error:
            reader.target(start)
    assert error.value.code == "SQ3301"
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert len(_rows(reader, start, reader.latest(start, _ALL))) == 30


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(40))
def test_rows_are_those_of_one_state_of_each_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Files are added and changed at random between reads; batches are replayed, also by new readers."""
    chance = random.Random(seed)
    monkeypatch.setattr("sinkql.connectors.files.content.PART_BYTES", chance.choice([50, 3000, 1 << 20]))
    monkeypatch.setattr("sinkql.connectors.files.file_format._SPLIT_BYTES", chance.choice([100, 10_000]))
    reader, names = _reader(tmp_path), iter(range(1000))
    at: Offsets = reader.initial(at_end=False)
    stopped: SinkqlError | None = None
    read: dict[str, list[int]] = {}
    versions: dict[Path, set[int]] = {}
    for _ in range(25):
        _disturb(tmp_path, chance, names, versions)
        try:
            end = reader.latest(at, Limit(chance.choice([7, 45, 1 << 30])))
            if chance.random() < 0.3:
                _disturb(tmp_path, chance, names, versions)
            found = list(_by_file(reader, at, end))
            if chance.random() < 0.3:
                reader = _reader(tmp_path)
                assert found == list(_by_file(reader, json.loads(json.dumps(at)), json.loads(json.dumps(end))))
        except SinkqlError as error:
            stopped = error
            break
        for name, ids in found:
            read.setdefault(name, []).extend(ids)
        at = end
    if stopped is not None:
        named = [path for path in versions if str(path) in stopped.message]
        assert (stopped.code, len(versions[named[0]]) > 1) == ("SQ3301", True)
    for name, ids in read.items():
        inner = set(ids[1:29])
        assert len(inner) <= 1
        assert inner <= versions[tmp_path / "in" / name]


def _disturb(tmp_path: Path, chance: random.Random, names: Iterator[int], versions: dict[Path, set[int]]) -> None:
    if not versions or chance.random() < 0.5:
        path = _put(tmp_path, f"{next(names):03}.json", _text(1))
        versions[path] = {1}
        return
    path = chance.choice(list(versions))
    if chance.random() < 0.7:
        os.utime(path, (1_700_000_000 + chance.randrange(100),) * 2)
        return
    version = chance.randrange(2, 9)
    _rewrite(path, _text(version), chance.choice(_HOW))
    versions[path].add(version)


def _by_file(reader: FilesReader, start: Offsets, end: Offsets) -> Iterator[tuple[str, list[int]]]:
    for split in reader.splits(start, end):
        rows = [row["id"] for batch in reader.read(split, ReadCounts()) for row in batch.to_pylist()]
        yield split["file"][0], rows


def test_a_folder_that_links_to_itself_is_listed_once(tmp_path: Path) -> None:
    _put(tmp_path, "sub/a.json", '{"id": 1}\n')
    (tmp_path / "in" / "sub" / "up").symlink_to(tmp_path / "in")
    batches, _ = _drain(_reader(tmp_path, folder=Folder(tmp_path / "in", "*", True)), _ALL)
    assert [[row["id"] for row in batch] for batch in batches] == [[1]]
