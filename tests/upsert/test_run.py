"""Sorted runs: lookups, merges and the schedule of merges."""

import os
import random
from pathlib import Path

import numpy as np
import pytest

from sinkql.connectors.iceberg.key_index.run import (
    TIERS,
    TOMBSTONE,
    Entries,
    map_run,
    merge,
    probe,
    size_of,
    write_run,
)
from sinkql.errors import SinkqlError

FAN, BASE_KEYS = TIERS.fan, 1 << 22


def _entries(rows: dict[tuple[int, int], tuple[int, int]]) -> Entries:
    keys = sorted(rows)
    columns = [[key[0] for key in keys], [key[1] for key in keys], *zip(*(rows[key] for key in keys), strict=True)]
    kinds = (np.uint64, np.uint64, np.uint32, np.uint32)
    return Entries._make(np.array(column, kind) for column, kind in zip(columns, kinds, strict=True))


def _gone(file: int) -> bool:
    return file == int(TOMBSTONE)


def test_probe_and_merge_agree_with_dicts_also_where_h1_collides(tmp_path: Path) -> None:
    rng = random.Random(5)
    runs: list[Entries] = []
    model: dict[tuple[int, int], tuple[int, int]] = {}
    top = 1 << 63  # hashes use all 64 bits
    for number in range(12):
        chosen = {(top + rng.randrange(40), rng.randrange(4)) for _ in range(rng.randrange(1, 60))}
        rows = {key: (rng.choice([number, int(TOMBSTONE)]), rng.randrange(99)) for key in chosen}
        model.update(rows)
        path = tmp_path / f"{number}.run"
        write_run(path, len(rows), [_entries(rows)])
        runs.insert(0, map_run(path))
        keys = [(top + h1, h2) for h1 in range(41) for h2 in range(5)]
        asked = [np.array(half, np.uint64) for half in zip(*keys, strict=True)]
        files, positions = probe(runs, asked[0], asked[1])
        found = dict(zip(keys, zip(files.tolist(), positions.tolist(), strict=True), strict=True))
        live = {key: place for key, place in model.items() if not _gone(place[0])}
        assert live == {key: place for key, place in found.items() if not _gone(place[0])}
        whole = merge(runs, keep_tombstones=True)
        assert model == dict(zip(zip(*map(np.ndarray.tolist, whole[:2])), zip(*map(np.ndarray.tolist, whole[2:]))))  # noqa: B905  # equal lengths
        assert len(live) == merge(runs, keep_tombstones=False).rows


def test_run_written_in_parts_is_the_run_written_at_once(tmp_path: Path) -> None:
    entries = _entries({(number, 7): (1, number) for number in range(100)})
    once, parts = tmp_path / "once/a.run", tmp_path / "parts/a.run"
    write_run(once, 100, [entries])
    write_run(parts, 100, [entries.take(np.arange(0, 33)), entries.take(np.arange(33, 100))])
    assert once.read_bytes() == parts.read_bytes()
    with pytest.raises(ValueError, match="33 entries, expected 100"):
        write_run(tmp_path / "short.run", 100, [entries.take(np.arange(0, 33))])


@pytest.mark.parametrize("size", [0, 63, 64, size_of(10) - 1, size_of(10) + 1])
def test_torn_run_is_refused(tmp_path: Path, size: int) -> None:
    path = tmp_path / "torn.run"
    write_run(path, 10, [_entries({(number, 0): (0, number) for number in range(10)})])
    whole = path.read_bytes()
    path.write_bytes((whole + b"\0")[:size])
    with pytest.raises(SinkqlError, match="is damaged") as caught:
        map_run(path)
    assert caught.value.code == "SQ3411"


def test_no_changed_byte_goes_unnoticed(tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    write_run(path, 10, [_entries({(number, 0): (0, number) for number in range(10)})])
    write_run(tmp_path / "b.run", 10, [_entries({(number, 0): (1, number) for number in range(10)})])
    data = path.read_bytes()
    others = [data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :] for at in range(len(data))]
    for number, other in enumerate([(tmp_path / "b.run").read_bytes(), *others]):
        path.unlink()
        path.write_bytes(other)
        os.utime(path, ns=(number, number))
        with pytest.raises(SinkqlError, match=r'"a\.run" is damaged'):
            map_run(path)
    path.write_bytes(data)
    assert map_run(path).rows == 10


def test_runs_are_never_replaced(tmp_path: Path) -> None:
    entries = _entries({(1, 1): (1, 1)})
    write_run(tmp_path / "a.run", 1, [entries])
    with pytest.raises(FileExistsError):
        write_run(tmp_path / "a.run", 1, [entries])


def test_merges_wait_for_enough_runs_of_a_size() -> None:
    assert TIERS.due([100] * (FAN - 1)) == 0
    assert TIERS.due([100] * FAN) == FAN
    assert TIERS.due([100_000] * FAN + [900_000]) == FAN
    assert TIERS.due([100_000] * FAN + [700_000]) == FAN + 1
    assert TIERS.due([100_000] * (FAN - 1) + [2_000_000] * 20) == 0


def test_merges_never_touch_a_base() -> None:
    assert TIERS.due([1_000_000] * FAN + [BASE_KEYS]) == FAN
    assert TIERS.due([1_000_000] * (FAN - 1) + [BASE_KEYS] * FAN) == 0


@pytest.mark.parametrize(("batch", "keys"), [(10, 1 << 62), (50_000, 4_000_000), (50_000, 1 << 62)])
def test_runs_stay_few_and_entries_are_rewritten_few_times(batch: int, keys: int) -> None:
    sizes: list[int] = []
    written = 0
    for _ in range(2000):
        sizes.insert(0, batch)
        length = TIERS.due(sizes)
        if length:
            sizes[:length] = [min(keys, sum(sizes[:length]))]
            written += sizes[0]
    assert len([size for size in sizes if size < BASE_KEYS]) <= 2 * FAN
    small = 2000 // FAN * (1 << 14)  # smaller runs are merged whatever their sizes: it costs little
    assert written <= 2000 * batch * 4 + small
