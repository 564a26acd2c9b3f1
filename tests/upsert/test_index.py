"""The key index and its table: when the index is valid, when it is rebuilt, and when the sink must stop."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import LongType, StringType

from sinkql.connectors.iceberg.commit.snapshot import FileChange, Notes, prepare
from sinkql.connectors.iceberg.file.data_file import for_tasks, write_data_file
from sinkql.connectors.iceberg.file.deletes import read_position_deletes
from sinkql.connectors.iceberg.key_index import rebuild as rebuilding
from sinkql.connectors.iceberg.key_index.index import Index, sweep
from sinkql.connectors.iceberg.key_index.key_hash import key_columns
from sinkql.connectors.iceberg.key_index.run import TIERS
from sinkql.errors import SinkqlError
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint
from support.fault import armed
from upsert.keyed_sink import NAME, Sink, batch_of, changes, create_table, duckdb_rows, pyiceberg_rows

TYPES = {"id": pa.int64(), "note": pa.string(), "$seq": pa.int64(), "$diff": pa.int64()}


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    table = create_table(tmp_path, {"id": LongType(), "note": StringType()})
    return Sink(table, ("id",), tmp_path / "index")


def _rows(ids: Sequence[int | None], note: str = "a", last: str = "$seq") -> pa.Table:
    last_values = list(range(len(ids))) if last == "$seq" else [1] * len(ids)
    return batch_of({"id": list(ids), "note": [note] * len(ids), last: last_values}, TYPES)


def _append(sink: Sink, ids: Sequence[int | None]) -> None:
    """Append rows as another program would."""
    sink.table.append(pa.table({"id": pa.array(ids, pa.int64()), "note": ["foreign"] * len(ids)}))


def _code(error: pytest.ExceptionInfo[SinkqlError]) -> str:
    return error.value.code


def test_null_is_a_key_value(sink: Sink) -> None:
    sink.apply(_rows([None, 1, None]))
    sink.apply(_rows([None], "b"))
    assert {(None, "b"), (1, "a")} == set(duckdb_rows(sink.table))
    assert len(pyiceberg_rows(sink.table)) == 2


def test_empty_batch_leaves_the_index_as_it_is(sink: Sink) -> None:
    sink.apply(_rows([1]))
    before = sink.places()
    sink.apply(_rows([]))
    assert before == sink.places()


def test_deleting_a_key_that_is_not_there_writes_nothing(sink: Sink) -> None:
    sink.change = "retract"
    task = sink.task()
    results = sink.run(task, batch_of({"id": [1], "note": ["a"], "$diff": [-1]}, TYPES))
    assert [entry for result in results if result.data for entry in result.data.entries] == []
    sink.commit(task, results)
    assert sink.index.runs == ()


@pytest.mark.parametrize("diffs", [[1, 1], [2], [1, -1, 1]])
def test_two_rows_of_one_key_in_a_batch_are_refused(sink: Sink, diffs: list[int]) -> None:
    sink.change = "retract"
    batch = batch_of({"id": [7] * len(diffs), "note": ["a", "b", "c"][: len(diffs)], "$diff": diffs}, TYPES)
    with pytest.raises(SinkqlError, match=r"two rows have the key \(id = 7\)") as caught:
        sink.run(sink.task(), batch)
    assert _code(caught) == "SQ3552"


def test_second_row_of_a_key_that_lives_is_refused(sink: Sink) -> None:
    sink.change = "retract"
    sink.apply(_rows([7, 8], last="$diff"))
    with pytest.raises(SinkqlError, match=r"two rows have the key \(id = 7\)") as caught:
        sink.apply(_rows([9, 7], "b", last="$diff"))
    assert _code(caught) == "SQ3552"
    sink.apply(batch_of({"id": [7, 7], "note": ["b", "a"], "$diff": [1, -1]}, TYPES))
    assert {(7, "b"), (8, "a")} == set(duckdb_rows(sink.table))


def test_rows_that_the_sink_found_make_room_for_its_own(sink: Sink) -> None:
    sink.change = "retract"
    _append(sink, [7])
    sink.recover_index()
    sink.apply(_rows([7], "b", last="$diff"))
    assert duckdb_rows(sink.table) == [(7, "b")]


def test_delete_file_names_old_versions_in_full(sink: Sink) -> None:
    for note in "abc":
        sink.apply(_rows(range(100), note))
    task = sink.task()
    results = sink.run(task, _rows(range(0, 100, 3), "d"))
    for result in results:
        (entry,) = (each for each in result.data.entries if each.content == "deletes")
        dead = read_position_deletes(sink.table.io, [entry.path])
        paths = sorted(dead)
        assert entry.rows == sum(len(positions) for positions in dead.values()) == result.rows
        assert (paths[0].encode(), paths[-1].encode()) == (
            entry.lower_bounds[2147483546],
            entry.upper_bounds[2147483546],
        )
        schema = pq.read_schema(entry.path.removeprefix("file://"))
        assert [field.metadata[b"PARQUET:field_id"].decode() for field in schema] == ["2147483546", "2147483545"]


def test_lost_index_is_rebuilt_equal(sink: Sink) -> None:
    sink.apply(_rows(range(500)))
    sink.apply(_rows(range(100, 300), "b"))
    before = sink.places()
    (sink.folder / sink.name).unlink()
    assert sink.restart() is None
    sink.recover_index()
    assert before == sink.places()


def test_a_new_index_in_many_parts_is_the_same(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    for start in range(0, 900, 150):
        sink.apply(_rows(range(start, start + 300), str(start)))
    before = sink.places()
    monkeypatch.setattr(rebuilding, "_PART", 64)
    monkeypatch.setattr(rebuilding, "_BATCH", 50)
    sink.recover_index()
    assert before == sink.places()
    assert len(sink.index.runs) == 1
    assert [path for path in sink.folder.iterdir() if path.name.startswith("part")] == []


def test_torn_run_makes_the_index_invalid(sink: Sink) -> None:
    sink.apply(_rows(range(100)))
    path = sink.folder / sink.index.runs[0].name
    path.write_bytes(path.read_bytes()[:-1])
    assert sink.restart() is None


def test_damaged_manifest_makes_the_index_invalid(sink: Sink) -> None:
    sink.apply(_rows(range(100)))
    path = sink.folder / sink.name
    path.write_bytes(path.read_bytes()[:-1])
    assert sink.restart() is None


def test_index_of_another_key_is_not_used(sink: Sink) -> None:
    sink.apply(_rows(range(100)))
    assert Index.load(sink.folder, sink.name, sink.key) == sink.index
    assert Index.load(sink.folder, sink.name, key_columns(sink.table, ("note",))) is None
    assert Index.load(sink.folder, sink.name, key_columns(sink.table, ("id", "note"))) is None


def test_attempt_that_was_not_committed_leaves_no_trace(sink: Sink) -> None:
    sink.apply(_rows(range(10)))
    abandoned = sink.task()
    lost = changes(sink.run(abandoned, _rows(range(20), "lost")))
    sink.index.after(lost, epoch=1, commit=abandoned.commit).save(sink.folder)
    sink.apply(_rows(range(5), "b"))
    assert {(id_, "b" if id_ < 5 else "a") for id_ in range(10)} == set(duckdb_rows(sink.table))


def test_results_on_another_index_are_refused(sink: Sink) -> None:
    task = sink.task()
    results = sink.run(task, _rows([1]))
    sink.apply(_rows([2]))
    with pytest.raises(ValueError, match="the change is for index"):
        sink.index.after(changes(results), epoch=1, commit=task.commit)


def test_saving_twice_is_once_and_never_replaces(sink: Sink) -> None:
    sink.apply(_rows([1]))
    assert sink.index.save(sink.folder) == sink.name
    changed = Index(NAME, 1, sink.index.commit, sink.key)
    with pytest.raises(FileExistsError):
        changed.save(sink.folder)


def test_merged_runs_stay_above_the_base(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinkql.connectors.iceberg.write.upsert_task.TIERS", replace(TIERS, fan=2))
    sink.apply(_rows(range(200)))
    sink.recover_index()
    (base,) = sink.index.runs
    for note in "bcdefg":
        sink.apply(_rows(range(0, 200, 2), note))
    assert sink.merged > 0
    assert base == sink.index.runs[-1]
    assert {(id_, "a" if id_ % 2 else "g") for id_ in range(200)} == set(duckdb_rows(sink.table))


def test_merge_of_all_runs_forgets_keys_that_are_gone(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinkql.connectors.iceberg.write.upsert_task.TIERS", replace(TIERS, fan=2))
    sink.buckets, sink.change = 1, "retract"
    sink.apply(_rows([1, 2], last="$diff"))
    sink.apply(batch_of({"id": [1], "note": ["a"], "$diff": [-1]}, TYPES))
    assert [run.rows for run in sink.index.runs] == [1]
    sink.apply(batch_of({"id": [2], "note": ["a"], "$diff": [-1]}, TYPES))
    assert sink.index.runs == ()
    sink.apply(_rows([1], last="$diff"))
    assert {(1, "a")} == set(duckdb_rows(sink.table))


def test_merge_does_not_cross_a_foreign_run(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sinkql.connectors.iceberg.write.upsert_task.TIERS", replace(TIERS, fan=2))
    sink.buckets, sink.change = 1, "retract"
    sink.apply(_rows([1, 2], last="$diff"))
    sink.apply(batch_of({"id": [1], "note": ["a"], "$diff": [-1]}, TYPES))
    _append(sink, [1])
    sink.catch_up()
    for id_ in (10, 11, 12):
        sink.apply(_rows([id_], last="$diff"))
    sink.apply(batch_of({"id": [1, 1], "note": ["foreign", "b"], "$diff": [-1, 1]}, TYPES))
    assert {(1, "b"), (2, "a"), (10, "a"), (11, "a"), (12, "a")} == set(duckdb_rows(sink.table))


def test_index_follows_foreign_appends(sink: Sink) -> None:
    sink.apply(_rows(range(10)))
    _append(sink, range(10, 20))
    _append(sink, range(20, 30))
    sink.catch_up()
    assert len(sink.index.runs) == 3
    sink.apply(_rows(range(5, 25), "b"))
    expected = {(id_, "a" if id_ < 5 else "b" if id_ < 25 else "foreign") for id_ in range(30)}
    assert expected == set(duckdb_rows(sink.table))
    assert expected == set(pyiceberg_rows(sink.table))


def test_index_follows_foreign_deletes_and_overwrites(sink: Sink) -> None:
    sink.apply(_rows(range(10)))
    sink.table.delete("id < 5")
    sink.catch_up()
    assert len(sink.places()) == 5
    sink.apply(_rows(range(3, 7), "b"))
    sink.table.overwrite(pa.table({"id": pa.array([3], pa.int64()), "note": ["over"]}), "id = 3")
    sink.catch_up()
    sink.apply(_rows([3], "c"))
    assert {(3, "c"), (4, "b"), (5, "b"), (6, "b"), (7, "a"), (8, "a"), (9, "a")} == set(duckdb_rows(sink.table))


def test_index_that_is_true_is_not_recreated(sink: Sink) -> None:
    sink.apply(_rows(range(10)))
    before = sink.index
    sink.catch_up()
    assert sink.index is before


@pytest.mark.parametrize("ids", [[3], [50, 51, 50]])
def test_foreign_duplicate_key_stalls(sink: Sink, ids: list[int]) -> None:
    sink.apply(_rows(range(10)))
    _append(sink, ids)
    with pytest.raises(SinkqlError, match=rf"two rows with the key \(id = {ids[0]}\)") as caught:
        sink.catch_up()
    assert _code(caught) == "SQ3551"
    with pytest.raises(SinkqlError, match=rf"two rows with the key \(id = {ids[0]}\)") as caught:
        sink.recover_index()
    assert _code(caught) == "SQ3551"


def test_duplicate_key_is_found_across_parts(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilding, "_PART", 20)
    monkeypatch.setattr(rebuilding, "_BATCH", 10)
    sink.apply(_rows(range(100)))
    _append(sink, [37])
    with pytest.raises(SinkqlError, match=r"two rows with the key \(id = 37\)"):
        sink.recover_index()


def test_columns_of_foreign_files_are_found_by_id(sink: Sink) -> None:
    _append(sink, [1, 2])
    with sink.table.update_schema() as update:
        update.rename_column("id", "number")
    sink = Sink(sink.table.refresh(), ("number",), sink.folder)
    batch = pa.table({"number": pa.array([2], pa.int64()), "note": ["b"], "$seq": pa.array([0], pa.int64())})
    sink.apply(batch)
    assert {(1, "foreign"), (2, "b")} == set(duckdb_rows(sink.table))


def test_input_is_cast_to_the_tables_types_before_it_is_hashed(sink: Sink) -> None:
    sink.apply(_rows([1]))
    narrow = _rows([1], "b")
    sink.apply(narrow.set_column(0, "id", narrow.column("id").cast(pa.int16())))
    assert duckdb_rows(sink.table) == [(1, "b")]


def test_equality_deletes_are_refused(sink: Sink) -> None:
    sink.apply(_rows([1]))
    _equality_delete(sink)
    with pytest.raises(SinkqlError, match="has equality deletes") as caught:
        sink.catch_up()
    assert _code(caught) == "SQ3506"


def _equality_delete(sink: Sink) -> None:
    from pyiceberg.manifest import DataFile, DataFileContent

    from sinkql.connectors.iceberg.commit import snapshot

    entry = write_data_file(for_tasks(sink.table), f"equality-{uuid4()}.parquet", _rows([1]))

    def as_equality(one: Any, metadata: Any, *, plain: Any = snapshot.as_data_file) -> DataFile:
        file: DataFile = plain(one, metadata)
        file._data[0] = DataFileContent.EQUALITY_DELETES
        return file

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "as_data_file", as_equality)
        change = FileChange(add=(entry,))
        prepared = prepare(sink.table, change, lambda snapshot, sequence: Notes({}, {}))
    sink.table.catalog.commit_table(sink.table, prepared.requirements, prepared.updates)


def test_sweep_keeps_what_two_markers_reach(sink: Sink) -> None:
    names = []
    for note in "abcdefghijkl":
        sink.apply(_rows(range(10), note))
        names.append(sink.name)
    linked = {link.name for link in sink.index.older}
    (sink.folder / "b0-other-1-c-a.run").write_bytes(b"of another sink")
    (sink.folder / f"b0-{NAME}-9-c-a.run").write_bytes(b"of a later epoch")
    (sink.folder / f"b0-{NAME}-1-c-a.run").write_bytes(b"of an attempt that died")
    assert sweep(StateDirectory(sink.folder), sink=NAME, epoch=2, manifests=names[-2:]) == 0, "all files are young"
    deleted = sweep(StateDirectory(sink.folder), sink=NAME, epoch=1, manifests=names[-2:], indexes=(sink.index,))
    left = {path.name for path in sink.folder.iterdir()}
    assert deleted > 6
    assert {*names[-2:], *linked, "b0-other-1-c-a.run", f"b0-{NAME}-9-c-a.run"} <= left
    assert f"b0-{NAME}-1-c-a.run" not in left
    assert all(Index.load(sink.folder, name, sink.key) is not None for name in names[-2:])
    assert Index.load(sink.folder, names[0], sink.key) is None


@pytest.mark.parametrize("point", ["data-file", "index-run", "index-manifest"])
def test_failure_at_each_point_is_mended_by_trying_again(
    sink: Sink, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    sink.apply(_rows(range(10)))
    failpoint._passes.clear()
    for name, value in armed(f"{point}=fail").items():
        monkeypatch.setenv(name, value)
    with pytest.raises(failpoint.FaultError, match=point):
        sink.apply(_rows(range(5), "lost"))
    sink.apply(_rows(range(8), "b"))
    assert {(id_, "b" if id_ < 8 else "a") for id_ in range(10)} == set(duckdb_rows(sink.table))
