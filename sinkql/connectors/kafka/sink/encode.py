"""Rows → messages of JSON, TEXT and BYTES; a `MessageEncoder` each.

Arrow columns → texts of JSON, a value each, whole columns at a time.

Booleans, whole numbers and floating-point numbers are JSON's own; those that are not finite are NULL, as JSON has none.
A numeric is a text with its digits, a timestamp one with milliseconds since 1970, three digits behind the point; jsonb
stands as it is. Arrays and lists are arrays, records and maps are objects. All else is its text in SQL.
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
    """An object a row, whose members are the columns in their order."""

    columns: tuple[physical.Column, ...]

    def encode(self, rows: pa.RecordBatch) -> Sequence[bytes | None]:
        """Return the object of each row."""
        names, types = [each.name for each in self.columns], [each.type for each in self.columns]
        found = objects(names, types, [rows.column(name) for name in names])
        return _bytes(found)


@dataclass(frozen=True, slots=True)
class TextRows:
    """The text of a row's one column."""

    column: physical.Column
    null: bytes | None

    def encode(self, rows: pa.RecordBatch) -> Sequence[bytes | None]:
        """Return the text of each row, and what stands for NULL."""
        found = _bytes(texts(rows.column(self.column.name), self.column.type))
        return [self.null if each is None else each for each in found]


@dataclass(frozen=True, slots=True)
class BytesRows:
    """The bytes of a row's one column."""

    column: physical.Column
    null: bytes | None

    def encode(self, rows: pa.RecordBatch) -> Sequence[bytes | None]:
        """Return the bytes of each row, and what stands for NULL."""
        return [self.null if each is None else each for each in rows.column(self.column.name).to_pylist()]


def _bytes(found: pa.StringArray) -> Sequence[bytes | None]:
    encoded: Sequence[bytes | None] = found.cast(pa.binary()).to_pylist()
    return encoded


_PLAIN = r'["\\\x00-\x1f]'
"""What a text of JSON cannot have as it is."""


def objects(names: Sequence[str], types: Sequence[logical.Type], columns: Sequence[pa.Array]) -> pa.StringArray:
    """Return an object a row with a member a column; there is at least one."""
    parts: list[pa.Array | str] = []
    for place, (name, type_, column) in enumerate(zip(names, types, columns, strict=True)):
        parts += [f"{',' if place else '{'}{_quoted(name)}:", values(column, type_)]
    return pc.binary_join_element_wise(*parts, "}", "")


def values(column: pa.Array, type_: logical.Type) -> pa.StringArray:
    """Return the value of each row; that of NULL is `null`."""
    return pc.fill_null(_values(column, type_), "null")


def texts(column: pa.Array, type_: logical.Type) -> pa.StringArray:
    """Return the text of each value as a cast in SQL has it; NULL for NULL."""
    match type_.name:
        case "boolean":
            return pc.if_else(column, "true", "false")
        case "numeric" | "uint8":
            return _numerals(column)
        case "real" | "double precision":
            return _floating(column)
        case "bytea":
            return pa.array([None if each is None else "\\x" + each.hex() for each in column.to_pylist()], pa.string())
        case "time":
            return _trimmed(column.cast(pa.string()))
        case "timestamp":
            return _trimmed(column.cast(pa.string()))
        case "timestamptz":
            moments = _trimmed(column.cast(pa.timestamp("us")).cast(pa.string()))
            return pc.binary_join_element_wise(moments, "+00", "")
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


def _strings(found: pa.StringArray) -> pa.StringArray:
    if pc.any(pc.match_substring_regex(found, _PLAIN)).as_py():
        return pa.array([None if each is None else _quoted(each) for each in found.to_pylist()], pa.string())
    return pc.binary_join_element_wise('"', found, '"', "")


def _numerals(column: pa.Array) -> pa.StringArray:
    found = column.cast(pa.string())
    if pc.any(pc.match_substring(found, "E")).as_py():  # small ones have an exponent
        return pa.array([None if each is None else f"{each:f}" for each in column.to_pylist()], pa.string())
    return found


def _floating(column: pa.Array) -> pa.StringArray:
    found = column.cast(pa.string())
    for arrow, sql in (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
        found = pc.if_else(pc.equal(found, arrow), sql, found)
    return found


def _trimmed(found: pa.StringArray) -> pa.StringArray:
    """Return times without the zeros at the end of their fractions."""
    return pc.replace_substring_regex(found, r"\.?0*$", "") if _fractions(found) else found


def _fractions(found: pa.StringArray) -> bool:
    return bool(pc.any(pc.match_substring(found, ".")).as_py())


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
    """Return the texts of lists, given those of all that is in them."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    ends = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    inside = pc.binary_join(pa.ListArray.from_arrays(pa.array(ends), parts), ",")
    whole = pc.binary_join_element_wise(begin, inside, end, "")
    return pc.if_else(column.is_valid(), whole, None)


def _records(column: pa.Array, type_: logical.Type) -> pa.StringArray:
    names = [field.name for field in type_.fields]
    whole = objects(names, [field.type for field in type_.fields], column.flatten())
    return pc.if_else(column.is_valid(), whole, None)
