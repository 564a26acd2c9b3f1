"""Convert a column as Arrow reads it from a file to an array of the declared type, and note the rows that do not fit.

A column is read as another type only if that type has room for all of its values and means the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql.connector_api.types import arrow_type, parse_type, python_values
from sinkql.decode.text_column import Failures, from_text
from sinkql.logical import Type
from sinkql.logical.nested import UNEVEN, UnevenError, entries, levels, squared
from sinkql.logical.numeric_type import INTEGER_DIGITS, SIGNED, UNSIGNED, widens
from sinkql.logical.range import EMPTY, SUBTYPES, UPSIDE_DOWN, BeyondError, BoundsError, make_range
from sinkql.logical.type import Field, map_type, record_type

T = TypeVar("T")

_TYPES: Mapping[str, str] = {
    "bool": "boolean", "int8": "smallint", "int16": "smallint", "uint8": "smallint", "int32": "integer",
    "uint16": "integer", "int64": "bigint", "uint32": "bigint", "uint64": "numeric(20,0)", "halffloat": "real",
    "float": "real", "double": "double precision", "string": "text", "large_string": "text", "string_view": "text",
    "binary": "bytea", "large_binary": "bytea", "binary_view": "bytea", "date32[day]": "date", "date64[ms]": "date",
    "time32[s]": "time", "time32[ms]": "time", "time64[us]": "time", "time64[ns]": "time",
}  # fmt: skip
_FROM_TEXT = ("uuid", "jsonb", "interval", *SUBTYPES)
"""Types whose values are read from texts."""

_UNSIGNED = {"uint2": pa.uint16(), "uint4": pa.uint32(), "uint8": pa.uint64()}
"""The Arrow types that unsigned integers are first read as, also from signed columns."""
_NO_YEAR = "it is outside of the years 1 to 9999"
_BEYOND = "<value out of range"
"""The text that Arrow shows for a timestamp outside its range."""


def type_of(type_: pa.DataType) -> str:
    """Return the SQL type of a column; text for types without a counterpart."""
    if isinstance(type_, pa.BaseExtensionType):
        return {"arrow.uuid": "uuid", "arrow.json": "jsonb"}.get(type_.extension_name, type_of(type_.storage_type))
    if pa.types.is_dictionary(type_):
        return type_of(type_.value_type)
    if pa.types.is_timestamp(type_):
        return "timestamp" if type_.tz is None else "timestamptz"
    if pa.types.is_decimal(type_) and type_.precision <= 38 and 0 <= type_.scale <= type_.precision:
        return f"numeric({type_.precision},{type_.scale})"
    if pa.types.is_fixed_size_binary(type_):
        return "bytea"
    return _TYPES.get(str(type_), "jsonb" if pa.types.is_nested(type_) else "text")


def inferred_type(type_: pa.DataType) -> str:
    """Return the SQL type of an undeclared column: a record for structs, maps and lists for theirs."""
    if pa.types.is_struct(type_):
        names = [field.name for field in type_]
        if not names or not all(names) or len(names) > len(set(names)):
            return "jsonb"
        fields = (Field(field.name, parse_type(inferred_type(field.type)), field.nullable) for field in type_)
        return str(record_type(fields))
    if pa.types.is_map(type_) and type_of(type_.key_type) == "text":
        return str(map_type(parse_type(inferred_type(type_.item_type))))
    return f"{inferred_type(type_.value_type)} list" if _is_list_like(type_) else type_of(type_)


def is_readable(type_: pa.DataType, declared: Type) -> bool:
    """Return whether a column of a file can be read as a declared type."""
    if declared.name == "record":
        return pa.types.is_struct(type_) and all(_is_field_readable(type_, field) for field in declared.fields)
    if declared.name == "map":
        return (
            pa.types.is_map(type_)
            and type_of(type_.key_type) == "text"
            and is_readable(type_.item_type, declared.value)
        )
    if declared.element is not None:
        return _is_list_like(type_) and is_readable(type_.value_type, declared.element)
    subtype = SUBTYPES.get(declared.name)
    if subtype is not None and pa.types.is_struct(type_):
        return _is_range_like(type_) and all(
            is_readable(type_.field(name).type, subtype) for name in ("lower", "upper")
        )
    file_type = parse_type(type_of(type_))
    if declared.name in _UNSIGNED:
        return file_type.name in SIGNED or (file_type.name == "numeric" and file_type.scale == 0)
    if declared.name != "numeric":
        fixed = pa.types.is_fixed_size_binary(type_) and type_.byte_width == 16
        parsed = (file_type.name == "text" and declared.name in _FROM_TEXT) or (fixed and declared.name == "uuid")
        widened = declared.name not in UNSIGNED and widens(file_type.name, declared.name)
        return file_type.name == declared.name or parsed or widened
    room = arrow_type(declared)
    if file_type.name == "numeric":
        decimal_type = arrow_type(file_type)
        return bool(
            decimal_type.scale <= room.scale
            and decimal_type.precision - decimal_type.scale <= room.precision - room.scale
        )
    return file_type.name in SIGNED and bool(INTEGER_DIGITS[file_type.name] <= room.precision - room.scale)


def _is_field_readable(type_: pa.StructType, field: Field) -> bool:
    """Return whether structs have a field that can be read as a record's, or may be NULL without it."""
    index = type_.get_field_index(field.name)
    return field.nullable if index < 0 else is_readable(type_.field(index).type, field.type)


