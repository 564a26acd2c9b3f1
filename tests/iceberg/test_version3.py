"""Tables of format version 3: rows keep their ids, and deletion vectors mark dead rows."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from iceberg.test_expire import on_disk, reachable, removed_by_kept
from sinkql.connectors.iceberg.commit import manifest_cache
from sinkql.connectors.iceberg.commit.maintenance import expired
from sinkql.connectors.iceberg.commit.proposal import publish
from sinkql.connectors.iceberg.file import reader
from sinkql.connectors.iceberg.file.deletes import live_files, read_dead
from sinkql.connectors.iceberg.file.manifest import origins, vector_of, vector_place
from sinkql.connectors.iceberg.table.branch import BranchTable
from sinkql.errors import SinkqlError
from support import strangers
from support.eager import compact_eagerly
from support.lake import Lake, Sink

V3 = {"format_version": 3}


def opened(lake: Lake, name: str, *, upsert: bool = False, **options: object) -> Sink:
    sink = Sink(lake, name, upsert=upsert, options={**V3, **options})
    sink.start()
    return sink


def churn(sink: Sink, batches: range, model: dict[int, str | None], *, maintained: bool = False) -> None:
    """Write batches of ten out of twenty keys, and apply them to the model."""
    for batch in batches:
        rows = dict.fromkeys(random.Random(batch).sample(range(20), 10), f"{batch}")
        model |= rows
        sink.put(*rows.items())
        if maintained:
            sink.writer.maintenance.maintain()


def ids(table: Table) -> dict[tuple[object, ...], tuple[int, int | None]]:
    """Return each row with its id and the sequence number of its last commit."""
    found = {}
    live = live_files(table)
    dead = {file: set(each) for path in live.deletes for file, each in _positions(table, path).items()}
    for path, origin in origins(table, live.data.keys()).items():
        assert origin.first_row is not None
        for position, row in enumerate(pq.read_table(path.removeprefix("file://")).to_pylist()):
            if position in dead.get(path, ()):
                continue
            id_, sequence = row.pop("_row_id", None), row.pop("_last_updated_sequence_number", None)
            found[tuple(row.values())] = (
                origin.first_row + position if id_ is None else id_,
                origin.sequence if sequence is None else sequence,
            )
    assert len({id_ for id_, _ in found.values()}) == len(found)
    return found


def _positions(table: Table, name: str) -> dict[str, list[int]]:
    return {path: each.tolist() for path, each in read_dead(table.io, name, live_files(table).deletes[name]).items()}


def rewrite(table: Table, more: dict[str, object]) -> None:
    """Change the table's metadata file directly."""
    path = Path(table.metadata_location.removeprefix("file://"))
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}))


def test_row_ids_follow_one_another_and_stay(any_lake: Lake, name: str) -> None:
    sink = opened(any_lake, name)
    for batch in range(12):  # small manifests are merged during these commits
        sink.put((batch, "a"), (batch + 100, "b"), (batch + 101, "c"))
        if batch == 5:
            before = ids(any_lake.table(name)) if any_lake.server is None else {}
    table = any_lake.table(name)
    assert table.metadata.format_version == 3
    snapshots = [each for each in table.metadata.snapshots if each.added_rows]
    for each, following in itertools.pairwise(snapshots):
        assert following.first_row_id == (each.first_row_id or 0) + (each.added_rows or 0)
    last = snapshots[-1]
    assert table.metadata.next_row_id == (last.first_row_id or 0) + (last.added_rows or 0)
    assert len(any_lake.rows(name)) == 36
    if any_lake.server is None:
        assert before.items() <= ids(table).items()


@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
def test_rows_that_a_compaction_moves_keep_their_ids(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch, *, upsert: bool
) -> None:
    sink = opened(lake, name, upsert=upsert)
    model: dict[int, str | None] = {}
    monkeypatch.setattr(reader, "_ROWS", 2)
    monkeypatch.setattr(reader, "_AT_ONCE", 2)
    churn(sink, range(6), model)
    before = ids(lake.table(name))
    files = live_files(lake.table(name)).data.keys()
    compact_eagerly(monkeypatch)
    sink.writer.maintenance.maintain()
    sink.writer.maintenance.optimize()
    assert files.isdisjoint(live_files(lake.table(name)).data)
    assert before == ids(lake.table(name))
    churn(sink, range(6, 8), model)
    sink.writer.maintenance.optimize()  # some files store row ids, others inherit them
    after = ids(lake.table(name))
    assert len(after) == len(lake.rows(name))
    assert {row: after[row] for row in before.keys() & after.keys()}.items() <= before.items()


def test_puffin_file_is_there_as_long_as_one_vector_in_it(lake: Lake, name: str) -> None:
    sink = opened(lake, name, upsert=True, retain_snapshots=3)
    model: dict[int, str | None] = {}
    sink.put(*((id_, "first") for id_ in range(100, 130)))
    churn(sink, range(3), model)
    rows = {100: "once", 101: "once", **dict.fromkeys(range(6), "both")}
    sink.put(*rows.items())  # into files with and without later deletes
    model |= rows
    churn(sink, range(3, 45), model, maintained=True)
    table = lake.table(name)
    assert len(table.metadata.snapshots) < 25
    assert not expired(table, sink.writer.table.planned)
    live = live_files(table)
    assert any(place[0] for name in live.deletes if (place := vector_place(name)))
    assert reachable(table) <= on_disk(lake, name)
    assert on_disk(lake, name) - reachable(table) <= removed_by_kept(table)
    expected = dict.fromkeys(range(100, 130), "first") | model
    assert lake.rows(name) == sorted(expected.items())


