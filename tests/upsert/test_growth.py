"""The state of an upsert sink is proportional to its live rows, and each commit writes only its changes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from msgspec import structs
from pyiceberg.types import LongType, StringType

from sinkql.connectors.iceberg.file.deletes import live_files
from sinkql.connectors.iceberg.key_index import compaction
from sinkql.connectors.iceberg.key_index.compaction import compact_runs
from sinkql.connectors.iceberg.key_index.index import Index, IndexChange, Run, sweep
from sinkql.connectors.iceberg.key_index.layer import DeleteRecord, FileRecord, Layer, delete_of, file_of, merged
from sinkql.connectors.iceberg.key_index.run import TOMBSTONE, Entries, write_run
from sinkql.state_store.directory import StateDirectory
from sinkql.storage.sorted_run import MergePolicy
from support.index import live_entries
from upsert.keyed_sink import NAME, Sink, batch_of, create_table, duckdb_rows

TYPES = {"id": pa.int64(), "note": pa.string(), "$seq": pa.int64()}
DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda data: None,
    "torn": lambda data: data[:-1],
    "changed": lambda data: data.replace(b'"epoch":1', b'"epoch":2'),
    "another": lambda data: b"0" * 32 + data[32:],
}


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    table = create_table(tmp_path, {"id": LongType(), "note": StringType()})
    return Sink(table, ("id",), tmp_path / "index")


def _rows(ids: Iterable[int], note: str) -> pa.Table:
    given = list(ids)
    return batch_of({"id": given, "note": [note] * len(given), "$seq": list(range(len(given)))}, TYPES)


def _files(sink: Sink) -> tuple[int, int]:
    live = live_files(sink.table)
    return len(live.data), len(live.deletes)


def test_files_leave_with_their_last_row(sink: Sink) -> None:
    for note in "abcdef":
        sink.apply(_rows(range(40), note))
        assert _files(sink) == (2, 0)
    assert set(duckdb_rows(sink.table)) == {(id_, "f") for id_ in range(40)}


def test_delete_file_leaves_with_the_last_file_that_it_names(sink: Sink) -> None:
    sink.buckets = 1
    sink.apply(_rows(range(10), "a"))
    sink.apply(_rows(range(10, 20), "b"))
    sink.apply(_rows([1, 11], "c"))
    assert _files(sink) == (3, 1)
    sink.apply(_rows(set(range(10)) - {1}, "d"))
    assert _files(sink) == (3, 1)
    sink.apply(_rows(set(range(10, 20)) - {11}, "e"))
    assert _files(sink) == (3, 0)
    assert len(duckdb_rows(sink.table)) == 20


def test_file_that_several_tasks_empty_leaves_and_their_delete_files_next(sink: Sink) -> None:
    sink.buckets = 1
    sink.apply(_rows(range(40), "a"))
    sink.buckets = 2
    sink.apply(_rows(range(40), "b"))
    assert _files(sink) == (2, 2)
    assert sum(path.endswith("deletes.parquet") for path in sink.index.idle) == 2
    assert sink.restart() == sink.index
    sink.apply(_rows([1], "c"))
    assert _files(sink) == (3, 1)
    assert not any(sink.index.idle)
    assert set(duckdb_rows(sink.table)) == {(id_, "b" if id_ != 1 else "c") for id_ in range(40)}


def test_rebuilt_index_knows_what_holds_nothing(sink: Sink) -> None:
    sink.buckets = 1
    sink.apply(_rows(range(40), "a"))
    sink.buckets = 2
    sink.apply(_rows(range(40), "b"))
    sink.apply(_rows(range(3), "c"))
    before = sink.index
    sink.recover_index()
    assert (before.paths(), set(before.idle)) == (sink.index.paths(), set(sink.index.idle))
    assert sorted(note.targets for note in before.deletes.values()) == sorted(
        note.targets for note in sink.index.deletes.values()
    )
    sink.apply(_rows(range(40), "d"))
    assert _files(sink) == (2, 0)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_link_makes_the_index_invalid(sink: Sink, damage: str) -> None:
    sink.apply(_rows(range(10), "a"))
    sink.apply(_rows(range(10, 20), "b"))
    path = sink.folder / sink.index.older[-1].name
    data = DAMAGES[damage](path.read_bytes())
    path.unlink()
    if data is not None:
        path.write_bytes(data)
    assert sink.restart() is None


class _Files:
    """An index of files that do not exist."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.commits = folder, 0
        self.index = Index(NAME, 1, "start", ())
        self.written: list[int] = []
        self._save()

    def commit(self, dead: dict[int, int], targets: tuple[int, ...]) -> None:
        self.commits += 1
        id_ = self.index.next_file_id
        run = f"b0-{NAME}-1-{self.commits}-a.run"
        write_run(self.folder / run, 0, [Entries.none()])
        older = tuple(each.name for each in self.index.runs)
        file = FileRecord(f"data-{id_:060}", 10)
        deletes = {f"delete-{id_:060}": targets} if targets else {}
        change = IndexChange(self.index.name, {id_: file}, deletes, dead, Run(run, 0), older)
        self.index = self.index.after([change], epoch=1, commit=f"{self.commits:032}")
        self._save()

    def _save(self) -> None:
        self.written.append((self.folder / self.index.save(self.folder)).stat().st_size)


