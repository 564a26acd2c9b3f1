"""Key hashes are part of the index's format: they never change, and nothing but the key decides them."""

import json
import random
from datetime import date, datetime, time
from decimal import Context, Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)  # fmt: skip
from xxhash import xxh3_128_hexdigest

from sinkql.connectors.iceberg.keyindex.keyhash import hash_keys

VECTORS = json.loads(Path(__file__).with_name("keyhash.json").read_text())

TYPES: dict[str, PrimitiveType] = {
    "boolean": BooleanType(), "int": IntegerType(), "long": LongType(), "date": DateType(), "time": TimeType(),
    "timestamp": TimestampType(), "timestamptz": TimestamptzType(), "string": StringType(), "binary": BinaryType(),
    "uuid": UUIDType(), "decimal(38,10)": DecimalType(38, 10), "decimal(5,2)": DecimalType(5, 2),
}  # fmt: skip


def _value(type_: str, text: Any) -> Any:
    if text is None:
        return None
    parsers: dict[str, Any] = {
        "date": date.fromisoformat, "time": time.fromisoformat, "timestamp": datetime.fromisoformat,
        "timestamptz": datetime.fromisoformat, "binary": bytes.fromhex, "uuid": bytes.fromhex,
    }  # fmt: skip
    return Decimal(text) if type_.startswith("decimal") else parsers.get(type_, lambda same: same)(text)


def _arrow(type_: str) -> pa.DataType:
    if type_ == "uuid":
        return pa.binary(16)
    return schema_to_pyarrow(Schema(NestedField(1, "key", TYPES[type_]))).field("key").type


def _columns(types: list[str], keys: list[list[Any]]) -> list[pa.Array]:
    return [
        pa.array([_value(type_, key[place]) for key in keys], _arrow(type_)) for place, type_ in enumerate(types)
    ]  # fmt: skip


def _hashes(columns: list[Any]) -> list[str]:
    return [f"{h1:016x}{h2:016x}" for h1, h2 in zip(*hash_keys(columns), strict=True)]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['types']}={vector['key']}")
def test_golden_vectors(vector: dict[str, Any]) -> None:
    assert vector["hash"] == xxh3_128_hexdigest(bytes.fromhex(vector["bytes"]))
    assert [vector["hash"]] == _hashes(_columns(vector["types"], [vector["key"]]))


@pytest.mark.parametrize("types", sorted({tuple(vector["types"]) for vector in VECTORS}))
def test_hash_of_a_key_does_not_depend_on_the_other_rows(types: tuple[str, ...]) -> None:
    chosen = [vector for vector in VECTORS if tuple(vector["types"]) == types] * 3
    random.Random(1).shuffle(chosen)
    columns = _columns(list(types), [vector["key"] for vector in chosen])
    expected = [vector["hash"] for vector in chosen]
    assert expected == _hashes(columns)
    assert expected[2:] == _hashes([column.slice(2) for column in columns])
    chunked = [pa.chunked_array([column.slice(0, 1), column.slice(1, 0), column.slice(1)]) for column in columns]
    assert expected == _hashes(chunked)


def test_vectors_are_icebergs_single_value_bytes() -> None:
    for vector in VECTORS:
        expected = b""
        for type_, text in zip(vector["types"], vector["key"], strict=True):
            value = _value(type_, text)
            single = b"" if value is None else to_bytes(TYPES[type_], _physical(TYPES[type_], value))
            expected += b"\0" if value is None else b"\1" + len(single).to_bytes(4, "little") + single
        assert expected.hex() == vector["bytes"]


def _physical(type_: IcebergType, value: Any) -> Any:
    if isinstance(type_, DecimalType):
        return value.quantize(Decimal(1).scaleb(-type_.scale), context=Context(prec=40))
    if isinstance(type_, UUIDType):
        return UUID(bytes=value)
    units = {DateType(): pa.int32(), TimeType(): pa.int64(), TimestampType(): pa.int64(), TimestamptzType(): pa.int64()}
    arrow = units.get(type_)  # type: ignore[call-overload]  # a lookup of any type is meant
    return value if arrow is None else pa.scalar(value, schema_to_pyarrow(type_)).cast(arrow).as_py()


def test_moving_a_byte_between_columns_changes_the_hash() -> None:
    hashes = _hashes(_columns(["string", "string"], [["ab", "c"], ["a", "bc"], ["abc", None], ["abc", ""]]))
    assert len(hashes) == len(set(hashes))


def test_other_arrow_forms_of_a_value_hash_alike() -> None:
    strings = pa.array(["x", None, "ya", "x"])
    assert _hashes([strings]) == _hashes([strings.cast(pa.large_string())])
    assert _hashes([strings]) == _hashes([strings.dictionary_encode()])
    assert _hashes([pa.array([1, -2], pa.int32())]) == _hashes([pa.array([1, -2], pa.int16())])


def test_every_slice_of_a_large_batch_is_hashed() -> None:
    column = pa.array(range(600_000), pa.int64())
    assert _hashes([column.slice(599_990)]) == _hashes([column])[599_990:]


def test_no_rows_have_no_hashes() -> None:
    assert _hashes([pa.array([], pa.string()), pa.array([], pa.int64())]) == []
    assert _hashes([pa.chunked_array([], pa.int64())]) == []


def test_floats_are_no_keys() -> None:
    with pytest.raises(TypeError, match="Arrow type double"):
        hash_keys([pa.array([1.0])])
