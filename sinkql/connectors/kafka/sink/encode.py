"""Encode rows as messages of JSON, TEXT and BYTES, whole Arrow columns at a time.

In JSON, booleans, integers and floating-point numbers have JSON's types; numbers that are not finite become NULL. A
numeric is a string of its digits. A timestamp is a string of milliseconds since 1970 with three decimals. A jsonb is
written unchanged. Arrays and lists are arrays, records and maps are objects. Every other value is the string of its SQL
text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql import logical, physical
from sinkql.logical.numeric_type import INTEGERS


@dataclass(frozen=True, slots=True)
class JsonRows:
    """An encoder that writes each row as an object with the columns in their order."""

    columns: tuple[physical.Column, ...]

    def encode(self, rows: pa.RecordBatch) -> Sequence[bytes | None]:
        """Return the object of each row."""
        names, types = [column.name for column in self.columns], [column.type for column in self.columns]
        values = objects(names, types, [rows.column(name) for name in names])
        return _bytes(values)


@dataclass(frozen=True, slots=True)
class TextRows:
    """An encoder that writes the text of a single column."""

    column: physical.Column
    null: bytes | None

    def encode(self, rows: pa.RecordBatch) -> Sequence[bytes | None]:
        """Return the text of each row, and `null` for NULL."""
        values = _bytes(texts(rows.column(self.column.name), self.column.type))
        return [self.null if column is None else column for column in values]


@dataclass(frozen=True, slots=True)
class BytesRows:
    """An encoder that writes the bytes of a single column."""

    column: physical.Column
    null: bytes | None

    def encode(self, rows: pa.RecordBatch) -> Sequence[bytes | None]:
        """Return the bytes of each row, and `null` for NULL."""
        return [self.null if column is None else column for column in rows.column(self.column.name).to_pylist()]


def _bytes(texts: pa.StringArray) -> Sequence[bytes | None]:
    encoded: Sequence[bytes | None] = texts.cast(pa.binary()).to_pylist()
    return encoded


_PLAIN = r'["\\\x00-\x1f]'
"""The characters that JSON strings have to escape."""


def objects(names: Sequence[str], types: Sequence[logical.Type], columns: Sequence[pa.Array]) -> pa.StringArray:
    """Return an object for each row with a member for each column; at least one column is required."""
    parts: list[pa.Array | str] = []
    for index, (name, type_, column) in enumerate(zip(names, types, columns, strict=True)):
        parts += [f"{',' if index else '{'}{_quoted(name)}:", values(column, type_)]
    return pc.binary_join_element_wise(*parts, "}", "")


def values(column: pa.Array, type_: logical.Type) -> pa.StringArray:
    """Return the JSON value of each row; `null` for NULL."""
    return pc.fill_null(_values(column, type_), "null")


def texts(column: pa.Array, type_: logical.Type) -> pa.StringArray:
    """Return the text of each value, as a cast to text returns it; NULL for NULL."""
    match type_.name:
        case "boolean":
            return pc.if_else(column, "true", "false")
        case "numeric" | "uint8":
            return _numeric_texts(column)
        case "real" | "double precision":
            return _float_texts(column)
        case "bytea":
            return pa.array(
                [None if value is None else "\\x" + value.hex() for value in column.to_pylist()], pa.string()
            )
        case "time":
            return _trimmed(column.cast(pa.string()))
        case "timestamp":
            return _trimmed(column.cast(pa.string()))
        case "timestamptz":
            timestamps = _trimmed(column.cast(pa.timestamp("us")).cast(pa.string()))
            return pc.binary_join_element_wise(timestamps, "+00", "")
        case _:
            return _values(column, type_) if type_.nested else column.cast(pa.string())


def _values(column: pa.Array, type_: logical.Type) -> pa.StringArray:
    match type_.name:
        case "boolean":
            return pc.if_else(column, "true", "false")
        case "jsonb":
            return column
        case "real" | "double precision":
            return pc.if_else(pc.is_finite(column), column.cast(pa.string()), None)
        case "timestamp" | "timestamptz":
            return _milliseconds(column)
        case "array" | "list":
            assert type_.element is not None
            return _arrays(column, type_.element)
        case "map":
            return _maps(column, type_)
        case "record":
            return _records(column, type_)
        case name if name in INTEGERS:
            return column.cast(pa.string())
        case _:
            return _strings(texts(column, type_))


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _strings(texts: pa.StringArray) -> pa.StringArray:
    if pc.any(pc.match_substring_regex(texts, _PLAIN)).as_py():
        return pa.array([None if text is None else _quoted(text) for text in texts.to_pylist()], pa.string())
    return pc.binary_join_element_wise('"', texts, '"', "")


def _numeric_texts(column: pa.Array) -> pa.StringArray:
    texts = column.cast(pa.string())
    if pc.any(pc.match_substring(texts, "E")).as_py():  # small numbers have an exponent
        return pa.array([None if value is None else f"{value:f}" for value in column.to_pylist()], pa.string())
    return texts


def _float_texts(column: pa.Array) -> pa.StringArray:
    texts = column.cast(pa.string())
    for arrow, sql in (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
        texts = pc.if_else(pc.equal(texts, arrow), sql, texts)
    return texts


def _trimmed(texts: pa.StringArray) -> pa.StringArray:
    """Return times without trailing zeros of their fractions."""
    return pc.replace_substring_regex(texts, r"\.?0*$", "") if _have_fractions(texts) else texts


def _have_fractions(texts: pa.StringArray) -> bool:
    return bool(pc.any(pc.match_substring(texts, ".")).as_py())


def _milliseconds(column: pa.Array) -> pa.StringArray:
    micros = column.cast(pa.int64())
    sign = pc.if_else(pc.less(micros, 0), '"-', '"')
    size = pc.abs(micros)
    whole = pc.divide(size, 1000)
    rest = pc.subtract(size, pc.multiply(whole, 1000))
    digits = pc.utf8_lpad(rest.cast(pa.string()), 3, "0")
    return pc.binary_join_element_wise(sign, whole.cast(pa.string()), ".", digits, '"', "")


def _arrays(column: pa.Array, element: logical.Type) -> pa.StringArray:
    return _joined(column, values(column.flatten(), element), "[", "]")


def _maps(column: pa.Array, type_: logical.Type) -> pa.StringArray:
    entries = column.flatten()
    keys = _strings(entries.field(0))
    pairs = pc.binary_join_element_wise(keys, values(entries.field(1), type_.value), ":")
    return _joined(column, pairs, "{", "}")


def _joined(column: pa.Array, parts: pa.StringArray, begin: str, end: str) -> pa.StringArray:
    """Return the texts of lists, given the texts of all their items."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    ends = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    inside = pc.binary_join(pa.ListArray.from_arrays(pa.array(ends), parts), ",")
    whole = pc.binary_join_element_wise(begin, inside, end, "")
    return pc.if_else(column.is_valid(), whole, None)


def _records(column: pa.Array, type_: logical.Type) -> pa.StringArray:
    names = [field.name for field in type_.fields]
    whole = objects(names, [field.type for field in type_.fields], column.flatten())
    return pc.if_else(column.is_valid(), whole, None)
