"""Keys crafted to collide under xxh3 with its public secret: each key still has its own row."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import xxhash
from pyiceberg.types import StringType

from sinkql.connectors.iceberg.key_index import change, rebuild
from sinkql.connectors.iceberg.key_index.index import Index
from sinkql.errors import SinkqlError
from sinkql.hash_key import HashKey
from sinkql.row_hash import hash_rows
from upsert.keyed_sink import Sink, batch_of, create_table, duckdb_rows

TYPES = {"id": pa.string(), "note": pa.string(), "$seq": pa.int64(), "$diff": pa.int64()}
_FLIP = (0x59973F0033362349).to_bytes(8, "little")
"""XOR of the words at offsets 32 and 40 of xxh3's default secret."""


def _crafted(count: int) -> Iterator[str]:
    """Yield pairs of 59-byte texts with equal xxh3-128 when encoded as key rows."""
    for number in range(count // 2):
        pair = [_text(*parts, f"{number:059}") for parts in ((120, 121), (121, 120))]
        assert len({xxhash.xxh3_128_digest(b"\1" + len(each).to_bytes(4, "little") + each) for each in pair}) == 1
        yield from (each.decode() for each in pair)


def _text(one: int, other: int, around: str) -> bytes:
    """Return a text with two words exchanged, except for XORs that xxh3 cancels."""
    left, right = bytearray(b"aaaa" + bytes([one]) + b"a\xc3\x81"), bytearray(8)
    for place, flip in enumerate(_FLIP):
        right[place] = left[place] ^ flip
    right[4] = other
    text = bytearray(around.encode())
    text[11:19], text[19:27], text[27] = left, right, 0xA9
    return bytes(text)


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return Sink(create_table(tmp_path, {"id": StringType(), "note": StringType()}), ("id",), tmp_path / "index")


def _rows(ids: list[str], note: str) -> pa.Table:
    return batch_of({"id": ids, "note": [note] * len(ids), "$seq": list(range(len(ids)))}, TYPES)


def test_crafted_keys_have_their_rows(sink: Sink) -> None:
    ids = list(_crafted(100))
    assert len(set(ids)) == 100
    sink.apply(_rows(ids, "a"))
    sink.apply(_rows(ids[:1], "b"))
    assert {(each, "b" if each == ids[0] else "a") for each in ids} == set(duckdb_rows(sink.table))


def test_keys_of_one_hash_are_told(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    flat = pa.array([1], pa.int64())
    sink.buckets = 1
    for module in (change, rebuild):
        monkeypatch.setattr(
            module, "hash_rows", lambda key, columns: hash_rows(key, [flat.take([0] * len(columns[0]))])
        )
    with pytest.raises(SinkqlError, match="have the same hash") as caught:
        sink.apply(_rows(["x", "y"], "a"))
    assert caught.value.code == "SQ3460"
    sink.table.append(pa.table({"id": ["x", "y"], "note": ["a", "a"]}))
    with pytest.raises(SinkqlError, match="have the same hash"):
        sink.recover_index()
    sink.table.delete()
    sink.table.append(pa.table({"id": ["x", "x"], "note": ["a", "a"]}))
    with pytest.raises(SinkqlError, match="has two rows with the key"):
        sink.recover_index()


def test_an_index_with_another_secret_is_not_used(sink: Sink) -> None:
    sink.apply(_rows(["x"], "a"))
    assert Index.load(sink.folder, sink.name, sink.key) is not None
    assert Index.load(sink.folder, sink.name, sink.key, hash_key=HashKey.new()) is None