def test_manifest_says_what_its_commit_changed(tmp_path: Path) -> None:
    files = _Files(tmp_path)
    for _ in range(1500):
        files.commit({}, ())
    whole = len(files.index.files) * len(files.index.files[0].path)
    assert len(files.index.files) == 1500
    assert sum(files.written) < 30 * whole  # 750 times if each manifest named all files
    assert len(files.index.layers) < 24
    assert Index.load(tmp_path, files.index.name, ()) == files.index


def test_folder_holds_what_is_alive(tmp_path: Path) -> None:
    files = _Files(tmp_path)
    sizes = []
    for number in range(150):
        gone = number - 10
        dead = {gone: 7} if gone >= 0 else {}
        half = {number - 3: 3} if number >= 3 else {}
        files.commit({**dead, **half}, tuple(half))
        if number % 20 == 19:
            sweep(StateDirectory(tmp_path), sink=NAME, epoch=1, manifests=[files.index.name], indexes=[files.index])
            sizes.append(sum(path.stat().st_size for path in tmp_path.iterdir()))
    assert len(files.index.files) == 10
    assert len(files.index.deletes) == 7
    assert max(sizes[-5:]) < 2 * max(sizes[:5])
    assert Index.load(tmp_path, files.index.name, ()) == files.index


def test_layers_merged_anyhow_say_the_same() -> None:
    chance = random.Random(7)
    for _ in range(50):
        alive: list[int] = []
        layers: list[Layer] = []
        for number in range(30):
            known = merged(layers, whole=True)
            files: dict[int, FileRecord | None] = {number: FileRecord(f"file {number}", 99)}
            deletes: dict[int, DeleteRecord | None] = {number: DeleteRecord(f"delete {number}", 50)}
            for each in chance.sample(alive, min(len(alive), 4)):
                if chance.random() < 0.3:
                    files[each] = deletes[each] = None
                    alive.remove(each)
                elif chance.random() < 0.3:
                    files[each] = FileRecord(f"file {each}", 99, 7, (number,), again=True)
                else:
                    files[each], deletes[each] = FileRecord("", 0, 1, (number,)), DeleteRecord("", -1)
            alive.append(number)
            layers.insert(0, Layer(files, deletes))
            if chance.random() < 0.4:
                count = chance.randrange(1, len(layers) + 1)
                layers[:count] = [merged(layers[:count], whole=count == len(layers))]
            now = merged(layers, whole=True)
            assert sorted(now.files) == sorted(now.deletes) == alive
            assert {each: structs.replace(note, again=False) for each, note in now.files.items() if note} == {
                each: structs.replace(note, again=False) for each in alive if (note := file_of(layers, each))
            }
            assert now.deletes == {each: delete_of(layers, each) for each in alive}
            for each in known.files.keys() & files.keys():
                before, note, after = known.files[each], files[each], now.files.get(each)
                assert before is not None
                if after is not None and note is not None and note.again:
                    assert (after.path, after.dead, after.deletes) == (note.path, note.dead, note.deletes)
                    continue
                whole = before + note if note is not None else None
                assert (after and structs.replace(after, again=False)) == (
                    whole and structs.replace(whole, again=False)
                )


def test_runs_that_each_look_up_asks_stay_few_without_writing_all_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_TIERS", MergePolicy(fan=2, small=64))
    rng = random.Random(1)
    index = Index(NAME, 1, "c", ())
    entries: dict[int, tuple[int, int]] = {}
    written = 0
    for step in range(150):
        keys = sorted(rng.sample(range(1_500), 40)) if step else list(range(1_500))
        gone = {key for key in keys if step and rng.random() < 0.1}
        entries.update({key: (int(TOMBSTONE) if key in gone else step, key) for key in keys})
        files, places = zip(*(entries[key] for key in keys), strict=True)
        home = (step % 3, 3, "old" if step < 80 else "new") if step % 5 and step else ()
        run = Run(f"{step}.run", len(keys), *home)
        ids = np.array(keys, np.uint64)
        write_run(
            tmp_path / run.name, len(keys), [Entries(ids, ids, np.array(files, np.uint32), np.array(places, np.uint32))]
        )
        live = sum(file != TOMBSTONE for file, _ in entries.values())
        index = replace(index, runs=(run, *index.runs), layers=(Layer({0: FileRecord("f", live)}),))
        before = set(index.runs)
        index = compact_runs(index, tmp_path, f"fold-{step}")
        written += sum(each.rows for each in index.runs if each not in before)
        mixed = [each for each in index.runs if each.mixed or each.bucketing != ("old" if step < 80 else "new")]
        assert len(mixed) < 30
    found = live_entries(index, tmp_path)
    expected = {key: place for key, place in entries.items() if place[0] != TOMBSTONE}
    assert expected == dict(
        zip(found.h1.tolist(), zip(found.file.tolist(), found.pos.tolist(), strict=True), strict=True)
    )
    assert written < 150 * 40 * 8
