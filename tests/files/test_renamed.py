"""Files that are renamed after they were read → their rows are not read again; copies are read as new files."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from files.test_files_reader import _ALL, _drain, _lines, _put, _reader, _rows
from sinkql.connectors.files.processed_files import ProcessedFilesLog
from sinkql.errors import SinkqlError


def test_a_file_that_is_renamed_is_not_read_again(tmp_path: Path) -> None:
    reader = _reader(tmp_path)
    path = _put(tmp_path, "a.json", _lines(range(3)))
    _, at = _drain(reader, _ALL)
    path.rename(path.with_name("b.json"))
    for each in (reader, _reader(tmp_path)):
        assert each.latest(at, _ALL) == at
        assert each.lag(at) == 0.0
    _put(tmp_path, "c.json", _lines(range(3, 5)))
    after = reader.latest(at, _ALL)
    assert [row["id"] for row in _rows(reader, at, after)] == [3, 4]
    again = _reader(tmp_path)
    assert again.latest(after, _ALL) == after
    path.with_name("b.json").write_text(_lines(range(7, 10)))
    with pytest.raises(SinkqlError, match=r"b\.json.* changed"):
        again.latest(after, _ALL)


@pytest.mark.parametrize("how", ["copied", "moved from elsewhere", "rewritten"])
def test_a_file_of_another_inode_or_content_is_read(tmp_path: Path, how: str) -> None:
    reader = _reader(tmp_path)
    path = _put(tmp_path, "a.json", _lines(range(3)))
    _, at = _drain(reader, _ALL)
    other = path.with_name("b.json")
    if how == "rewritten":
        before = path.stat()
        path.rename(other)
        other.write_text(_lines(range(5, 8)))
        os.utime(other, ns=(before.st_mtime_ns, before.st_mtime_ns))
    else:
        shutil.copy2(path, other)
        if how != "copied":
            path.unlink()
    end = reader.latest(at, _ALL)
    assert len(_rows(reader, at, end)) == 3
    assert reader.latest(end, _ALL) == end


def test_a_second_name_of_a_file_is_read(tmp_path: Path) -> None:
    reader = _reader(tmp_path)
    path = _put(tmp_path, "a.json", _lines(range(3)))
    _, at = _drain(reader, _ALL)
    path.with_name("b.json").hardlink_to(path)
    assert len(_rows(reader, at, reader.latest(at, _ALL))) == 3


def test_renamed_files_that_are_too_many_for_one_look_are_known_at_later_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinkql.connectors.files.discovery._COMPARED_BYTES", 1)
    reader = _reader(tmp_path)
    paths = [_put(tmp_path, f"{name}.json", _lines(range(3))) for name in range(4)]
    _, at = _drain(reader, _ALL)
    for path in paths:
        path.rename(path.with_name(f"new{path.name}"))
    for _ in range(6):
        assert reader.latest(at, _ALL) == at
    _put(tmp_path, "other.json", _lines(range(3, 5)))
    assert len(_rows(reader, at, reader.latest(at, _ALL))) == 2


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 100))])
def test_each_row_comes_once_whatever_is_renamed(tmp_path: Path, seed: int) -> None:
    chance, reader = random.Random(seed), _reader(tmp_path)
    at, found, heads = reader.initial(at_end=False), Counter[int](), []
    names = 0
    for _ in range(40):
        for _ in range(chance.randrange(3)):
            _put(tmp_path, f"{chance.randrange(1 << 20)}-{names}.json", _lines(range(10 * names, 10 * names + 3)))
            names += 1
        if chance.random() < 0.2:
            reader = _reader(tmp_path)
        end = reader.latest(at, _ALL)
        found.update(row["id"] for row in _rows(reader, at, end))
        at = end
        heads.append(at["log"])
        for path in list((tmp_path / "in").iterdir()):
            if chance.random() < 0.2:
                path.rename(path.with_name(f"{chance.randrange(1 << 20)}-again.json"))
    end = reader.latest(at, _ALL)
    found.update(row["id"] for row in _rows(reader, at, end))
    assert found == Counter(10 * name + row for name in range(names) for row in range(3))
    for _ in range(20):
        start = chance.choice([None, *heads])
        before = (
            {file.name for file in ProcessedFilesLog(tmp_path / "state/files").added(None, start)} if start else set()
        )
        added = [file.name for file in ProcessedFilesLog(tmp_path / "state/files").added(start, end["log"])]
        assert len(before) + len(added) == names
        assert before.isdisjoint(added)