@pytest.mark.parametrize("branch", [None, "audit"], ids=["tag", "main-below-a-branch"])
def test_puffin_file_stays_though_an_older_snapshot_is_kept(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch, *, branch: str | None
) -> None:
    monkeypatch.setattr("sinkql.connectors.iceberg.commit.maintenance._AT_ONCE", 2)
    options = {} if branch is None else {"branch": branch}
    sink = opened(lake, name, upsert=True, retain_snapshots=3, **options)
    sink.put(*((id_, "a") for id_ in range(8)))
    sink.put(*((id_, "b") for id_ in range(10, 18)))
    if branch is None:
        table = sink.writer.table.target.load()
        assert table.metadata.current_snapshot_id is not None
        table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "kept").commit()
    else:
        publish(sink.planned, sink.context)
    sink.put((0, "x"), (10, "x"))  # writes two vectors to one file
    sink.put((2, "y"))  # replaces one of them
    for id_ in range(100, 112):
        sink.put((id_, "z"))
        sink.writer.maintenance.maintain()
    table = lake.table(name)
    assert len(table.metadata.snapshots) < 10
    assert reachable(table) <= on_disk(lake, name)


def test_file_of_another_program_has_one_vector_for_all_buckets(any_lake: Lake, name: str) -> None:
    sink = opened(any_lake, name, upsert=True)
    table = sink.writer.table.target.load()
    strangers.add(table, *((id_, "theirs") for id_ in range(6)))
    sink.put((0, "mine"), (1, "mine"))
    (vector,) = live_files(any_lake.table(name)).deletes.values()
    assert vector.record_count == 2
    sink.put((2, "mine"), (3, "mine"))
    (vector,) = live_files(any_lake.table(name)).deletes.values()
    assert vector.record_count == 4
    assert any_lake.rows(name) == [*((id_, "mine") for id_ in range(4)), (4, "theirs"), (5, "theirs")]
    sink.put((4, "mine"), (5, "mine"))  # each hash bucket deletes one row; together they empty the file
    live = live_files(any_lake.table(name))
    assert (len(live.data), len(live.deletes)) == (6, 0)
    assert any_lake.rows(name) == [(id_, "mine") for id_ in range(6)]


def test_upgraded_table_gets_vectors_and_ids(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, upsert=True)
    sink.start()
    model: dict[int, str | None] = {}
    churn(sink, range(5), model)
    rewrite(lake.table(name), {"format-version": 3, "next-row-id": 0})
    parquet = set(live_files(lake.table(name)).deletes)
    assert parquet
    sink = Sink(lake, name, upsert=True)
    sink.start(epoch=2)
    churn(sink, range(5, 7), model)
    before = ids(lake.table(name))
    (sink.context.folder / "index").rename(lake.folder / "lost")
    sink = Sink(lake, name, upsert=True)
    sink.start(epoch=3)
    churn(sink, range(7, 9), model)
    live = live_files(lake.table(name))
    assert any(vector_of(file) for file in live.deletes.values())
    assert {path for path, file in live.deletes.items() if vector_of(file) is None} < parquet
    assert lake.rows(name) == sorted(model.items())
    after = ids(lake.table(name))
    assert len(after) == len(model)
    assert before.keys() & after.keys()
    assert {row: after[row] for row in before.keys() & after.keys()}.items() <= before.items()


def test_rows_of_an_upgraded_table_have_ids_on_each_branch(lake: Lake, name: str) -> None:
    first = Sink(lake, name, id="first", upsert=True)
    first.start()
    for batch in range(2):
        first.put(*((batch * 10 + each, "first") for each in range(5)))
    branches = ("one", "other")

    def opened_on(branch: str) -> Sink:
        sink = Sink(lake, name, id=branch, upsert=True, options={"branch": branch, "existing_rows": "keep"})
        sink.start()
        return sink

    for each in branches:
        opened_on(each).put((100, each))
    rewrite(lake.table(name), {"format-version": 3, "next-row-id": 0})
    manifest_cache._contents.cache_clear()  # like a process that has not read the manifests
    sinks = [opened_on(each) for each in branches]
    before = [ids(BranchTable(lake.table(name), each)) for each in branches]
    for batch in range(8):  # merges small manifests that both branches share
        for sink in sinks:
            sink.put((batch // 4 * 10 + batch % 4, f"{batch}"))  # replaces a file's vector
    for was, branch in zip(before, branches, strict=True):
        now = ids(BranchTable(lake.table(name), branch))
        assert len(was.keys() & now.keys()) >= 3
        assert {row: now[row] for row in was.keys() & now.keys()}.items() <= was.items()


@pytest.mark.parametrize("code", ["SQ3555", "SQ3556"])
def test_vector_that_is_damaged_or_missing_is_told(lake: Lake, name: str, code: str) -> None:
    sink = opened(lake, name, upsert=True)
    sink.put(*((id_, "a") for id_ in range(10)))
    sink.put((1, "b"), (2, "b"))
    for vector in live_files(lake.table(name)).deletes:
        path, offset, _ = vector_place(vector) or ("", 0, 0)
        file = Path(path.removeprefix("file://"))
        data = bytearray(file.read_bytes())
        data[offset + 20] ^= 1
        file.write_bytes(data)
        if code == "SQ3556":
            file.unlink()
    with pytest.raises(SinkqlError) as caught:
        sink.put((3, "c"), (4, "c"))
    assert caught.value.code == code


def test_column_with_a_default_value_is_refused(lake: Lake, name: str) -> None:
    sink = opened(lake, name)
    sink.put((1, "a"))
    table = lake.table(name)
    (schema,) = (each.model_dump() for each in table.metadata.schemas)
    schema["fields"][1]["initial-default"] = "none"
    rewrite(table, {"schemas": [schema]})
    with pytest.raises(SinkqlError) as caught:
        opened(lake, name)
    assert caught.value.code == "SQ3511"