def column_of(values: pa.Array, declared: Type, failures: Failures) -> pa.Array:
    """Return the values in a type that they are readable as; a value that does not fit is NULL and noted."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    name, type_ = declared.name, arrow_type(declared)
    if pa.types.is_map(values.type) and name == "map":
        return _map(values, declared, failures)
    if pa.types.is_struct(values.type) and name == "record":
        return _record(values, declared, failures)
    if _is_list_like(values.type) and pa.types.is_list(type_):
        return _list(values, declared, failures)
    if name in SUBTYPES and pa.types.is_struct(values.type):
        return _ranges(values, name, failures)
    if name == "uuid" and pa.types.is_fixed_size_binary(values.type):
        return _convert_each(values, type_, failures, lambda value: str(UUID(bytes=value)))
    if name in ("text", "uuid", "jsonb", "interval", *SUBTYPES) or pa.types.is_string(values.type):
        return _text(values, declared, failures)
    if name in _UNSIGNED:
        return _unsigned(values, declared, failures)
    try:
        array = values.cast(type_)
    except pa.ArrowInvalid:
        array = _cast_halves(values, type_, failures)
    if name not in ("date", "time", "timestamp", "timestamptz"):
        return array
    outside = _out_of_range(array)
    why = "it is not within a day" if name == "time" else _NO_YEAR
    return array if outside is None else _null_out(array, outside, why, failures)


def _unsigned(values: pa.Array, declared: Type, failures: Failures) -> pa.Array:
    narrow = _UNSIGNED[declared.name]
    try:
        array = values.cast(narrow)
    except pa.ArrowInvalid:
        array = _cast_halves(values, narrow, failures)
    return array.cast(arrow_type(declared))


def _is_list_like(type_: pa.DataType) -> bool:
    return any(test(type_) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))


def _list(values: pa.Array, declared: Type, failures: Failures) -> pa.Array:
    """Return lists of converted elements; a list with an element that does not fit is noted."""
    plain = values.cast(pa.list_(values.type.value_type))
    return lists(
        plain.flatten(),
        pc.list_value_length(plain),
        declared,
        failures,
        column_of,
    )


def lists(
    elements: T,
    lengths: pa.Array,
    declared: Type,
    failures: Failures,
    read: Callable[[T, Type, Failures], pa.Array],
) -> pa.Array:
    """Return lists with `lengths` of the elements, which `read` converts to an array of their type.

    A NULL length is a NULL list; a list with an element that does not fit is noted.
    """
    offsets = np.concatenate(([0], np.cumsum(pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False)))).astype(np.int32)
    element_failures: Failures = {}
    items = read(elements, declared.item, element_failures)
    for index, why in element_failures.items():
        failures.setdefault(int(np.searchsorted(offsets, index, side="right")) - 1, why)
    mask = lengths.is_null() if lengths.null_count else None
    array = pa.ListArray.from_arrays(pa.array(offsets), items, mask=mask).cast(arrow_type(declared))
    return array if levels(declared) < 2 else _check_dimensions(array, declared, failures)


def _check_dimensions(values: pa.Array, type_: Type, failures: Failures) -> pa.Array:
    """Return arrays of several dimensions; an array with inner arrays of different lengths is NULL and noted."""
    items: list[list[Any] | None] = values.to_pylist()
    for row, value in enumerate(items):
        try:
            items[row] = None if value is None or row in failures else squared(value, type_)
        except UnevenError:
            items[row] = None
            failures[row] = UNEVEN
    return pa.array(items, values.type)


def _map(values: pa.MapArray, declared: Type, failures: Failures) -> pa.Array:
    """Return maps as lists of keys and values, sorted by key; the last of duplicate keys counts."""
    held = pa.struct([("key", values.type.key_type), ("value", values.type.item_type)])
    array = _list(values.cast(pa.list_(held)), Type("list", element=declared.element), failures)
    keys = array.flatten().field(0)
    ends = np.cumsum(pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False))
    within = np.ones(max(len(keys) - 1, 0), bool)
    within[ends[(ends > 0) & (ends < len(keys))] - 1] = False
    if np.all(pc.fill_null(pc.less(keys[:-1], keys[1:]), False).to_numpy(zero_copy_only=False)[within]):
        return array
    numbered = enumerate(python_values(array))
    ordered = [None if value is None or row in failures else entries(value) for row, value in numbered]
    return pa.array(ordered, array.type)


def _record(values: pa.StructArray, declared: Type, failures: Failures) -> pa.Array:
    """Return records of converted fields; a record with a field that does not fit is noted."""
    arrays = []
    for field in declared.fields:
        kind = arrow_type(field.type)
        index = values.type.get_field_index(field.name)
        field_failures: Failures = {}
        # the fields of a NULL record may have any value
        field_values = values.flatten()[index] if index >= 0 else pa.nulls(len(values), kind)
        array = column_of(field_values, field.type, field_failures) if index >= 0 else field_values
        if not field.nullable:
            missing = pc.and_(values.is_valid(), array.is_null()).to_numpy(zero_copy_only=False)
            field_failures |= {
                row: f'null value in field "{field.name}", which is NOT NULL'
                for row in np.flatnonzero(missing).tolist()
                if row not in field_failures
            }
        for row, why in field_failures.items():
            failures.setdefault(row, why)
        arrays.append(array)
    return pa.StructArray.from_arrays(arrays, fields=list(arrow_type(declared)), mask=values.is_null())


_FLAGS = ("lower_inclusive", "upper_inclusive", "empty")


def _is_range_like(type_: pa.StructType) -> bool:
    """Return whether structs are ranges, as sinks write them to Iceberg tables."""
    if {field.name for field in type_} != {"lower", "upper", *_FLAGS}:
        return False
    return all(pa.types.is_boolean(type_.field(name).type) for name in _FLAGS)


def _ranges(values: pa.StructArray, name: str, failures: Failures) -> pa.Array:
    """Return the texts of ranges; a range whose bounds do not fit is NULL and noted."""
    subtype = SUBTYPES[name]
    bounds = [column_of(pc.struct_field(values, bound), subtype, failures) for bound in ("lower", "upper")]
    flags = [pc.fill_null(pc.struct_field(values, flag), False) for flag in _FLAGS]
    texts: list[str | None] = []
    for row, (valid, lower, upper, *marks) in enumerate(
        zip(values.is_valid().to_pylist(), *(array.to_pylist() for array in (*bounds, *flags)), strict=True)
    ):
        text = None
        if valid and row not in failures:
            try:
                text = EMPTY if marks[2] else make_range(lower, upper, "(["[marks[0]] + ")]"[marks[1]], name)
            except BoundsError:
                failures[row] = UPSIDE_DOWN
            except BeyondError:
                failures[row] = f"{subtype} out of range"
        texts.append(text)
    return pa.array(texts, pa.string())


def _text(values: pa.Array, declared: Type, failures: Failures) -> pa.Array:
    if pa.types.is_nested(values.type):
        texts = _convert_each(values, pa.string(), failures, json_text)
    elif pa.types.is_string(values.type) or pa.types.is_large_string(values.type) or str(values.type) == "string_view":
        raw = values.cast(pa.binary())
        try:
            texts = raw.cast(pa.string())  # this cast checks UTF-8, which file readers do not
        except pa.ArrowInvalid:
            texts = _convert_each(raw, pa.string(), failures, bytes.decode)
    else:
        texts = _convert_each(values, pa.string(), failures, str)
    text_failures: Failures = {}
    array = from_text(texts, declared, text_failures)
    for row, why in text_failures.items():
        failures.setdefault(row, why)
    return array


def _convert_each(values: pa.Array, type_: pa.DataType, failures: Failures, convert: Callable[[Any], Any]) -> pa.Array:
    converted: list[Any] = []
    for row, value in enumerate(values):
        try:
            plain = value.as_py(maps_as_pydicts="strict") if value.is_valid else None
            converted.append(None if plain is None else convert(plain))
        except (ValueError, KeyError, OverflowError) as error:
            converted.append(None)
            failures[row] = str(error) or "it cannot be read"
    return pa.array(converted, type_)


def _cast_halves(values: pa.Array, type_: pa.DataType, failures: Failures) -> pa.Array:
    """Cast values if at least one of them does not fit."""
    if len(values) == 1:
        shown = _value_text(values)
        failures[0] = _NO_YEAR if shown.startswith(_BEYOND) else f"{shown} does not fit"
        return pa.nulls(1, type_)
    middle = len(values) // 2
    parts = []
    for first, part in ((0, values[:middle]), (middle, values[middle:])):
        part_failures: Failures = {}
        try:
            parts.append(part.cast(type_))
        except pa.ArrowInvalid:
            parts.append(_cast_halves(part, type_, part_failures))
        failures |= {first + row: why for row, why in part_failures.items()}
    return pa.concat_arrays(parts)


def _value_text(values: pa.Array) -> str:
    """Return the one value as text."""
    try:
        return str(values.cast(pa.string())[0].as_py())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return "the value"


_DAY = 86_400_000_000
_FIRST, _LAST = (int(np.datetime64(day, "us").astype(int)) for day in ("0001-01-01", "10000-01-01"))


def _out_of_range(values: pa.Array) -> np.ndarray | None:
    """Return a mask of values outside the years of dates or the times of a day; None if all fit."""
    if pa.types.is_date32(values.type):
        numbers = values.cast(pa.int32())
        first, last = _FIRST // _DAY, _LAST // _DAY
    elif pa.types.is_time64(values.type):
        numbers, first, last = values.cast(pa.int64()), 0, _DAY
    else:
        numbers, first, last = values.cast(pa.int64()), _FIRST, _LAST
    least = pc.min_max(numbers).as_py()
    if least["min"] is None or (least["min"] >= first and least["max"] < last):
        return None
    outside = pc.or_(pc.less(numbers, first), pc.greater_equal(numbers, last))
    mask: np.ndarray = pc.fill_null(outside, False).to_numpy(zero_copy_only=False)
    return mask


def _null_out(values: pa.Array, rows: np.ndarray, why: str, failures: Failures) -> pa.Array:
    for row in np.flatnonzero(rows).tolist():
        failures[row] = why
    return pc.if_else(pa.array(rows), pa.scalar(None, values.type), values)


def json_text(value: Any) -> str:
    """Return a nested value as JSON; raise ValueError for a number that JSON lacks."""
    return _ENCODER.encode(_plain(value)).decode()


_ENCODER = msgspec.json.Encoder(decimal_format="number")


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(name): _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() if not math.isfinite(value):
            raise ValueError(f"JSON has no {value}")
        case None | bool() | int() | float() | str() | Decimal():
            return value
        case bytes():
            return f"\\x{value.hex()}"
        case datetime():
            return value.astimezone(UTC).isoformat() if value.tzinfo is not None else value.isoformat()
        case date():
            return value.isoformat()
        case _:
            return str(value)
