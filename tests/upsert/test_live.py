"""The live rows of files according to runs, and the runs that name no live file; both compared with a dict."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sinkql.connectors.iceberg.key_index import run
from sinkql.connectors.iceberg.key_index.compaction import compact_runs
from sinkql.connectors.iceberg.key_index.index import Index, Run
from sinkql.connectors.iceberg.key_index.layer import FileRecord, Layer
from sinkql.connectors.iceberg.key_index.run import TOMBSTONE, Entries, live_rows, lives, map_run, probe, write_run

Places = dict[tuple[int, int], tuple[int, int]]


def entries(rows: Places) -> Entries:
    keys = sorted(rows)
    columns = [[key[0] for key in keys], [key[1] for key in keys], *zip(*(rows[key] for key in keys), strict=True)]
    kinds = (np.uint64, np.uint64, np.uint32, np.uint32)
    return Entries._make(np.array(column, kind) for column, kind in zip(columns, kinds, strict=True))


def rows_of(found: Entries) -> Places:
    places = zip(found.file.tolist(), found.pos.tolist(), strict=True)
    return dict(zip(zip(found.h1.tolist(), found.h2.tolist(), strict=True), places, strict=True))


def span(run: Entries) -> tuple[int, int]:
    named = run.file[run.file != TOMBSTONE]
    return (int(named.min()), int(named.max())) if len(named) else (1, 0)


def changes(rng: random.Random, file: int, rows: int) -> Places:
    """Return the entries of a commit: positions in its file, and tombstones of deleted keys."""
    top = 1 << 63  # hashes use all 64 bits
    keys = {(top + rng.randrange(60), rng.randrange(5)) for _ in range(rows)}
    return {key: (int(TOMBSTONE), 0) if rng.random() < 0.2 else (file, at) for at, key in enumerate(sorted(keys))}


@pytest.mark.parametrize("seed", range(8))
def test_live_rows_of_files_are_those_that_a_dict_has(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_AT_ONCE", 7)
    rng = random.Random(seed)
    model: Places = {}
    runs: list[Entries] = []
    for file in range(12):
        said = changes(rng, file, rng.choice([3, 40, 150]))
        model.update(said)
        runs.insert(0, entries(said))
    files = set(rng.sample(range(12), 5))
    known = [(run, Run("r", run.rows, files=span(run)).may_name(files)) for run in runs]
    found = live_rows(known, files)
    assert rows_of(found) == {key: place for key, place in model.items() if place[0] in files}
    assert [*zip(found.h1.tolist(), found.h2.tolist(), strict=True)] == sorted(rows_of(found))

    later = [entries(changes(rng, file, rng.choice([3, 40, 400]))) for file in (13, 12)]
    later.append(found.take(np.arange(0, found.rows, 3)))  # a merged run repeats entries of older runs
    where, at = probe([*later, *runs], found.h1, found.h2)
    assert lives(found, later).tolist() == ((where == found.file) & (at == found.pos)).tolist()
    assert not live_rows(known, ()).rows


def test_oldest_runs_that_name_only_files_that_are_gone_are_left_out(tmp_path: Path) -> None:
    rng = random.Random(3)
    model: Places = {}
    runs: list[Run] = []
    for file in range(6):
        said = changes(rng, file, 80)
        if file == 5:  # rewrites all live keys except the keys of file 3
            said |= {key: (5, at) for at, (key, place) in enumerate(model.items()) if place[0] in (0, 1, 2, 4)}
        model.update(said)
        run = entries(said)
        write_run(tmp_path / f"{file}.run", run.rows, [run])
        runs.insert(0, Run(f"{file}.run", run.rows, 0, 2, "", files=span(run)))
    alive = {key: place for key, place in model.items() if place[0] != int(TOMBSTONE)}
    assert {file for file, _ in alive.values()} == {3, 5}
    rows = {file: sum(place[0] == file for place in alive.values()) for file in (3, 5)}
    layer = Layer({file: FileRecord(f"f{file}", count) for file, count in rows.items()})
    index = Index("s", 1, "c", (), runs=tuple(runs), layers=(layer,))

    after = compact_runs(index, tmp_path, "base")
    assert [run.name for run in after.runs] == ["5.run", "4.run", "3.run"]
    found = live_rows([(map_run(tmp_path / run.name), True) for run in after.runs], (3, 5))
    assert rows_of(found) == alive

    unknown = replace(index, runs=(*runs[:-1], replace_files(runs[-1])))
    assert compact_runs(unknown, tmp_path, "other").runs == unknown.runs


def replace_files(run: Run) -> Run:
    """Return a run with an unknown set of files."""
    return Run(run.name, run.rows, run.bucket, run.buckets, run.bucketing)
