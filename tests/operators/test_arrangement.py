"""Runs return the rows that were added, through compactions and hash collisions."""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sinkql.errors import SinkqlError
from sinkql.runtime.state.arrangement import KeyedRuns, MultisetRuns, RunLocation, bucket_folder, merge_start
from sinkql.runtime.state.run import Entry, RunWriter, _digest, open_run


def write_run(path: Path, table: pa.Table) -> Entry:
    writer = RunWriter(path)
    writer.add(table)
    written = writer.close()
    assert written is not None
    return written[0]


def place(folder: Path, batch: int, bucket: int = 0) -> RunLocation:
    return RunLocation(folder, bucket, f"1-c{batch}-t")


def values_table(rows: dict[tuple[int, int], int]) -> pa.Table:
    keys = sorted(rows)
    return pa.table(
        {
            "$h1": pa.array([key for key, _ in keys], pa.uint64()),
            "$h2": pa.array([hash_ for _, hash_ in keys], pa.int64()),
            "$count": pa.array([rows[key] for key in keys], pa.int64()),
        }
    )


def find(values: KeyedRuns, asked: list[tuple[int, int]]) -> dict[tuple[int, int], int | None]:
    asked = sorted(asked)
    keys = np.array([key for key, _ in asked], np.uint64)
    found = values.find(keys, np.array([hash_ for _, hash_ in asked], np.int64))
    return dict(zip(asked, found.column("$count", pa.int64()).to_pylist(), strict=True))


def test_newest_run_wins_though_first_hashes_collide(tmp_path: Path) -> None:
    rng = random.Random(1)
    entries: list[Entry] = []
    model: dict[tuple[int, int], int] = {}
    merged = 0
    for batch in range(40):
        # few distinct h1, including the maximum, so that most keys collide
        rows = {(rng.choice([0, 7, 2**64 - 1]), rng.randint(-3, 3)): rng.randint(0, 5) for _ in range(6)}
        values = KeyedRuns(place(tmp_path, batch), entries)
        values.put(values_table(rows))
        values.close()
        model |= rows
        asked = [(key, hash_) for key in (0, 7, 2**64 - 1) for hash_ in range(-4, 5)]
        found = find(KeyedRuns(place(tmp_path, batch + 1), values.entries), asked)
        assert {key: model.get(key, 0) for key in asked} == {key: count or 0 for key, count in found.items()}
        entries = values.entries
        merged = max(merged, *(run["merges"] for run in entries))
    assert merged >= 2


def test_tombstones_go_when_all_runs_are_merged(tmp_path: Path) -> None:
    values = KeyedRuns(place(tmp_path, 0), [])
    values.put(values_table({(1, 1): 3}))
    values.close()
    values = KeyedRuns(place(tmp_path, 1), values.entries)
    values.put(values_table({(1, 1): 0}))
    values.close()
    assert values.entries == []


def test_row_of_an_aggregate_without_groups_is_no_tombstone(tmp_path: Path) -> None:
    values = KeyedRuns(place(tmp_path, 0), [], keeps_empty=True)
    values.put(values_table({(0, 0): 3}))
    values.close()
    values = KeyedRuns(place(tmp_path, 1), values.entries, keeps_empty=True)
    values.put(values_table({(0, 0): 0}))
    values.close()
    assert find(KeyedRuns(place(tmp_path, 2), values.entries), [(0, 0)]) == {(0, 0): 0}


def multiset_table(rows: Counter[tuple[int, int, int]]) -> pa.Table:
    ordered = sorted(row for row in rows if rows[row])
    return pa.table(
        {
            "$p": pa.array([packed for packed, _, _ in ordered], pa.uint64()),
            "$h2": pa.array([hash_ for _, hash_, _ in ordered], pa.int64()),
            "$r": pa.array([row for _, _, row in ordered], pa.int64()),
            "$diff": pa.array([rows[row] for row in ordered], pa.int64()),
            "$v": pa.array([f"v{row[2]}" for row in ordered], pa.string()),
        }
    )


def test_multiplicities_add_up_though_hashes_collide(tmp_path: Path) -> None:
    rng = random.Random(2)
    entries: list[Entry] = []
    model: Counter[tuple[int, int, int]] = Counter()
    for batch in range(40):
        delta: Counter[tuple[int, int, int]] = Counter()
        for _ in range(8):
            low = rng.randint(0, 2)
            # equal low halves with different row hashes, and equal high halves with different second hashes
            row = ((rng.choice([0, 5, 2**32 - 1]) << 32) | low, rng.randint(0, 1), low | rng.randint(0, 1) << 32)
            delta[row] += rng.choice([1, 2, -1])
        multiset = MultisetRuns(place(tmp_path, batch, bucket=1), entries)
        asked = sorted(delta)
        packed, hashes, row_hashes = zip(*asked, strict=True)
        before = multiset.count(np.array(packed, np.uint64), np.array(hashes), np.array(row_hashes))
        assert [model[row] for row in asked] == before.tolist()
        model.update(delta)
        assert all_rows(multiset, model, multiset_table(delta)) == by_key(model)
        multiset.put(multiset_table(delta))
        multiset.close()
        entries = multiset.entries
    assert max(run["merges"] for run in entries) >= 2


def by_key(model: Counter[tuple[int, int, int]]) -> dict[tuple[int, int], dict[int, int]]:
    found: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for (packed, hash_, row), count in model.items():
        if count:
            found[packed >> 32, hash_][row] = count
    return found


