"""Random batches against a dict: the table equals the dict, whatever happens to the buckets and the index.

Between batches, the sink compacts in steps, and batches and foreign appends also run between those steps.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import BucketTransform, TruncateTransform
from pyiceberg.types import DecimalType, IntegerType, ListType, LongType, NestedField, StringType, StructType

from sinkql.connectors.iceberg.commit.snapshot import FileChange, Notes, prepare
from sinkql.connectors.iceberg.compact import selection
from sinkql.connectors.iceberg.file import partitioned_writer, reader
from sinkql.connectors.iceberg.file.data_file import for_tasks, has_rows_of, write_data_file
from sinkql.connectors.iceberg.file.deletes import live_files, read_dead, read_vector
from sinkql.connectors.iceberg.file.manifest import vector_of
from sinkql.connectors.iceberg.file.partition import Partitions, divide
from sinkql.connectors.iceberg.file.sort_order import sorted_numbers
from sinkql.connectors.iceberg.key_index import compaction, run
from sinkql.connectors.iceberg.key_index.run import TIERS
from sinkql.connectors.iceberg.write import upsert_task
from sinkql.storage import spill
from support.index import live_entries
from upsert.keyed_sink import NAME, Sink, batch_of, create_table, duckdb_rows, pyiceberg_rows

pytestmark = [pytest.mark.long, pytest.mark.share(8)]

COLUMNS = {
    "name": StringType(), "number": LongType(), "amount": DecimalType(38, 2), "note": StringType(),
    "tags": ListType(10, StringType(), element_required=False),
    "sizes": StructType(
        NestedField(11, "items", ListType(12, LongType(), element_required=False), required=False),
        NestedField(13, "dimensions", IntegerType(), required=False),
    ),
}  # fmt: skip
TYPES = {
    "name": pa.string(), "number": pa.int64(), "amount": pa.decimal128(12, 2), "note": pa.string(),
    "tags": pa.list_(pa.string()),
    "sizes": pa.struct([("items", pa.list_(pa.int64())), ("dimensions", pa.int32())]),
    "$seq": pa.int64(), "$diff": pa.int64(),
}  # fmt: skip

WHOLE = PartitionSpec()
PARTS = PartitionSpec(
    PartitionField(4, 1000, TruncateTransform(5), "note_part"),  # changes while the key stays the same
    PartitionField(2, 1001, BucketTransform(2), "number_part"),
)

Key = tuple[str | None, int | None]
Row = tuple[Any, ...]


def _key(rng: random.Random) -> Key:
    name = rng.choice([None, "", "a", "é" * rng.randrange(20), f"name {rng.randrange(40)}"])
    return name, rng.choice([None, rng.randrange(12)])


def _value(rng: random.Random) -> Row:
    cents, note = rng.randrange(10**6), rng.choice([None, f"note {rng.randrange(1000)}"])
    tags = (None, [], ["a", None], [f"tag {cents}"] * (cents % 5))[cents % 4]
    sizes = (None, {"items": [], "dimensions": 0}, {"items": [cents, None], "dimensions": 1})[cents % 3]
    return Decimal(cents).scaleb(-2), note, tags, sizes


def _batch(rows: list[Row], last: Sequence[str], rng: random.Random) -> pa.Table:
    rng.shuffle(rows)
    names = [*COLUMNS, *last]
    return batch_of({name: [row[place] for row in rows] for place, name in enumerate(names)}, TYPES)


def _writes(rng: random.Random, model: dict[Key, Row], size: int) -> pa.Table:
    rows: list[Row] = []
    for seq in range(size):
        key, value = _key(rng), _value(rng)
        if rng.random() < 0.25:
            model.pop(key, None)
            rows.append((*key, *(None for _ in value), -1, seq))
        else:
            model[key] = value
            rows.append((*key, *value, 1, seq))
    return _batch(rows, ("$diff", "$seq"), rng)


def _changes(rng: random.Random, model: dict[Key, Row], size: int) -> pa.Table:
    rows: list[Row] = []
    for key in sorted({_key(rng) for _ in range(size)}, key=repr):
        before = model.pop(key, None)
        if before is not None:
            rows.append((*key, *before, -1))
        if before is None or rng.random() < 0.6:
            model[key] = _value(rng)
            rows.append((*key, *model[key], 1))
    return _batch(rows, ("$diff",), rng)


def _sorted(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=repr)


@pytest.mark.parametrize(
    ("version", "change", "granularity", "spec"),
    [
        (2, "upsert", "partition", WHOLE),
        (2, "upsert", "file", WHOLE),
        (2, "retract", "partition", WHOLE),
        (2, "retract", "file", WHOLE),
        (3, "upsert", "partition", WHOLE),
        (3, "retract", "partition", PARTS),
        (2, "retract", "partition", PARTS),
    ],
    ids=lambda value: ("parts" if value.fields else "whole") if isinstance(value, PartitionSpec) else str(value),
)
@pytest.mark.parametrize("batches", [21, pytest.param(36, marks=pytest.mark.soak)])
def test_table_holds_what_a_dict_holds(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    change: Any,
    granularity: str,
    spec: PartitionSpec,
    batches: int,
) -> None:
    # runs must be merged between changes of the number of buckets
    monkeypatch.setattr("sinkql.connectors.iceberg.write.upsert_task.TIERS", replace(TIERS, fan=3))
    files, deletes = replace(selection._LEAST.files, fan=5), replace(selection._LEAST.deletes, fan=6)
    monkeypatch.setattr(selection, "_LEAST", replace(selection._LEAST, files=files, deletes=deletes))
    monkeypatch.setattr(compaction, "_SLACK", 100)
    monkeypatch.setattr(reader, "_ROWS", 30)
    monkeypatch.setattr(reader, "_AT_ONCE", 10)
    rng, spilling = random.Random(f"{change} {granularity}"), random.Random(version)
    table = create_table(
        tmp_path, COLUMNS, {"format-version": str(version), "write.delete.granularity": granularity}, spec
    )
    sink = Sink(table, ("name", "number"), tmp_path / "index", change=change)
    model: dict[Key, Row] = {}
    lost = compacted = folded = meanwhile = spilled = 0
    for number in range(batches):
        size = rng.choice([0, 1, 30, 200])
        spilled += _may_spill(monkeypatch, often=spilling.random() < 0.5)
        sink.apply(_changes(rng, model, size) if change == "retract" else _writes(rng, model, size))
        if number % 9 == 8:
            sink.buckets = rng.choice([1, 2, 3, 5])
        if number == 20:
            sink.bucketing = "another"
        if number % 7 == 6:
            before = sink.places()
            if rng.random() < 0.5:
                (sink.folder / sink.name).unlink()
            found = sink.restart()
            sink.epoch += 1
            if found is None:
                lost += 1
                sink.recover_index()
            else:
                sink.index = found
            assert before == sink.places()
        if number % 6 == 5:
            expected = _sorted([(*key, *value) for key, value in model.items()])
            assert expected == _sorted(duckdb_rows(sink.table))
            assert expected == _sorted(pyiceberg_rows(sink.table))
            assert len(model) == live_entries(sink.index, sink.folder).rows
        _check_files(sink)
        if number % 8 == 4:
            _append(sink, model, f"theirs {number}")

        deeds = iter(rng.choices(["batch", "rebuild", "append", ""], weights=[6, 1, 1, 12], k=3))

        def between(deeds: Iterator[str] = deeds, name: str = f"between {number}") -> None:
            nonlocal meanwhile
            match next(deeds, ""):
                case "batch":
                    some = rng.choice([1, 30, 200])
                    sink.apply(_changes(rng, model, some) if change == "retract" else _writes(rng, model, some))
                case "rebuild":
                    sink.recover_index()
                case "append":
                    _append(sink, model, f"{name} {len(model)}")
                case _:
                    return
            meanwhile += 1

        if sink.compact(between):
            compacted += 1
            folded += any(run.name.startswith("base-") for run in sink.index.runs)
            _check_files(sink)
            assert sorted(sink.places()) == sorted(_rebuilt(sink).places())
    assert compacted > batches // 10
    assert folded > 0
    assert meanwhile > batches // 10
    assert sink.merged > 0
    assert lost > 0
    assert spilled > batches // 4
    assert len(model) == sum(file.rows - file.dead for file in sink.index.files.values())


def _may_spill(monkeypatch: pytest.MonkeyPatch, *, often: bool) -> bool:
    """Set whether the next batches spill to temporary files in small parts."""
    most, part, entries = (300, 1000, 10) if often else (1 << 20, 1 << 20, 1 << 20)
    monkeypatch.setattr(spill, "MOST", most)
    monkeypatch.setattr(spill, "PART", part)
    monkeypatch.setattr(partitioned_writer, "MOST", most)
    monkeypatch.setattr(upsert_task, "_MOST_IN_MEMORY", entries)
    for module in (upsert_task, run):
        monkeypatch.setattr(module, "MERGED_AT_ONCE", entries)
    return often


def _append(sink: Sink, model: dict[Key, Row], name: str) -> None:
    """Append rows as another program would."""
    rows: list[Row] = [(name, number, Decimal(number), None, [name], None) for number in range(3)]
    model.update({row[:2]: row[2:] for row in rows})
    arrow = schema_to_pyarrow(sink.table.schema(), include_field_ids=False)
    table = pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows], arrow)
    entries = [
        write_data_file(for_tasks(sink.table), f"{name}-{number}.parquet", table.take(pa.array(numbers)), place)
        for number, (place, numbers) in enumerate(divide(table, sink.table.schema(), sink.table.spec()))
    ]
    prepared = prepare(sink.table, FileChange(tuple(entries)), lambda snapshot, sequence: Notes({}, {}))
    sink.table.catalog.commit_table(sink.table, prepared.requirements, prepared.updates)
    sink.index.save(sink.folder)
    sink.catch_up()


def _rebuilt(sink: Sink) -> Sink:
    return Sink(sink.table, ("name", "number"), sink.folder.parent / "again" / uuid4().hex)


def _check_files(sink: Sink) -> None:
    """Check that the table has no file without live rows, except files that the next commit removes."""
    live = live_files(sink.table)
    assert sink.index.paths() == {*live.data, *live.deletes}
    assert all(file.dead < file.rows for file in sink.index.files.values())
    sorting = for_tasks(sink.table, key=[column.name for column in sink.key]).sorting
    for file in sink.index.files.values():
        rows = pq.read_table(file.path.removeprefix("file://"))
        if has_rows_of(file.path, NAME):
            assert sorted_numbers(rows, sorting).tolist() == list(range(rows.num_rows))
        assert [file.place] == [place for place, _ in divide(rows, sink.table.schema(), sink.table.spec())]
    there = {file.path for file in sink.index.files.values()}
    deletes = {note.path: note for note in sink.index.deletes.values()}
    partitions = Partitions(sink.table.metadata)
    places = {path: partitions.place_of(file) for path, file in {**live.data, **live.deletes}.items()}
    for path, note in deletes.items():
        named = read_dead(sink.table.io, path, live.deletes[path]).keys() & there
        assert note.targets == len(named) > 0
        assert {places[path]} == {places[each] for each in named}
    assert live.deletes.keys() - deletes.keys() <= set(sink.index.idle)
    if sink.table.metadata.format_version == 3:
        vectors = Counter(vector.file for file in live.deletes.values() if (vector := vector_of(file)))
        assert len(live.deletes) == vectors.total() == len(vectors)
        dead = {path: len(read_vector(sink.table.io, path)) for path in deletes}
        assert [file.dead for file in sink.index.files.values()] == [
            sum(dead[sink.index.deletes[number].path] for number in file.deletes) for file in sink.index.files.values()
        ]
