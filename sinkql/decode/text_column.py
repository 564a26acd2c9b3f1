"""Convert the texts of one column to an Arrow array of the declared type, and note the rows whose text does not fit.

Each type has a conversion of whole columns, for texts that it reads as `value_of` does. A column with other texts is
halved until few are left, which are read one by one.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sinkql.connector_api.stream import WideError
from sinkql.connector_api.types import arrow_type
from sinkql.decode.text_value import FALSE, TRUE, value_of, wanted
from sinkql.logical.jsonb import jsonbs
from sinkql.logical.type import Type

Failures = dict[int, str]
"""The number of a row in the batch, and why it does not decode."""

WIDE = "its values take too much memory"
"""Why a row fails whose values exceed the memory limit."""
_FEW = 16
_WIDEST = 64 << 20


def from_text(texts: pa.StringArray, type_: Type, failures: Failures) -> pa.Array:
    """Return an array of the declared type from an array of strings; a text that does not fit is NULL and noted.

    Raises WideError, but not for a single row.
    """
    parts = _parts(texts, type_, 0, failures)
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _parts(texts: pa.StringArray, type_: Type, first: int, failures: Failures) -> list[pa.Array]:
    try:
        convert = _WHOLE_COLUMNS.get(type_.name)  # arrays and lists have none
        array = convert(texts, arrow_type(type_)) if convert is not None else None
    except (pa.ArrowInvalid, ValueError, OverflowError):
        array = None
    if array is not None:
        return [array]
    if len(texts) <= _FEW:
        return [_one_by_one(texts, type_, first, failures)]
    middle = len(texts) // 2
    return [
        *_parts(texts[:middle], type_, first, failures),
        *_parts(texts[middle:], type_, first + middle, failures),
    ]


def _one_by_one(texts: pa.StringArray, type_: Type, first: int, failures: Failures) -> pa.Array:
    values: list[Any] = []
    for row, text in enumerate(texts.to_pylist(), first):
        try:
            values.append(None if text is None else value_of(text, type_))
        except ValueError as error:
            values.append(None)
            failures[row] = f"{wanted(type_, text)}: {error}" if error.args else wanted(type_, text)
    _check_width([value for value in values if isinstance(value, str)])
    return pa.array(values, arrow_type(type_))


def _check_width(values: Sequence[str]) -> None:
    if len(values) > 1 and sum(map(len, values)) > _WIDEST:
        raise WideError


# --- whole columns: None or an error if a text has another form -----------------------------------------------------


def _characters(texts: pa.StringArray) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes of all texts, and their offsets with the end of the last one; NULLs are empty."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    data = texts.buffers()[2]
    characters = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return characters[offsets[0] : offsets[-1]], offsets - offsets[0]


def _consists_of(texts: pa.StringArray, characters: bytes) -> bool:
    return not _characters(texts)[0].tobytes().translate(None, characters)


def _integers(texts: pa.StringArray, type_: pa.DataType) -> pa.Array | None:
    return texts.cast(type_) if _consists_of(texts, b"0123456789-") else None


def _unsigned(narrow: pa.DataType) -> Callable[[pa.StringArray, pa.DataType], pa.Array | None]:
    def convert(texts: pa.StringArray, type_: pa.DataType) -> pa.Array | None:
        return texts.cast(narrow).cast(type_) if _consists_of(texts, b"0123456789") else None

    return convert


def _numeric(texts: pa.StringArray, type_: pa.DataType) -> pa.Array | None:
    """Convert in two steps: Arrow scales a number before it checks whether it fits, and must have room for that."""
    lengths = np.diff(_characters(texts)[1])
    if not len(lengths) or lengths.max() > _MOST_DIGITS or not _consists_of(texts, b"0123456789-+."):
        return None
    wide = pa.decimal256(2 * _MOST_DIGITS, type_.scale)
    return texts.cast(type_ if lengths.max() <= _MOST_DIGITS - type_.scale else wide).cast(type_)


_MOST_DIGITS = 38


def _floats(texts: pa.StringArray, type_: pa.DataType) -> pa.Array | None:
    if not _consists_of(texts, b"0123456789-+.eE"):
        return None
    numbers = texts.cast(type_)
    if pc.all(pc.is_finite(numbers)).as_py() is False:
        return None
    zeros = pc.filter(texts, pc.equal(numbers, pa.scalar(0, type_)))
    return numbers if _consists_of(zeros, b"0.") or not _has_lost_digits(zeros) else None


def _has_lost_digits(zeros: pa.StringArray) -> bool:
    return pc.any(pc.match_substring_regex(zeros, r"^[^eE]*[1-9]")).as_py() is True


def _boolean(texts: pa.StringArray, _type: pa.DataType) -> pa.Array | None:
    places = pc.index_in(texts, _SPELLINGS)
    if places.null_count != texts.null_count:
        return None
    return pc.less(places, pa.scalar(len(TRUE), pa.int32()))


_SPELLINGS = pa.array(TRUE + FALSE, pa.string())
_YEAR_1, _YEAR_10000 = np.datetime64("0001-01-01", "us").astype(int), np.datetime64("10000-01-01", "us").astype(int)


def _date(texts: pa.StringArray, type_: pa.DataType) -> pa.Array | None:
    dates = texts.cast(type_)
    return dates if _is_in_years(dates.cast(pa.timestamp("us"))) else None


def _is_in_years(instants: pa.Array) -> bool:
    least = pc.min_max(instants.cast(pa.int64())).as_py()
    return least["min"] is None or bool(least["min"] >= _YEAR_1 and least["max"] < _YEAR_10000)


def _timestamp(texts: pa.StringArray, type_: pa.DataType) -> pa.Array | None:
    characters, ends = _characters(texts)
    timestamps = texts.cast(type_)
    return timestamps if _has_minutes(characters, ends, 10) and _is_in_years(timestamps) else None


def _timestamptz(texts: pa.StringArray, type_: pa.DataType) -> pa.Array | None:
    characters, ends = _characters(texts)
    timestamps = texts.cast(type_)  # an error without a zone
    return (
        timestamps
        if _has_minutes(characters, ends, 0) and _has_near_zones(characters, ends) and _is_in_years(timestamps)
        else None
    )


def _has_minutes(characters: np.ndarray, ends: np.ndarray, shortest: int) -> bool:
    """Return whether every text has a colon after its hours, since Arrow accepts an hour alone."""
    lengths = np.diff(ends)
    longer = lengths > shortest
    if bool((lengths[longer] < 16).any()):
        return False
    return bool((characters[ends[:-1][longer] + 13] == ord(":")).all())


def _has_near_zones(characters: np.ndarray, ends: np.ndarray) -> bool:
    """Return whether all time zones are less than 16 hours from UTC, which is Postgres's limit."""
    last = ends[1:][np.diff(ends) > 0]
    if bool((characters[last - 1] == ord("Z")).all()):
        return True
    hours = np.zeros(len(last), np.int32)
    for back in (6, 5, 3):
        sign = characters[last - back]
        is_sign = (sign == ord("+")) | (sign == ord("-"))
        if back == 6:
            is_sign &= characters[last - 3] == ord(":")
        tens, ones = characters[last - back + 1].astype(np.int32), characters[last - back + 2].astype(np.int32)
        hours = np.maximum(hours, np.where(is_sign, tens * 10 + ones - 11 * ord("0"), 0))
    return bool((hours <= 15).all())