def all_rows(
    multiset: MultisetRuns, model: Counter[tuple[int, int, int]], extra: pa.Table
) -> dict[Any, dict[int, int]]:
    keys = sorted({(packed >> 32, hash_) for packed, hash_, _ in model})
    high = np.array([key << 32 for key, _ in keys], np.uint64)
    owner, rows = multiset.rows_of(high, np.array([hash_ for _, hash_ in keys], np.int64), extra)
    found: dict[Any, dict[int, int]] = defaultdict(dict)
    for place_, row in zip(owner, rows.to_pylist(), strict=True):
        assert f"v{row['$r']}" == row["$v"]
        found[keys[place_]][row["$r"]] = row["$diff"]
    return found


def test_buckets_do_not_all_merge_in_one_batch(tmp_path: Path) -> None:
    merged: dict[int, list[int]] = defaultdict(list)
    for bucket in range(4):
        entries: list[Entry] = []
        for batch in range(24):
            values = KeyedRuns(place(tmp_path / f"b{bucket}", batch, bucket), entries)
            values.put(values_table({(batch, 0): 1}))
            values.close()
            if values.entries[-1]["merges"]:
                merged[batch].append(bucket)
            entries = values.entries
        assert len(entries) <= 4
    assert max(len(buckets) for buckets in merged.values()) <= 2


def test_rows_that_were_replaced_are_never_more_than_half_of_what_is_there() -> None:
    entries: list[Entry] = [{"rows": 100_000, "merges": 1}]
    most, rewritten = 0, 0
    for _ in range(200):
        entries.append({"rows": 2_000, "merges": 0})
        while (start := merge_start(entries, 0)) is not None:
            rows = 100_000 if start == 0 else sum(int(each["rows"]) for each in entries[start:])
            entries[start:] = [{"rows": rows, "merges": 1}]
            rewritten += rows
        most = max(most, sum(int(each["rows"]) for each in entries))
    assert most < 100_000 * 1.5 + 3 * 2_000
    assert rewritten < 200 * 2_000 * 6, "rows were rewritten too often"
    assert merge_start([{"rows": 3, "merges": 1}, *[{"rows": 1, "merges": 1}] * 2], 0) is None
    growing: list[Entry] = [{"rows": 3_000, "merges": 1}, *[{"rows": 500, "merges": 1}] * 3]
    assert (merge_start(growing, 0), merge_start(growing, 0, grows=True)) == (0, None)


def test_run_is_never_written_over(tmp_path: Path) -> None:
    table = values_table({(1, 1): 1})
    write_run(tmp_path / "1-a-b.arrow", table)
    with pytest.raises(SinkqlError) as caught:
        write_run(tmp_path / "1-a-b.arrow", table)
    assert caught.value.code == "SQ3409"


@pytest.mark.parametrize("damage", ["gone", "torn", "grown", "other", "swapped"])
def test_damaged_run_is_refused(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "1-a-b.arrow"
    entry = write_run(path, values_table({(1, 1): 1}))
    if damage == "gone":
        path.unlink()
    elif damage == "torn":
        path.write_bytes(path.read_bytes()[:-10])
    elif damage == "grown":
        path.write_bytes(path.read_bytes() + b"x")
    elif damage == "swapped":
        wider = values_table({(1, 1): 1}).append_column("more", pa.array(["of the same number of rows"]))
        path.unlink()
        write_run(path, wider)
    else:
        path.write_bytes(b"x" * entry["bytes"])
    with pytest.raises(SinkqlError) as caught:
        open_run(tmp_path, entry)
    assert caught.value.code == "SQ3404"


@pytest.mark.parametrize("pieces", [1, 3])
def test_no_changed_byte_of_a_run_goes_unnoticed(pieces: int, tmp_path: Path) -> None:
    path = tmp_path / "1-a-b.arrow"
    writer = RunWriter(path)
    for piece in range(pieces):
        writer.add(values_table({(number + piece << 40, number): number for number in range(10)}))
    entry, _ = writer.close() or pytest.fail("the run has no rows")
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
        os.utime(path, ns=(at, at))
        with pytest.raises(SinkqlError, match=r'"1-a-b\.arrow" is missing or damaged'):
            open_run(tmp_path, entry)
    path.write_bytes(data)
    open_run(tmp_path, entry)


def test_digest_is_of_values_and_not_of_their_layout() -> None:
    plain = pa.table({"a": ["x", None, "yz"], "b": [True, False, None], "c": pa.array([1, None, 3], pa.int64())})
    longer = pa.concat_tables([pa.table({"a": ["zz"], "b": [True], "c": pa.array([9], pa.int64())}), plain])
    dirty = pa.array(np.array([1, 77, 3]), mask=np.array([False, True, False]))
    assert _digest(plain) == _digest(longer.slice(1))
    nested = pa.table({"a": [[1], None, [2, None], []], "b": [{"x": "a"}, {"x": None}, None, {"x": "b"}]})
    assert _digest(nested.slice(2)) == _digest(pa.concat_tables([nested.slice(2, 1), nested.slice(3)]))
    assert _digest(nested.slice(2)) == _digest(pa.table(nested.slice(2).to_pydict(), schema=nested.schema))
    assert _digest(plain) == _digest(plain.set_column(2, "c", dirty))
    assert _digest(plain) != _digest(plain.set_column(2, "c", pa.array([1, 0, 3], pa.int64())))
    assert _digest(plain) != _digest(plain.set_column(0, "a", pa.array(["x", "yz", None])))
    assert _digest(plain) != _digest(plain.set_column(0, "a", pa.array(["xy", None, "z"])))


def test_arrangement_with_a_name_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.\./a"):
        bucket_folder(tmp_path, "../a", 0)
