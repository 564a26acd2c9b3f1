"""Measure the key index on this machine: keys hashed, probed and merged per CPU-second."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from sinkql.connectors.iceberg.key_index.run import Entries, map_run, merge, probe, write_run
from sinkql.hash_key import HashKey
from sinkql.row_hash import hash_rows
from sinkql.storage.sorted_run import sort_indices

KEYS = 1_000_000
BASE = 5_000_000
BATCH = 50_000


def main() -> None:
    """Measure hashing by key shape, probing one large and eight small runs, and merging the small runs."""
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 1 << 60, KEYS)
    texts = pa.array([f"user-{number:019d}" for number in numbers])
    decimals = pa.array([Decimal(int(number)).scaleb(-2) for number in numbers], pa.decimal128(38, 2))
    shapes = {
        "bigint": [pa.array(numbers)],
        "bigint, a tenth of them NULL": [pa.array(numbers, mask=rng.random(KEYS) < 0.1)],
        "text": [texts],
        "numeric": [decimals],
        "bigint and text": [pa.array(numbers), texts],
    }
    for name, columns in shapes.items():
        print(f"hash {name}: {_rate(KEYS, partial(hash_rows, HashKey(), columns))} M keys/CPU-s")
    with tempfile.TemporaryDirectory() as folder:
        runs = [_run(Path(folder), number, BASE if number == 0 else BATCH) for number in range(9)][::-1]
        chosen = np.sort(rng.choice(BASE, 2 * BATCH, replace=False))
        h1, h2 = runs[-1].h1[chosen], runs[-1].h2[chosen]
        print(f"probe 8 runs of {BATCH} and one of {BASE}: {_rate(len(h1), lambda: probe(runs, h1, h2))} M keys/CPU-s")
        merged = _rate(8 * BATCH, lambda: merge(runs[:8], keep_tombstones=True))
        print(f"merge 8 runs of {BATCH}: {merged} M keys/CPU-s")


def _run(folder: Path, number: int, rows: int) -> Entries:
    h1, h2 = hash_rows(HashKey(), [pa.array(np.arange(rows) + number * BASE)])
    order = sort_indices(h1, h2)
    entries = Entries(h1[order], h2[order], np.full(rows, number, np.uint32), order.astype(np.uint32))
    write_run(folder / f"{number}.run", rows, [entries])
    return map_run(folder / f"{number}.run")


def _rate(count: int, work: Callable[[], object]) -> float:
    """Return millions per CPU-second, the best of five."""
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return round(count / best / 1e6, 1)


if __name__ == "__main__":
    main()
