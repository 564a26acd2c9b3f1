"""If other programs copy a sink's checkpoint, the sink resumes from its own or names the writer of the copy."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from sinkql.connectors.iceberg.commit import checkpoint as markers
from sinkql.connectors.iceberg.commit.snapshot import FileChange, Notes, prepare
from sinkql.connectors.iceberg.file.data_file import for_tasks, write_data_file
from sinkql.errors import SinkqlError
from support import strangers
from support.lake import Lake, Sink
from support.readers import pyiceberg_rows


def _said(table: Table, *, newest: int = 0) -> dict[str, str]:
    """Return the SinkQL properties of a snapshot's summary; `newest` counts back from main's head."""
    snapshot = list(markers.ancestry(table))[newest]
    assert snapshot.summary is not None
    said = snapshot.summary.additional_properties
    return {name: value for name, value in said.items() if name.startswith("sinkql.")}


def _forged(said: dict[str, str]) -> dict[str, str]:
    """Return a summary whose offsets are three batches ahead."""
    offsets: Any = json.loads(said["sinkql.offsets"])
    offsets["end"]["numbers"]["batch"] += 3
    return {**said, "sinkql.offsets": json.dumps(offsets), "sinkql.commit": "forged"}


def _append(table: Table, said: dict[str, str], row: tuple[int, str]) -> None:
    """Append as PyIceberg does, with snapshot properties copied from a checkpoint."""
    table.append(strangers.rows_of([row]), snapshot_properties=said)


def _engine_append(table: Table, said: dict[str, str], row: tuple[int, str]) -> None:
    """Append with another snapshot's summary and set the table's properties again, in one commit."""
    new = write_data_file(for_tasks(table), f"theirs-{row[0]}-{row[1]}.parquet", strangers.rows_of([row]))
    kept = {name: value for name, value in table.properties.items() if name.startswith("sinkql.")}
    prepared = prepare(table, FileChange((new,), frozenset(), Operation.APPEND), lambda *_: Notes(said, kept))
    table.catalog.commit_table(table, prepared.requirements, prepared.updates)


def _set(table: Table, sink: Sink, value: str | None) -> None:
    with table.transaction() as change:
        if value is None:
            change.remove_properties(markers.property_name(sink.id))
        else:
            change.set_properties({markers.property_name(sink.id): value})


def _forge_property(table: Table, sink: Sink) -> None:
    noted = json.loads(table.properties[markers.property_name(sink.id)])
    offsets = json.loads(noted["offsets"])
    offsets["end"]["numbers"]["batch"] += 3
    _set(table, sink, json.dumps({**noted, "offsets": json.dumps(offsets)}))


@pytest.mark.share(3)
@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
@pytest.mark.parametrize("seed", range(3))
def test_a_sink_continues_from_its_own_checkpoint_whatever_others_copy(
    lake: Lake, name: str, seed: int, *, upsert: bool
) -> None:
    random_ = random.Random(seed)
    sink = Sink(lake, name, upsert=upsert)
    sink.start()
    held: Counter[tuple[int, str]] = Counter()
    older, puts = None, 0

    def came(*rows: tuple[int, str]) -> None:
        for row in rows:
            if upsert:
                for known in [each for each in held if each[0] == row[0]]:
                    del held[known]
            held[row] += 1

    for step in range(10):
        table = lake.table(name)
        history = len(list(markers.ancestry(table)))
        said = _said(table, newest=random_.randrange(history))
        theirs = (100 + step, "theirs")
        match random_.choice(["put", "put", "copy", "engine", "forge", "property", "stale", "gone", "start"]):
            case "put":
                rows = [(random_.randrange(6), str(step)), (100 + random_.randrange(step + 1), str(step))]
                sink.put(*rows)
                puts += 1
                came(*rows)
            case "copy" if "sinkql.sink" in said:
                _append(table, said, theirs)
                held[theirs] += 1
            case "engine":
                _engine_append(table, said, theirs)
                held[theirs] += 1
            case "forge" if "sinkql.offsets" in said:
                _append(table, _forged(said), theirs)
                held[theirs] += 1
            case "property" if markers.property_name(sink.id) in table.properties:
                _forge_property(table, sink)
            case "stale" if older is not None:
                _set(table, sink, older)
            case "gone":
                _set(table, sink, None)
            case _:
                sink = Sink(lake, name, upsert=upsert)
                assert sink.start(epoch=1).end == {"numbers": {"batch": puts}}
        older = lake.table(name).properties.get(markers.property_name(sink.id), older)
        assert sink.writer.refresh().end == {"numbers": {"batch": puts}}
    sink.put((7, "last"))
    came((7, "last"))
    assert Counter(lake.rows(name)) == held


@pytest.mark.parametrize("how", ["forged", "removed", "nonsense"])
def test_nothing_but_a_strangers_checkpoint_is_an_error_by_that_name(lake: Lake, name: str, how: str) -> None:
    sink = Sink(lake, name, options={"existing_rows": "keep"})
    sink.start()
    sink.put((1, "a"))
    _append(lake.table(name), _said(lake.table(name)), (9, "theirs"))
    strangers.forget_tags(lake.table(name))
    strangers.expire_all_but_head(lake.table(name))
    before = lake.table(name).properties[markers.property_name(sink.id)]
    match how:
        case "forged":
            _forge_property(lake.table(name), sink)
        case "removed":
            _set(lake.table(name), sink, None)
        case _:
            _set(lake.table(name), sink, "{")
    for refused in (sink.writer.refresh, sink.writer.load_checkpoint, Sink(lake, name).start):
        with pytest.raises(SinkqlError) as caught:
            refused()
        assert caught.value.code == "SQ3508"
    assert pyiceberg_rows(lake.table(name)) == [(1, "a"), (9, "theirs")]
    _set(lake.table(name), sink, before)  # as the error's hint advises
    restarted = Sink(lake, name)
    assert restarted.start().end == {"numbers": {"batch": 1}}


def test_a_rollback_is_seen_without_the_property(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    first = sink.put((1, "a"))
    sink.put((2, "b"))
    strangers.set_main(lake.table(name), first.snapshot)
    _set(lake.table(name), sink, None)
    with pytest.raises(SinkqlError) as caught:
        Sink(lake, name).start()
    assert caught.value.code == "SQ3501"
