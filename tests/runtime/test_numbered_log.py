"""Numbered files of a log: their names, the first number in a store, and the entries that are decoded."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkql.state_store.store import FolderStateStore
from sinkql.storage.numbered_log import EntryLog, FileNames, FolderNumberedLog, NumberedFiles, StoredFirst


@pytest.mark.parametrize("names", [FileNames(12), FileNames(20), FileNames(10, ".journal")])
def test_numbers_are_read_from_their_names_alone(names: FileNames) -> None:
    name = names.name(7)
    others = [f".{name}.a1", f"{name}.tmp", f"0{name}", name[1:], name.partition(".")[0], f"first/{name}", "first", ""]
    assert names.numbers([names.name(10), *others, name]) == [7, 10]
    assert [names.number(other) for other in others] == [None] * len(others)


def test_file_of_a_number_is_created_once(tmp_path: Path) -> None:
    numbered = NumberedFiles(tmp_path / "log", FileNames(10, ".journal"))
    assert (numbered.numbers(), numbered.read(1)) == ([], None)
    assert [numbered.create(1, data) for data in (b"one", b"another")] == [True, False]
    assert (numbered.read(1), numbered.path(1).name) == (b"one", "0000000001.journal")
    numbered.remove(1, 2)
    assert numbered.numbers() == []


def test_first_number_in_a_store_only_grows(tmp_path: Path) -> None:
    store, empty, names = FolderStateStore(tmp_path / "store"), tmp_path / "empty", FileNames(12)
    empty.write_bytes(b"")
    first = StoredFirst(store, "a/log/", lambda name: store.put(name, empty))
    assert (first.now(), first.entries(names)) == (0, ([], 0))
    for number in (3, 4):
        store.put(f"a/log/{names.name(number)}", empty)
    for number in (4, 2):
        first.put(number)
    assert (first.now(), first.entries(names)) == (4, ([3, 4], 4))
    assert [name for name, _ in store.list("a/log/first/")] == ["a/log/first/00000000000000000004"]


def test_entries_in_memory_are_bounded_and_vanish_when_deleted(tmp_path: Path) -> None:
    decoded: list[int] = []

    def decode(number: int, data: bytes) -> str:
        decoded.append(number)
        return data.decode()

    numbered = FolderNumberedLog(tmp_path)
    log = EntryLog(numbered, str.encode, decode, 2, "entry")
    assert log.newest() is None
    for number in range(1, 6):
        assert log.add(number, f"entry {number}")
    assert not log.add(5, "another")
    assert (log.newest(), decoded) == ((5, "entry 5"), [])
    assert [log.entry(number) for number in (2, 3, 6)] == ["entry 2", "entry 3", None]
    assert decoded == [2]
    FolderNumberedLog(tmp_path).begin_at(5)  # like another process
    assert (log.entry(4), list(log.newest_first())) == (None, [(5, "entry 5")])
    log.begin_at(6)
    assert (log.entry(5), log.newest(), log.add(5, "again")) == (None, None, False)
