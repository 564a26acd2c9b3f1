"""Measure writing a data file with dictionaries for repeating values, and with a dictionary for every column.

    python -m bench.parquet [--rows 524288]

Prints the CPU milliseconds and the bytes a row of both.
"""

from __future__ import annotations

import argparse
import io
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.common import show
from sinkql.connectors.iceberg.file.data_file import ROW_GROUP_ROWS, repeating

_RUNS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2 * ROW_GROUP_ROWS)
    rows = _rows(parser.parse_args().rows)
    found: dict[str, tuple[float, int]] = {}
    for _ in range(_RUNS):
        for name in ("where values repeat", "everywhere"):
            began = time.process_time()
            size = _write(rows, repeating(rows) if name != "everywhere" else True)
            cost = time.process_time() - began
            found[name] = min(found.get(name, (cost, size)), (cost, size))
    show(
        [
            ("dictionary", "CPU-ms", "bytes a row"),
            *((name, f"{cost * 1000:,.0f}", f"{size / len(rows):.1f}") for name, (cost, size) in found.items()),
        ]
    )


def _write(rows: pa.Table, dictionary: bool | list[str]) -> int:
    out = io.BytesIO()
    pq.write_table(
        rows, out, row_group_size=ROW_GROUP_ROWS, compression="zstd", compression_level=1, use_dictionary=dictionary
    )
    return out.tell()


def _rows(count: int) -> pa.Table:
    random = np.random.default_rng(1)
    users = random.integers(0, 1_000_000, count)
    return pa.table(
        {
            "id": np.arange(count),
            "user_id": users,
            "qty": random.integers(1, 100, count),
            "price": random.integers(100, 100_000, count) / 100,
            "country": np.array(["DE", "FR", "US", "GB"])[users % 4],
            "note": [f"order {number} of user {user}" for number, user in enumerate(users.tolist())],
        }
    )


if __name__ == "__main__":
    main()