_HYPHENS = [8, 13, 18, 23]
_HEX = np.zeros(256, bool)
_HEX[list(b"0123456789abcdefABCDEF")] = True


def _uuid(texts: pa.StringArray, _type: pa.DataType) -> pa.Array | None:
    characters, ends = _characters(texts)
    if len(characters) != 36 * (len(texts) - texts.null_count) or not bool(np.isin(np.diff(ends), (0, 36)).all()):
        return None
    rows = characters.reshape(-1, 36)
    if not bool((rows[:, _HYPHENS] == ord("-")).all()) or int(_HEX[rows].sum()) != 32 * len(rows):
        return None
    return pc.ascii_lower(texts)


def _bytea(texts: pa.StringArray, type_: pa.DataType) -> pa.Array | None:
    characters, ends = _characters(texts)
    lengths = np.diff(ends)
    begins = ends[:-1][lengths > 0]
    marks = characters[begins] == ord("\\")
    if bool((lengths == 1).any()) or not bool(marks.all()) or not bool((characters[begins + 1] == ord("x")).all()):
        return None
    if texts.null_count + len(begins) != len(texts) or bool((lengths & 1).any()):
        return None
    is_digit = np.ones(len(characters), bool)
    is_digit[begins] = is_digit[begins + 1] = False
    data = binascii.unhexlify(characters[is_digit].tobytes())
    sizes = np.where(lengths > 0, lengths // 2 - 1, 0)
    offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    valid = pc.is_valid(texts).buffers()[1] if texts.null_count else None
    return pa.Array.from_buffers(type_, len(texts), [valid, pa.py_buffer(offsets), pa.py_buffer(data)])


def _jsonb(texts: pa.StringArray, type_: pa.DataType) -> pa.Array | None:
    whole = texts.drop_null() if texts.null_count else texts
    values = jsonbs(whole.to_pylist())
    if values is None:
        return None
    _check_width(values)
    documents = pa.array(values, type_)
    return documents if not texts.null_count else pc.replace_with_mask(texts, texts.is_valid(), documents)


def _time(texts: pa.StringArray, type_: pa.DataType) -> pa.Array | None:
    day = pc.binary_join_element_wise("1970-01-01 ", texts, "")
    timestamps = _timestamp(day, pa.timestamp("us"))
    return None if timestamps is None else timestamps.cast(type_)


def _text(texts: pa.StringArray, _type: pa.DataType) -> pa.Array | None:
    return None if _NUL in _characters(texts)[0] else texts


_NUL = 0
_WHOLE_COLUMNS: dict[str, Callable[[pa.StringArray, pa.DataType], pa.Array | None]] = {
    "boolean": _boolean, "smallint": _integers, "integer": _integers, "bigint": _integers, "real": _floats,
    "uint2": _unsigned(pa.uint16()), "uint4": _unsigned(pa.uint32()), "uint8": _unsigned(pa.uint64()),
    "double precision": _floats, "numeric": _numeric, "date": _date, "time": _time, "timestamp": _timestamp,
    "timestamptz": _timestamptz, "uuid": _uuid, "jsonb": _jsonb, "bytea": _bytea, "text": _text,
}  # fmt: skip
