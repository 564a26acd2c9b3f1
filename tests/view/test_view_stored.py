"""The log of a view in STATE stays correct if the store is slow or fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from sinkql.connector_api.stream import Checkpoint
from sinkql.connectors.view.log import Entry, Run, ViewLog, run_file
from sinkql.connectors.view.reader_positions import ReaderPositions
from sinkql.connectors.view.writer import ViewWriter
from sinkql.errors import SinkqlError
from sinkql.state_store.directory import StateDirectory
from sinkql.state_store.numbered_log import StoredNumbered
from sinkql.state_store.store import FolderStateStore


@dataclass(frozen=True, slots=True)
class Slow(FolderStateStore):
    """A store that delays the listing of the thread `slow` until `told` is set."""

    asked: threading.Event = field(default_factory=threading.Event)
    told: threading.Event = field(default_factory=threading.Event)

    def list(self, under: str) -> Iterator[tuple[str, float]]:
        found = list(FolderStateStore.list(self, under))
        if threading.current_thread().name == "slow":
            self.asked.set()
            assert self.told.wait(60)
        yield from found


@dataclass(frozen=True, slots=True)
class Failing(FolderStateStore):
    """A store that refuses uploads while `down` is not empty."""

    down: set[str] = field(default_factory=set)

    def put(self, name: str, path: Path) -> None:
        if self.down:
            raise SinkqlError("SQ3307", "no answer")
        FolderStateStore.put(self, name, path)


def _checkpoint(number: int) -> Checkpoint:
    return Checkpoint("v", 1, "claim", f"commit{number}", {}, {}, "plan", None, None)


def _commit(log: ViewLog, number: int, kept: tuple[Run, ...]) -> Entry:
    """Publish an entry with one run more."""
    run = Run(0, f"1-{number:032x}.arrow", 1, 1)
    log.run_path(run).parent.mkdir(parents=True, exist_ok=True)
    log.run_path(run).write_bytes(b"x")
    log.directory.ensure_uploaded([run_file(run)])
    entry = Entry(_checkpoint(number), f"commit{number}", number, number, (run,), {"0": (*kept, run)})
    assert log.publish(number, entry)
    return entry


def _home(folder: Path, store: FolderStateStore) -> StateDirectory:
    return StateDirectory(folder / "views" / "v" / "stored", store)


@pytest.mark.parametrize("looks", [False, True])
def test_an_answer_that_comes_late_takes_nothing_away(tmp_path: Path, looks: bool) -> None:
    store = Slow(tmp_path / "store")
    log = ViewLog.of(_home(tmp_path, store))
    first = _commit(log, 1, ())
    log.refresh()
    reader = threading.Thread(target=ViewLog.of(log.directory).numbers, name="slow")
    reader.start()
    assert store.asked.wait(60)
    second = _commit(log, 2, tuple(first.content_runs))
    if looks:  # another listing overtakes it
        log.refresh()
        assert log.numbers() == [1, 2]
    store.told.set()
    reader.join(60)
    assert log.numbers() == [1, 2]
    assert (log.folder / "log" / "000000000002.json").exists()
    ViewWriter("v", log, pa.schema([]), (), ())._sweep(2, second)
    for run in second.content_runs:
        assert log.run_path(run).exists()
        assert (store.folder / run_file(run)).exists()


def test_what_is_live_stays_though_the_log_does_not_list_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FolderStateStore(tmp_path / "store")
    log = ViewLog.of(_home(tmp_path, store))
    entry = _commit(log, 1, ())
    monkeypatch.setattr(StoredNumbered, "numbers", lambda self: [])
    ViewWriter("v", log, pa.schema([]), (), ())._sweep(1, entry)
    for run in entry.content_runs:
        assert log.run_path(run).exists()
        assert (store.folder / run_file(run)).exists()


def test_a_reader_is_known_here_once_the_store_knows_it(tmp_path: Path) -> None:
    """Otherwise a position that the store has refused would pass for an older stored one."""
    store = Failing(tmp_path / "store", {"now"})
    pins = ReaderPositions(_home(tmp_path, store))
    for _ in range(2):
        with pytest.raises(SinkqlError):
            pins.put("s", 5)
    assert (pins.of("s"), pins.positions()) == (None, [])
    store.down.clear()
    assert pins.put("s", 5)
    store.down.add("now")
    assert not ReaderPositions(pins.directory).put("s", 7)  # like a later process
    assert (pins.of("s"), pins.positions()) == (7, [5])


def test_a_readers_file_that_another_host_deleted_is_there_again(tmp_path: Path) -> None:
    store = FolderStateStore(tmp_path / "store")
    here, there = (
        ViewWriter("v", ViewLog.of(StateDirectory(tmp_path / name, store)), pa.schema([]), (), ())
        for name in ("here", "there")
    )
    here.files.store_file("files-1.json", b"a list")
    assert there.files.load_file("files-1.json") == b"a list"
    there.files.delete_file("files-1.json")
    assert not (store.folder / "attached/files-1.json").exists()
    again = ViewWriter("v", ViewLog.of(StateDirectory(here.directory.folder, store)), pa.schema([]), (), ())
    for writer in (again, there):
        writer.files.store_file("files-1.json", b"a list")
        assert (store.folder / "attached/files-1.json").read_bytes() == b"a list"
        writer.files.delete_file("files-1.json")


@pytest.mark.parametrize("damaged", ["here", "there"])
def test_contents_that_are_doubted_are_never_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: str
) -> None:
    store = FolderStateStore(tmp_path / "store")
    log = ViewLog.of(StateDirectory(tmp_path / "here", store, remote=True))
    entry = _commit(log, 1, ())
    (run,) = entry.content_runs
    deleted: list[str] = []
    monkeypatch.setattr(FolderStateStore, "delete", lambda self, names: deleted.extend(names))
    writer = ViewWriter("v", log, pa.schema([]), (), ())
    writer.load_checkpoint()
    if damaged == "here":
        log.run_path(run).write_bytes(b"")
        (store.folder / run_file(run)).write_bytes(b"y")
    else:
        (store.folder / run_file(run)).write_bytes(b"")
    writer.invalidate_index()
    assert deleted == []
    assert (store.folder / run_file(run)).read_bytes() == (b"y" if damaged == "here" else b"x")


def test_an_entry_that_the_store_lists_and_does_not_return_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStateStore(tmp_path / "store")
    _commit(ViewLog.of(_home(tmp_path / "here", store)), 1, ())
    log = ViewLog.of(_home(tmp_path / "other", store))
    monkeypatch.setattr(FolderStateStore, "get", lambda self, name, file: None)
    with pytest.raises(SinkqlError, match="is damaged") as error:
        log.newest()
    assert error.value.code == "SQ3452"
