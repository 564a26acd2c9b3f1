"""A sink that scans its log continues at its position and scans no entry of other tables twice."""

from __future__ import annotations

import pickle
import time
from pathlib import Path

import pyarrow as pa
import pytest

from sinkql import physical
from sinkql.capture import data_file
from sinkql.capture.control import CaptureIntervals, SubscribedSink
from sinkql.capture.log import DataFile, LogDirectory, LogWriter, TableEntry
from sinkql.capture.position import LogPosition
from sinkql.capture.reader import LogReader
from sinkql.connector_api.cdc import CapturedTable, LogRetention, TableRows
from sinkql.connector_api.stream import Limit, ReadCounts, Size
from sinkql.logical.type import BIGINT, INTEGER, TEXT

_COLUMNS = (physical.Column("id", BIGINT, nullable=False),)
_LIMIT = Limit(1000)


def _changes(log: LogWriter, position: str, *tables: str, rows: int = 1, size: int = 100) -> None:
    parts = {each: TableEntry(files=(DataFile(f"{position}-{each}", rows, size, "0" * 64),)) for each in tables}
    log.add("changes", to=position, at=time.time(), tables=parts)


def test_entries_of_other_tables_are_scanned_once(tmp_path: Path) -> None:
    folder = LogDirectory.local(tmp_path)
    log = LogWriter.open(folder, 1, new_id="l")
    log.add("open", to="0", at=time.time())
    reader = LogReader("s", "k", folder, CapturedTable("mine", ("mine",), _COLUMNS, ("id",)), LogRetention())
    start = LogPosition("l", 0, "0", done=True).offsets()
    for number in range(1, 5):
        _changes(log, str(number), "other")
        assert reader.latest(start, _LIMIT) == start
    folder.store.delete_entry(2)
    _changes(log, "5", "other", "mine")
    _changes(log, "6", "other")
    end = reader.latest(start, _LIMIT)
    assert (end["entry"], end["to"]) == (6, "6")
    in_task = pickle.loads(pickle.dumps(reader))
    assert in_task.latest(start, _LIMIT) == start, "a fresh reader cannot see past the gap"


def test_the_size_of_a_batch_is_in_its_entries(tmp_path: Path) -> None:
    folder = LogDirectory.local(tmp_path)
    log = LogWriter.open(folder, 1, new_id="l")
    log.add("open", to="0", at=time.time())
    _changes(log, "1", "mine")
    _changes(log, "2", "mine", rows=9000, size=1000)
    _changes(log, "3", "other", rows=7, size=7)
    _changes(log, "4", "mine", rows=20_000, size=4 << 20)
    reader = LogReader("s", "k", folder, CapturedTable("mine", ("mine",), _COLUMNS, ("id",)), LogRetention())
    start, end = (LogPosition("l", at, str(at), done=True).offsets() for at in (1, 4))
    assert Size(29_000, 1000 + (4 << 20)) == reader.size(reader.splits(start, end))


@pytest.mark.parametrize(
    ("every", "seconds"), [((10.0, 60.0), 1.0), ((10.0, 1.0), 0.2), ((0.2,), 0.05), ((0.0,), 0.05), ((), 1.0)]
)
def test_entries_end_sooner_for_sinks_that_commit_often(every: tuple[float, ...], seconds: float) -> None:
    read = CapturedTable("mine", ("mine",), _COLUMNS, ("id",))
    assert CaptureIntervals().entry_after([SubscribedSink("k", read, None, each) for each in every]) == seconds


def test_a_log_knows_its_size(tmp_path: Path) -> None:
    folder = LogDirectory.local(tmp_path)
    log = LogWriter.open(folder, 1, new_id="l")
    log.add("open", to="0", at=time.time())
    for number in range(1, 5):
        _changes(log, str(number), "mine", "other", size=number * 100)
    assert log.size == 2000
    log.delete_first(3)
    assert log.size == 1400
    log.delete_first(9)
    assert log.size == 800
    assert LogWriter.open(folder, 2, new_id="l").size == 800


def test_only_used_columns_are_read(tmp_path: Path) -> None:
    folder = LogDirectory.local(tmp_path)
    log = LogWriter.open(folder, 1, new_id="l")
    log.add("open", to="0", at=time.time())
    rows = pa.record_batch({"id": [1, 2], "name": ["a", "b"], "n": pa.array([3, 4], pa.int32()), "$diff": [1, 1]})
    file = data_file.write(folder.store, "mine", 1, [TableRows(rows)])
    assert file is not None
    log.add("changes", to="1", at=time.time(), tables={"mine": TableEntry(files=(file,))})
    assert [each.schema.names for each in data_file.read(folder.store, file, {"n"})] == [["n"]]
    columns = (*_COLUMNS, physical.Column("name", TEXT), physical.Column("n", INTEGER))
    reader = LogReader("s", "k", folder, CapturedTable("mine", ("mine",), columns, ("id",)), LogRetention())
    start, end = (LogPosition("l", at, str(at), done=True).offsets() for at in (0, 1))
    (split,) = reader.splits(start, end)
    (found,) = reader.with_columns(("id", "n")).read(split, ReadCounts())
    assert found.to_pydict() == {"id": [1, 2], "n": [3, 4], "$diff": [1, 1]}
