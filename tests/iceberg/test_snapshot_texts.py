"""The JSON of metadata whose snapshots were written before is the same as without their stored texts."""

from __future__ import annotations

import pytest
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Summary

from sinkql.connectors.iceberg.commit.checkpoint import ancestry
from sinkql.connectors.iceberg.table.format_v3 import SnapshotTexts, _WritableV3
from support.lake import Lake, Sink


def _metadata(lake: Lake, name: str, *, version: int = 2, commits: int = 3) -> TableMetadata:
    sink = Sink(lake, name, options={"format_version": version})
    sink.start()
    for number in range(commits):
        sink.put((number, "a"))
    metadata = lake.table(name).metadata
    odd = {"odd": '"snapshots":[]', "odder": '\\"snapshots":[]'}
    metadata = metadata.model_copy(update={"properties": {**metadata.properties, **odd}})
    return _WritableV3.model_construct(**dict(metadata)) if version == 3 else metadata


@pytest.mark.parametrize("version", [2, 3])
def test_stored_texts_change_nothing(lake: Lake, name: str, version: int) -> None:
    metadata, texts = _metadata(lake, name, version=version), SnapshotTexts()
    empty = metadata.model_copy(update={"snapshots": []})
    assert len(metadata.snapshots) == 4
    for number in (2, 4, 4, 1):
        some = metadata.model_copy(update={"snapshots": metadata.snapshots[:number]})
        assert texts.dump(some, exclude_none=True) == some.model_dump_json(exclude_none=True)
    assert texts.dump(empty, exclude_none=True) == empty.model_dump_json(exclude_none=True)


def test_a_snapshot_that_another_program_changed_is_written_as_it_is_now(lake: Lake, name: str) -> None:
    metadata, texts = _metadata(lake, name), SnapshotTexts()
    texts.dump(metadata, exclude_none=True)
    last = metadata.snapshots[-1].model_copy(update={"summary": Summary(Operation.APPEND, other="x")})
    changed = metadata.model_copy(update={"snapshots": [*metadata.snapshots[:-1], last]})
    assert texts.dump(changed, exclude_none=True) == changed.model_dump_json(exclude_none=True)


def test_parents_are_found_in_any_order(lake: Lake, name: str) -> None:
    _metadata(lake, name)
    table = lake.table(name)
    line = [snapshot.snapshot_id for snapshot in ancestry(table)]
    assert line == [snapshot.snapshot_id for snapshot in reversed(table.metadata.snapshots)]
    first, *others = table.metadata.snapshots
    for order in ([*others, first], [*reversed(others), first], [others[1], first, others[0], others[2]]):
        table.metadata = table.metadata.model_copy(update={"snapshots": order})
        assert line == [snapshot.snapshot_id for snapshot in ancestry(table)]
    table.metadata = table.metadata.model_copy(update={"snapshots": [first, *others[1:]]})
    assert line[:2] == [snapshot.snapshot_id for snapshot in ancestry(table)]
