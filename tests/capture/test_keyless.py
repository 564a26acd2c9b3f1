"""A table without a key is read if nothing of it changed while its snapshot began, however busy it is later."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from capture.pipeline import QUICK
from capture.server import FakeStream, Server, position, rows_of, table
from sinkql.capture.buffer import Buffer
from sinkql.capture.log import DataFile, LogDirectory, LogWriter, SnapshotGeneration, TableEntry
from sinkql.capture.position import LogPosition
from sinkql.capture.reader import LogReader
from sinkql.capture.snapshot import TableSnapshotReader
from sinkql.connector_api.cdc import LogRetention
from sinkql.connector_api.stream import Limit
from sinkql.errors import SinkqlError
from support.patience import Deadline

_PACE = replace(QUICK, chunk_bytes=10_000)


@pytest.fixture
def snapshots(tmp_path: Path) -> Iterator[TableSnapshotReader]:
    server = Server.make(tmp_path / "server.db")
    server.commit([("t", key, "old") for key in range(5)])
    log = LogWriter.open(LogDirectory.local(tmp_path / "log"), 1, new_id="log")
    log.add("open", to=position(0), at=0.0)
    found = TableSnapshotReader(log, FakeStream(server), {"t": replace(table(), key=())}, _PACE)
    found.begin("t", 0)
    found.start(lambda generation: True, [])
    yield found
    found.close()


def _doubted(snapshots: TableSnapshotReader) -> None:
    deadline = Deadline()
    while not snapshots.doubts:
        assert not snapshots.add_chunks(_received(snapshots, 0))
        deadline.check("the reading")


def _settled(snapshots: TableSnapshotReader) -> bool:
    for each in snapshots.reading.values():
        each.result()
    return snapshots.add_chunks(_received(snapshots, 2, came=1))


def _received(snapshots: TableSnapshotReader, to: int, *, came: int | None = None) -> Buffer:
    """Return a buffer up to a position, with changes of unknown transactions."""
    found = Buffer(snapshots.log.directory.store, 1, to=position(to))
    if came is not None:
        found.changed_after["t"] = position(came)
        found.rows["t"] = [rows_of([(1, "new")])]
    return found


def test_changes_after_the_snapshot_may_come_while_it_is_read(snapshots: TableSnapshotReader) -> None:
    _doubted(snapshots)
    assert not snapshots.add_chunks(_received(snapshots, 0))  # changes up to the snapshot are not received yet
    snapshots.add_chunks(_received(snapshots, 2, came=1))
    assert _settled(snapshots)
    assert snapshots.log.entries[-1].tables["t"].files[0].rows == 5


def test_changes_that_the_snapshot_may_have_seen_make_it_be_read_again(snapshots: TableSnapshotReader) -> None:
    _doubted(snapshots)
    snapshots.add_chunks(_received(snapshots, 2, came=0))
    assert not _settled(snapshots)
    assert not snapshots.is_holding
    assert snapshots.unfinished()


def test_changes_of_transactions_that_the_snapshot_saw_are_left_out(snapshots: TableSnapshotReader) -> None:
    _doubted(snapshots)
    received = _received(snapshots, 2, came=0)
    (changed,) = received.rows["t"]
    received.rows["t"] = [replace(changed, transactions=np.array([1])), replace(changed, transactions=np.array([2]))]
    snapshots.add_chunks(received)
    for each in snapshots.reading.values():
        each.result()
    assert snapshots.add_chunks(received)
    assert snapshots.log.entries[-1].tables["t"].files[0].rows == 5
    assert [part.rows.num_rows for part in received.rows["t"]] == [0, 1]


def test_abandoned_reading_ends(snapshots: TableSnapshotReader) -> None:
    _doubted(snapshots)
    snapshots.abandon()
    assert not snapshots.is_holding


def test_lost_log_of_a_snapshot_without_a_key_needs_a_full_refresh(tmp_path: Path) -> None:
    log = LogWriter.open(LogDirectory.local(tmp_path), 1, new_id="another")
    log.add("open", to=position(1), at=0.0)
    for number in (2, 3):
        log.add("changes", to=position(number), at=0.0, tables={"t": TableEntry((DataFile(f"{number}", 3, 30, ""),))})
    reader = LogReader("t", "id", log.directory, replace(table(), key=()), LogRetention(), change="retract")
    within = LogPosition("lost", 7, position(1), generation=0, done=True, high=position(2))
    behind = msgspec.structs.replace(within, to=position(2))
    assert reader.wants_full_refresh(within.offsets())
    assert LogPosition().offsets() == reader.full_refresh_start(within.offsets())
    with pytest.raises(SinkqlError, match="SQ3434"):
        reader.splits(within.offsets(), reader.latest(within.offsets(), Limit(1000)))
    assert not reader.wants_full_refresh(behind.offsets())
    assert not replace(reader, change="upsert").wants_full_refresh(within.offsets())


def test_a_large_table_is_read_by_several_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinkql.capture.data_file._SPLIT_ROWS", 5)
    log = LogWriter.open(LogDirectory.local(tmp_path), 1, new_id="log")
    log.add("open", to=position(1), at=0.0)
    began = SnapshotGeneration(0, "t", 1, run="r")
    log.add("begin", to=position(1), at=0.0, table="t", generation=began)
    done = msgspec.structs.replace(began, chunks=1, done=True, high=position(1))
    part = TableEntry(tuple(DataFile(f"chunk {number}", 3, 30, "") for number in range(3)))
    log.add("chunk", to=position(1), at=0.0, table="t", generation=done, tables={"t": part})
    for number in (2, 3):
        changed = TableEntry((DataFile(f"change {number}", 3, 30, ""),))
        log.add("changes", to=position(number), at=0.0, tables={"t": changed})
    reader = LogReader("t", "id", log.directory, replace(table(), key=()), LogRetention(), change="retract")
    start = LogPosition("log", 0, position(1)).offsets()
    middle = reader.latest(start, Limit(1000))
    end = reader.latest(middle, Limit(1000))
    names = [
        [[file["name"] for file in split["files"]] for split in reader.splits(*each)]
        for each in ((start, middle), (middle, end))
    ]
    assert names == [[["chunk 0"], ["chunk 1"], ["chunk 2"]], [["change 2", "change 3"]]]
