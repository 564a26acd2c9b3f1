"""In a table of very many files, a commit reads and writes as few manifests and runs as possible."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, SupportsIndex

import fastavro
import pytest
from pyiceberg.manifest import ManifestFile

from iceberg.test_flat import counted
from sinkql.connectors.iceberg.commit import manifest_cache as manifests
from sinkql.connectors.iceberg.commit.snapshot import FileChange, Notes, prepare
from sinkql.connectors.iceberg.file.data_file import FileEntry
from sinkql.connectors.iceberg.file.manifest import entries_of, manifests_of
from sinkql.connectors.iceberg.key_index.index import Index, IndexChange, Run
from support.lake import Lake, Sink

FILES = 2500


def commit(lake: Lake, name: str, change: FileChange) -> list[ManifestFile]:
    """Commit a change and return the data manifests."""
    table = lake.table(name)
    prepared = prepare(table, change, lambda _, __: Notes({}, {}))
    table.catalog.commit_table(table, prepared.requirements, prepared.updates)
    after = lake.table(name)
    return manifests_of(after, after.current_snapshot())


def entries(lake: Lake, name: str) -> list[FileEntry]:
    location = lake.table(name).location()
    return [FileEntry("data", f"{location}/data/{number}.parquet", 1, 100) for number in range(FILES)]


@pytest.mark.parametrize("remembered", [True, False])
def test_one_file_less_of_very_many_is_one_new_manifest(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch, *, remembered: bool
) -> None:
    Sink(lake, name).start()
    files = entries(lake, name)
    before = commit(lake, name, FileChange(tuple(files)))
    assert sorted(each.added_files_count or 0 for each in before) == [500, 1000, 1000]
    if not remembered:
        manifests._contents.cache_clear()  # like a newly started process
    reads = counted(monkeypatch, manifests, "said_of")
    after = commit(lake, name, FileChange(remove=frozenset({files[1234].path})))
    assert reads() == (1 if remembered else 3)
    kept = {each.manifest_path for each in before} & {each.manifest_path for each in after}
    assert (len(kept), len(after)) == (2, 3)
    files_io = lake.table(name).io
    left = [entry.data_file.file_path for each in after for entry in entries_of(files_io, each)]
    assert sorted(left) == sorted(file.path for file in files if file is not files[1234])


def test_entries_of_a_manifest_are_compressed_many_together(lake: Lake, name: str) -> None:
    Sink(lake, name).start()
    (*_, last) = commit(lake, name, FileChange(tuple(entries(lake, name))))
    with lake.table(name).io.new_input(last.manifest_path).open() as stream:
        blocks = [block.num_records for block in fastavro.block_reader(io.BytesIO(stream.read()))]
    assert sum(blocks) == (last.added_files_count or 0)
    assert max(blocks) == blocks[0] == 64


class Counted(tuple[Run, ...]):
    """Runs that count how often they are iterated over; indexing them fails."""

    times = 0

    def __iter__(self) -> Iterator[Run]:
        self.times += 1
        return super().__iter__()

    def __getitem__(self, place: SupportsIndex | slice) -> Any:
        raise AssertionError("the runs were indexed")


def test_changes_of_many_buckets_go_through_the_runs_of_an_index_once() -> None:
    older = Counted(Run(f"old-{bucket}", 5, bucket, 100) for bucket in range(100))
    index = Index("s", 1, "c0", (), runs=older)
    changes = [
        IndexChange(index.name, run=Run(f"new-{bucket}", 1, bucket, 100), merged=(f"old-{bucket}",) * (bucket % 2))
        for bucket in range(100)
    ]
    after = index.after(changes, epoch=1, commit="c1")
    assert older.times == 1
    assert {run.name for run in after.runs[:100]} == {f"new-{bucket}" for bucket in range(100)}
    assert [run.name for run in after.runs[100:]] == [f"old-{bucket}" for bucket in range(0, 100, 2)]
