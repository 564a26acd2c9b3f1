"""Write reproducible data as JSON lines: events for appends, base rows and changes for upserts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

EVENT_COLUMNS = {
    "id": "bigint", "user_id": "bigint", "qty": "integer", "price": "double precision",
    "discount": "double precision", "sku": "text", "country": "text", "note": "text", "ts": "timestamptz",
    "active": "boolean",
}  # fmt: skip
SPARK_EVENTS = (
    "id BIGINT, user_id BIGINT, qty INT, price DOUBLE, discount DOUBLE, sku STRING, country STRING, note STRING, "
    "ts TIMESTAMP, active BOOLEAN"
)
ROW_COLUMNS = {"id": "bigint", "qty": "integer", "price": "double precision", "name": "text", "seq": "bigint"}
SPARK_ROWS = "id BIGINT, qty INT, price DOUBLE, name STRING, seq BIGINT"
_COUNTRIES = ("DE", "FR", "US", "GB", "JP", "BR", "IN", "ZA")


def write_events(folder: Path, rows: int, files: int) -> None:
    """Write `rows` events of ten columns, about 170 bytes each, into `files` files."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    for number, part in enumerate(np.array_split(np.arange(rows), files)):
        users, qty = random.integers(0, 1_000_000, len(part)), random.integers(1, 100, len(part))
        cents, percent = random.integers(100, 100_000, len(part)), random.integers(0, 50, len(part))
        with (folder / f"events-{number:03}.json").open("w") as out:
            out.writelines(
                f'{{"id":{i},"user_id":{user},"qty":{q},"price":{price / 100},"discount":{off / 100},'
                f'"sku":"sku-{user % 50000:05}","country":"{_COUNTRIES[i % 8]}","note":"order {i} of user {user}",'
                f'"ts":"2026-01-{i % 28 + 1:02}T{i % 24:02}:{i % 60:02}:{i % 59:02}.{i % 1000000:06}Z",'
                f'"active":{"true" if i % 3 else "false"}}}\n'
                for i, user, q, price, off in zip(
                    part.tolist(), users.tolist(), qty.tolist(), cents.tolist(), percent.tolist(), strict=True
                )
            )


def write_base(folder: Path, rows: int, files: int) -> None:
    """Write rows with the keys 0 to `rows` - 1."""
    for number, part in enumerate(np.array_split(np.arange(rows), files)):
        write_rows(folder / f"base-{number:03}.json", part, 0)


def write_changes(folder: Path, batch: int, changes: int, keys: int) -> None:
    """Write a file of changes with uniformly random keys, one in ten of them new.

    The last change of a key wins.
    """
    random = np.random.default_rng(100 + batch)
    write_rows(
        folder / f"change-{batch:03}.json", random.integers(0, keys * 10 // 9, changes), (batch + 1) * 10_000_000
    )


def write_rows(path: Path, ids: np.ndarray[tuple[int], np.dtype[np.int64]], seq: int) -> None:
    """Write one row for each id; `seq` increases from row to row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as out:
        out.writelines(
            f'{{"id":{i},"qty":{(i * 7 + seq + n) % 1000},"price":{(i + n) % 10000 / 100},"name":"name of {i}",'
            f'"seq":{seq + n}}}\n'
            for n, i in enumerate(ids.tolist())
        )
