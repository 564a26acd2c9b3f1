"""Generators return the same rows for the same ticks, in any splits, batches and processes."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from generator import made

_NAMES = sorted(made.readers())


@pytest.mark.parametrize("name", _NAMES)
def test_parts_put_together_are_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = made.readers()[name]
    whole = made.table(reader)
    monkeypatch.setattr("sinkql.connectors.generator.reader._BATCH_ROWS", 97)
    monkeypatch.setattr("sinkql.connectors.generator.reader._SPLIT_ROWS", 1009)
    parts = made.table(reader)
    assert whole.num_rows
    order = [(column, "ascending") for column in whole.column_names]
    assert whole.sort_by(order).equals(parts.sort_by(order))


@pytest.mark.parametrize("name", made.RETRACTING)
def test_batches_take_back_just_what_is_there_and_lead_to_the_same_rows(name: str) -> None:
    reader, random = made.readers()[name], Random(name)
    last = made.end(reader)
    crossing = last // 4  # for the first batch from initial rows to a state with many changes
    cuts = sorted({0, 1, 2, 25, crossing, *random.sample(range(2 * last // 5, last), 5), last})
    contents: Counter[made.Row] = Counter()
    for start, stop in pairwise(cuts):
        contents = made.after(contents, made.rows(reader, start, stop))
        assert set(contents.values()) == {1}
        assert made.after({}, made.rows(reader, 0, stop)) == contents


@pytest.mark.parametrize("name", sorted({*_NAMES} - {*made.RETRACTING}))
def test_batches_of_rows_that_only_come_are_the_whole(name: str) -> None:
    reader = made.readers()[name]
    last = made.end(reader)
    cuts = (0, last // 3, last // 2, last)
    parts = [row for start, stop in pairwise(cuts) for row in made.rows(reader, start, stop)]
    assert sorted(parts) == sorted(made.rows(reader, 0, last))


def digest() -> str:
    """Return a digest of rows of all sources."""
    found = hashlib.sha256()
    for name, reader in sorted(made.readers().items()):
        rows = made.table(reader)
        found.update(f"{name} {rows.take(list(range(0, len(rows), 1 + len(rows) // 100))).to_pylist()}".encode())
    return found.hexdigest()


@pytest.mark.long
def test_another_process_gives_the_same_rows() -> None:
    program = "from generator.test_replay import digest; print(digest())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == digest()


def test_another_seed_gives_other_rows() -> None:
    other = made.readers(made.SOURCES.replace("SEED 5", "SEED 6"))
    mine = made.readers()
    for name in ("auctions", "bids", "impressions", "leads", "lineitem", "kv"):
        assert made.table(other[name]) != made.table(mine[name])
