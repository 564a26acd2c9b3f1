"""The choice of files to compact in an upsert table."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from sinkql.connectors.iceberg.compact.selection import choose
from sinkql.connectors.iceberg.file.data_file import rewritten_name
from sinkql.connectors.iceberg.key_index.index import Index
from sinkql.connectors.iceberg.key_index.layer import DeleteRecord, FileRecord, IndexLocation, Layer

LARGE = 1 << 20
HOME = IndexLocation(0, 1, "hash")


class Files:
    """The files of one hash bucket of a table with one column."""

    def __init__(self, folder: Path) -> None:
        catalog = load_catalog("files", type="sql", uri=f"sqlite:///{folder}/lake.db", warehouse=f"file://{folder}")
        catalog.create_namespace("n")
        self.table = catalog.create_table("n.t", Schema(NestedField(1, "k", LongType(), required=True)))
        self.files: dict[int, FileRecord | None] = {}
        self.deletes: dict[int, DeleteRecord | None] = {}

    def file(self, rows: int, dead: int = 0, deletes: tuple[int, ...] = ()) -> int:
        number = len(self.files)
        path = rewritten_name("s", 1, f"{number}", 0)
        self.files[number] = FileRecord(path, rows, dead, deletes, size=8 * rows, home=HOME)
        return number

    def delete(self, rows: int, targets: int = 1) -> int:
        number = len(self.deletes)
        self.deletes[number] = DeleteRecord(f"{number}-deletes", targets, rows)
        return number

    def chosen(self) -> list[list[int]] | None:
        index = Index("s", 1, "c", (), layers=(Layer(self.files, self.deletes),))
        parts = choose(index, self.table)
        return None if parts is None else [sorted(part.files) for part in parts]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_file_with_the_largest_part_of_dead_rows_goes_first_and_alone(files: Files) -> None:
    everything = files.delete(LARGE // 100 * 9, 3)
    for percent in (1, 5, 3):
        files.file(LARGE, LARGE * percent // 100, (everything,))
    assert files.chosen() == [[1]]


def test_few_dead_rows_stay(files: Files) -> None:
    everything = files.delete(LARGE // 1000, 2)
    files.file(LARGE, LARGE // 1000, (everything,))
    files.file(LARGE, 0, (everything,))
    assert files.chosen() is None


def test_a_narrow_table_has_some_dead_rows_though_they_cost_more_than_live_ones(files: Files) -> None:
    everything = files.delete(LARGE * 3 // 100, 4)
    for _ in range(4):
        files.file(LARGE, LARGE * 15 // 1000, (everything,))
    assert files.chosen() is None


def test_file_that_is_mostly_dead_is_written_again_though_it_is_small_beside_the_others(files: Files) -> None:
    for _ in range(64):
        files.file(LARGE)
    worn = files.file(10_000, 6_000, (files.delete(6_000),))
    assert files.chosen() == [[worn]]


def test_delete_files_become_one_before_they_cost_a_reader_much(files: Files) -> None:
    files.file(LARGE, 600, tuple(files.delete(100) for _ in range(6)))
    assert files.chosen() is None
    files.file(LARGE, 600, tuple(files.delete(100) for _ in range(6)))
    assert files.chosen() == []


def test_files_of_a_large_table_may_be_more(files: Files) -> None:
    for _ in range(64):
        files.file(LARGE)
    for _ in range(12):
        files.file(100, 1, (files.delete(1),))
    assert files.chosen() is None
    for _ in range(4):
        files.file(100)
    assert files.chosen() == [list(range(64, 80))]
