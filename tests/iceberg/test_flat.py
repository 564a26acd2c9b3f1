"""The cost of a commit does not depend on the table's history: known metadata is not read again, new metadata is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyiceberg.catalog.sql
import pyiceberg.manifest
import pytest
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.metadata import TableMetadata

from sinkql.connectors.iceberg.commit import manifest_cache as manifests
from sinkql.connectors.iceberg.table import format_v3
from sinkql.errors import SinkqlError
from support import strangers
from support.eager import compact_eagerly
from support.lake import Lake, Sink


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Callable[[], int]:
    """Wrap a function to count its calls; return a function that returns the count."""
    function, calls = getattr(owner, name), [0]

    def counting(*arguments: Any, **named: Any) -> Any:
        calls[0] += 1
        return function(*arguments, **named)

    monkeypatch.setattr(owner, name, counting)
    return lambda: calls[0]


def known(sink: Sink) -> TableMetadata:
    return sink.writer.table.target.load().metadata


def test_metadata_that_is_known_is_what_a_file_holds(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, options={"retain_snapshots": 5})
    sink.start()
    with lake.table(name).manage_snapshots() as manage:
        head = lake.table(name).metadata.current_snapshot_id
        assert head is not None
        manage.create_tag(head, "first")
        manage.create_branch(head, "audit")
    for batch in range(28):
        sink.put((batch, "a"))
        assert lake.table(name).metadata == known(sink)
        sink.writer.maintenance.maintain()
        assert lake.table(name).metadata == known(sink)
    after = known(sink)
    assert len(after.snapshots) < 20
    assert [each.snapshot_id for each in after.snapshots] == [each.snapshot_id for each in after.snapshot_log]


def test_what_others_commit_is_seen(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    sink.put((1, "a"))
    strangers.append(lake.table(name), (2, "b"))
    assert lake.table(name).metadata == known(sink)
    lake.catalog().drop_table(("shop", name))
    lake.catalog().create_table(("shop", name), strangers.rows_of([]).schema)
    assert lake.table(name).metadata == known(sink)


def test_own_metadata_is_not_read_again(lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(lake, name)
    sink.start()
    sink.put((0, "a"))
    reads = counted(monkeypatch, format_v3, "read_metadata")
    for batch in range(1, 4):
        sink.put((batch, "a"))
        sink.writer.maintenance.maintain()
    assert reads() == 0
    strangers.append(lake.table(name), (2, "b"))
    before = reads()
    known(sink)
    assert reads() == before + 1


def test_metadata_file_that_is_lost_is_missed(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    table = lake.table(name)
    table.io.delete(table.metadata_location)
    with pytest.raises(SinkqlError, match="SQ3556"):
        known(sink)


@pytest.mark.share(2)
@pytest.mark.parametrize("upsert", [True, False], ids=["upsert", "append"])
def test_own_manifests_are_not_read_again_and_say_the_same_once_merged(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch, *, upsert: bool
) -> None:
    compact_eagerly(monkeypatch)
    sink = Sink(lake, name, upsert=upsert)
    sink.start()
    sink.put((0, "a"))
    reads = counted(monkeypatch, manifests, "said_of")
    for batch in range(1, 20):
        sink.put((batch, "a"), (batch % 3, "b"), (batch // 2, "c"))
    assert reads() == 0
    left, entries = merged(lake, name)
    assert left < entries
    for _ in range(3):
        sink.put((50, "a"))
        sink.writer.maintenance.maintain()
    merged(lake, name)
    assert len(lake.rows(name)) == (21 if upsert else 1 + 19 * 3 + 3)


def merged(lake: Lake, name: str) -> tuple[int, int]:
    """Return the numbers of manifests and entries, after checking each entry's sequence numbers."""
    table = lake.table(name)
    head = table.current_snapshot()
    assert head is not None
    sequence = {each.snapshot_id: each.sequence_number for each in table.metadata.snapshots}
    manifests = head.manifests(table.io)
    entries = [entry for manifest in manifests for entry in manifest.fetch_manifest_entry(table.io)]
    numbers = [(entry.sequence_number, entry.file_sequence_number) for entry in entries]
    assert [(sequence.get(entry.snapshot_id or 0),) * 2 for entry in entries] == numbers
    return len(manifests), len(entries)


def test_expiry_reads_the_lists_of_what_goes_and_few_others(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(lake, name, options={"retain_snapshots": 40})
    sink.start()
    for batch in range(58):
        sink.put((batch, "a"))
    read = pyiceberg.manifest.read_manifest_list
    lists: list[str] = []

    def reading(file: Any) -> Iterator[ManifestFile]:
        lists.append(file.location)
        return read(file)

    monkeypatch.setattr(pyiceberg.manifest, "read_manifest_list", reading)
    before = len(lake.table(name).metadata.snapshots)
    sink.put((58, "a"))
    lists.clear()
    sink.writer.maintenance.tidy()
    after = len(lake.table(name).metadata.snapshots)
    assert (before, after) == (59, 40)
    assert len(lists) <= (before + 1 - after) + 3
