"""Read Parquet files whose footers or pages are random or changed, in a process that they may crash.

`python -m files.footers FIRST COUNT` reads a file for each seed, which must yield rows or the error for damage.
"""

from __future__ import annotations

import io
import random
import sys

import pyarrow as pa
import pyarrow.parquet as pq

from sinkql import physical
from sinkql.connector_api.stream.decoding import UndecodableError
from sinkql.connectors.files.typed_formats import parquet_rows
from sinkql.connectors.iceberg.file.reader import _batch_rows, opened
from sinkql.connectors.iceberg.file_damage import damage_as_error
from sinkql.errors import SinkqlError
from sinkql.logical.type import BIGINT, TEXT

_COLUMNS = (physical.Column("id", BIGINT), physical.Column("v", TEXT))


def made(chance: random.Random) -> bytes:
    """Return a Parquet file with several types and encodings."""
    count = chance.choice((0, 1, 10, 100))
    numbers = range(count)
    table = pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "v": pa.array([str(each % 3) for each in numbers]),
            "list": pa.array([[each, None] for each in numbers], pa.list_(pa.int32())),
            "record": pa.array([{"a": each} for each in numbers], pa.struct([("a", pa.int32())])),
            "nothing": pa.nulls(count, pa.decimal128(20, 2)),
            "at": pa.array(numbers, pa.timestamp("us")),
        }
    )
    out = io.BytesIO()
    pq.write_table(
        table, out, row_group_size=40, compression=chance.choice(("zstd", "snappy", "none")),
        store_schema=chance.random() < 0.5, write_page_checksum=chance.random() < 0.5,
    )  # fmt: skip
    return out.getvalue()


def changed(chance: random.Random, data: bytes) -> bytes:
    """Return a file with a change, mostly in its footer."""
    cut = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    body, footer = bytearray(data[:cut]), bytearray(data[cut:-8])
    match chance.choice(("random", "flip", "flip", "flip", "less", "extremes", "pages")):
        case "random":
            footer = bytearray(chance.randbytes(chance.randrange(1, 400)))
        case "flip":
            for _ in range(chance.choice((1, 1, 1, 3))):
                footer[chance.randrange(len(footer))] ^= 1 << chance.randrange(8)
        case "less":
            at = chance.randrange(len(footer))
            del footer[at : at + chance.randrange(1, 20)]
        case "extremes":
            for _ in range(3):
                footer[chance.randrange(len(footer))] = chance.choice((0, 127, 128, 255))
        case _:
            for _ in range(3):
                body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
    return bytes(body + footer) + len(footer).to_bytes(4, "little") + b"PAR1"


def read(data: bytes) -> None:
    """Read a file like a source of files does, and like a data file of a table."""
    try:
        for each in parquet_rows(_COLUMNS).decode(io.BytesIO(data)):
            each.batch.validate(full=True)
    except UndecodableError:
        pass
    try:
        with damage_as_error("a.parquet"):
            stream = pa.BufferReader(data)
            file, groups = opened(stream, "a.parquet")
            for batch in file.iter_batches(_batch_rows(groups)):
                batch.validate(full=True)
    except SinkqlError as error:
        if error.code != "SQ3530":
            raise


def main() -> None:
    first, count = map(int, sys.argv[1:])
    for seed in range(first, first + count):
        print(seed, flush=True)
        chance = random.Random(seed)
        read(changed(chance, made(chance)))


if __name__ == "__main__":
    main()
