"""Decode the values of one type in a block into an Arrow array, with a mask of values that do not fit.

`value` explains why a value does not fit. Its place in the array has an arbitrary value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Context
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sinkql.connector_api.types import arrow_type
from sinkql.connectors.postgres.type import (
    BLANKED,
    NUMERIC_OID,
    ServerColumn,
    ServerType,
    element_type,
    supported_type,
)
from sinkql.connectors.postgres.value import (
    DAY_US,
    EPOCH_DAY,
    EPOCH_US,
    FIRST_DAY,
    LAST_DAY,
    MOST_DIGITS,
    UnfitError,
    read_binary,
    read_text,
)
from sinkql.decode import columnar
from sinkql.decode.columnar import LIMB, Block, Mask, Offsets, mask_or
from sinkql.logical.jsonb import has_long_number, jsonbs
from sinkql.logical.nested import levels

DecodedColumn = tuple[pa.Array, Mask | None]
"""A column and the mask of values that do not fit; None if all fit."""

TEXTS = frozenset({19, 25, BLANKED, 1043})
"""Types whose binary form is their text."""


@dataclass(frozen=True, slots=True)
class ValuePlaces:
    """The places of values in a block, in ascending order; `valid` as in `columnar`.

    With a `stride`, all values are valid, equally long, and so many bytes apart.
    """

    block: Block
    starts: Offsets
    lengths: Offsets
    valid: Mask | None
    stride: int = 0

    def __len__(self) -> int:
        return len(self.starts)

    def numbers(self, form: str) -> NDArray[Any]:  # Any: numpy has no type for a type by its name
        """Return the values as numbers of a numpy type (`>i4`); those of NULLs are arbitrary."""
        if self.stride and len(self):
            return np.ndarray((len(self),), form, self.block.data, int(self.starts[0]), (self.stride,))
        return self.block.view(form)[self.starts]

    def values(self) -> list[bytes | None]:
        """Return the bytes of the values."""
        raw = self.block.raw
        values: list[bytes | None] = [
            raw[at : at + length] for at, length in zip(self.starts.tolist(), self.lengths.tolist(), strict=True)
        ]
        if self.valid is not None:
            for place in np.flatnonzero(~self.valid).tolist():
                values[place] = None
        return values


def decode(column: ServerColumn, places: ValuePlaces, *, binary: bool) -> DecodedColumn:
    """Decode a column that the server sent."""
    if column.as_text:
        return _decode_versioned_texts(places) if binary and column.type.bare.oid == _JSONB else _decode_texts(places)
    return binary_column(column.type, places) if binary else text_column(column.type, places)


def read(column: ServerColumn, raw: bytes, *, binary: bool) -> Any:
    """Decode one value that the server sent; raise UnfitError if it does not fit."""
    if column.as_text:
        try:
            return (raw[1:] if binary and column.type.bare.oid == _JSONB else raw).decode()
        except UnicodeDecodeError as error:
            raise UnfitError("it is not UTF-8") from error
    if binary:
        return read_binary(column.type, raw)
    try:
        return read_text(column.type, raw.decode())
    except UnicodeDecodeError as error:
        raise UnfitError("it is not UTF-8") from error


def binary_as_text(type_: ServerType) -> bool:
    """Return whether the binary form of a type contains its text."""
    bare = type_.bare
    return bare.kind == "enum" or bare.oid in (*TEXTS, _JSON, _JSONB)


_JSON, _JSONB, _INTERVAL = 114, 3802, 1186

# --- binary -----------------------------------------------------------------------------------------------------------


def binary_column(type_: ServerType, places: ValuePlaces) -> DecodedColumn:
    """Decode a column that the send function of a type wrote."""
    bare = type_.bare
    match bare.kind:
        case "enum":
            return _decode_texts(places)
        case "array":
            return _decode_arrays(bare, places)
        case "composite":
            return _decode_composites(bare, places)
        case _ if bare.oid == NUMERIC_OID:
            return _decode_numerics(bare, places)
        case _:
            column_decoder = _SIMPLE.get(bare.oid)
            return _decode_values(bare, places, read_binary) if column_decoder is None else column_decoder(places)


def _decode_texts(places: ValuePlaces) -> DecodedColumn:
    return columnar.texts(places.block, places.starts, places.lengths, places.valid)


def _decode_blanked(places: ValuePlaces) -> DecodedColumn:
    """Decode texts of a char(n) without their padding, as the server compares them."""
    texts, bad = _decode_texts(places)
    return pc.ascii_rtrim(texts, " "), bad


def _decode_versioned_texts(places: ValuePlaces) -> DecodedColumn:
    """Decode texts that follow a version byte."""
    starts, lengths = places.starts + 1, np.maximum(places.lengths - 1, 0)
    if places.valid is not None:
        starts = np.where(places.valid, starts, places.starts)
    return columnar.texts(places.block, starts, lengths, places.valid)


def _decode_jsonb(places: ValuePlaces) -> DecodedColumn:
    return _normalize_jsonb(*_decode_versioned_texts(places))


def _normalize_jsonb(texts: pa.Array, bad: Mask | None) -> DecodedColumn:
    """Write out numbers with an exponent in texts of jsonb that Postgres wrote."""
    characters = texts.buffers()[2]
    long = characters is not None and has_long_number(characters.to_pybytes())
    return as_jsonb(texts, bad) if long else (texts, bad)


def _decode_json(places: ValuePlaces) -> DecodedColumn:
    texts, bad = _decode_texts(places)
    return as_jsonb(texts, bad)


def as_jsonb(texts: pa.Array, bad: Mask | None) -> DecodedColumn:
    """Convert texts of JSON to texts of jsonb."""
    documents = texts.drop_null()
    converted = jsonbs(documents.to_pylist())
    if converted is not None:
        if texts.null_count:
            places = np.cumsum(texts.is_valid().to_numpy(zero_copy_only=False)) - 1
            indices = pa.array(places, mask=texts.is_null().to_numpy(zero_copy_only=False))
            return pa.array(converted, pa.string()).take(indices), bad
        return pa.array(converted, pa.string()), bad
    values, wrong = _read_values(texts.to_pylist(), lambda text: read_text(_JSON_TYPE, text))
    return pa.array(values, pa.string()), mask_or(bad, wrong)


_JSON_TYPE = ServerType(_JSON, "json")


def _decode_bytes(places: ValuePlaces) -> DecodedColumn:
    return columnar.binaries(places.block, places.starts, places.lengths, places.valid), None


def _decode_booleans(places: ValuePlaces) -> DecodedColumn:
    return columnar.booleans(places.numbers("u1") != 0, places.valid), None


def _number_decoder(form: str, type_: Any) -> Callable[[ValuePlaces], DecodedColumn]:
    """Return a decoder of numbers in a binary form; the Arrow type is at least as wide."""

    def decode_numbers(places: ValuePlaces) -> DecodedColumn:
        arrow = type_()
        values = places.numbers(form).astype(arrow.to_pandas_dtype())
        return columnar.fixed_width(values, places.valid, arrow), None

    return decode_numbers


def _decode_dates(places: ValuePlaces) -> DecodedColumn:
    days = places.numbers(">i4").astype(np.int64) + EPOCH_DAY
    bad = _find_outside(days, FIRST_DAY, LAST_DAY, places.valid)
    return columnar.fixed_width(days.astype(np.int32), places.valid, pa.date32()), bad


def _timestamp_decoder(zone: str | None) -> Callable[[ValuePlaces], DecodedColumn]:
    def decode_timestamps(places: ValuePlaces) -> DecodedColumn:
        micros = places.numbers(">i8").astype(np.int64)
        bad = _find_outside(micros, FIRST_DAY * DAY_US - EPOCH_US, (LAST_DAY + 1) * DAY_US - EPOCH_US - 1, places.valid)
        return columnar.fixed_width(micros + EPOCH_US, places.valid, pa.timestamp("us", zone)), bad

    return decode_timestamps


def _decode_times(places: ValuePlaces) -> DecodedColumn:
    micros = places.numbers(">i8").astype(np.int64)
    return columnar.fixed_width(micros, places.valid, pa.time64("us")), _find_outside(
        micros, 0, DAY_US - 1, places.valid
    )


def _find_outside(values: NDArray[np.int64], first: int, last: int, valid: Mask | None) -> Mask | None:
    bad = (values < first) | (values > last)
    return columnar.mask_or_none(bad if valid is None else bad & valid)


def _decode_uuids(places: ValuePlaces) -> DecodedColumn:
    return columnar.uuids(places.numbers("V16"), places.valid), None


def _decode_intervals(places: ValuePlaces) -> DecodedColumn:
    """Decode intervals as texts; equal ones are formatted once."""
    raw = places.numbers("V16")
    if places.valid is not None:
        raw[~places.valid] = b"\0" * 16
    different, indices = np.unique(raw.view("S16"), return_inverse=True)
    type_ = ServerType(_INTERVAL, "interval")
    distinct = different.view("V16").tolist()
    values, wrong = _read_values(distinct, lambda one: read_binary(type_, one))
    mask = None if places.valid is None else ~places.valid
    texts = pa.array(values, pa.string()).take(pa.array(indices, mask=mask))
    return texts, None if wrong is None else columnar.mask_or_none(wrong[indices])


_SIMPLE: dict[int, Callable[[ValuePlaces], DecodedColumn]] = {
    16: _decode_booleans, 17: _decode_bytes, 20: _number_decoder(">i8", pa.int64), 21: _number_decoder(">i2", pa.int16),
    23: _number_decoder(">i4", pa.int32), 26: _number_decoder(">u4", pa.int64), 700: _number_decoder(">f4", pa.float32),
    701: _number_decoder(">f8", pa.float64), _JSON: _decode_json, 1082: _decode_dates, 1083: _decode_times,
    1114: _timestamp_decoder(None), 1184: _timestamp_decoder("UTC"), 2950: _decode_uuids, _JSONB: _decode_jsonb,
    **dict.fromkeys(TEXTS, _decode_texts), BLANKED: _decode_blanked,
}  # fmt: skip


def _decode_values(type_: ServerType, places: ValuePlaces, reader: Callable[[ServerType, Any], Any]) -> DecodedColumn:
    """Decode a column value by value."""
    values, bad = _read_values(places.values(), lambda raw: reader(type_, raw))
    return pa.array(values, arrow_type(supported_type(type_))), bad


def _read_values(raw_values: list[Any], reader: Callable[[Any], Any]) -> tuple[list[Any], Mask | None]:
    values, bad = [], []
    for place, raw in enumerate(raw_values):
        try:
            values.append(None if raw is None else reader(raw))
        except UnfitError:
            values.append(None)
            bad.append(place)
    if not bad:
        return values, None
    mask = np.zeros(len(raw_values), bool)
    mask[bad] = True
    return values, mask


# --- numerics ---------------------------------------------------------------------------------------------------------

_POWERS = np.array([10**power for power in range(19)], np.int64)
_NARROW = 18
"""The number of digits that fit into eight bytes."""
_MOST_GROUPS = 12
"""The most groups of four digits of a number whose digits may all be significant."""
_NEGATIVE = 0x4000
_EXACT = Context(prec=2 * MOST_DIGITS)


def _decode_numerics(type_: ServerType, places: ValuePlaces) -> DecodedColumn:
    """Decode decimals: most as 64-bit integers, long ones in four limbs of twelve digits, others value by value."""
    target = supported_type(type_)
    scale = target.scale or 0
    block, starts, valid = places.block, places.starts, places.valid
    groups = block.i2[starts].astype(np.int64)
    weight = block.i2[starts + 2].astype(np.int64)
    sign = block.view(">u2")[starts + 4].astype(np.int64)
    if valid is not None:
        groups, weight, sign = np.where(valid, groups, 0), np.where(valid, weight, 0), np.where(valid, sign, 0)
    before = 4 * (weight + 1) + scale
    odd = (sign & ~_NEGATIVE != 0) | (groups > _MOST_GROUPS) | (np.abs(weight) > _MOST_GROUPS)
    wide = (before > _NARROW) & (groups > 0) & ~odd
    groups = np.where(wide | odd, 0, groups)
    values, bad = _sum_groups(block, starts, groups, weight, scale)
    values = np.where(sign == _NEGATIVE, -values, values)
    arrow = arrow_type(target)
    if not wide.any() and not odd.any():
        return columnar.decimals(values, valid, arrow), columnar.mask_or_none(bad)
    at, words = np.flatnonzero(wide), np.empty((0, 2), np.uint64)
    if len(at):
        words, wrong = _sum_limbs(block, starts[at], weight[at], sign[at] == _NEGATIVE, scale)
        bad[at] |= wrong
    more = np.flatnonzero(odd)
    if len(more):
        raw = [
            block.slice(int(start), int(length))
            for start, length in zip(starts[more], places.lengths[more], strict=True)
        ]
        numbers, wrong_ones = _read_values(raw, lambda one: read_binary(type_, one))
        bad[more] |= False if wrong_ones is None else wrong_ones
        whole = [0 if number is None else int(number.scaleb(scale, _EXACT)) for number in numbers]
        pairs = b"".join(number.to_bytes(16, "little", signed=True) for number in whole)
        at = np.concatenate([at, more])
        words = np.concatenate([words, np.frombuffer(pairs, np.uint64).reshape(-1, 2)])
    return columnar.decimals(values, valid, arrow, (at, words)), columnar.mask_or_none(bad)


def _sum_groups(
    block: Block, starts: Offsets, groups: NDArray[np.int64], weight: NDArray[np.int64], scale: int
) -> tuple[NDArray[np.int64], Mask]:
    """Return integers of up to 18 digits, and the mask of numbers with more fractional digits than the scale."""
    values = np.zeros(len(starts), np.int64)
    bad = np.zeros(len(starts), bool)
    for number in range(int(groups.max(initial=0))):
        digit = np.where(groups > number, block.i2[np.minimum(starts + 8 + 2 * number, block.size)], 0).astype(np.int64)
        exponent = 4 * (weight - number) + scale
        if int(exponent.min(initial=0)) >= 0:
            values += digit * _POWERS[np.minimum(exponent, _NARROW)]
            continue
        cut = _POWERS[np.clip(-exponent, 0, 4)]
        values += (digit // cut) * _POWERS[np.clip(exponent, 0, _NARROW)]
        bad |= digit % cut != 0
    return values, bad


def _sum_limbs(
    block: Block, starts: Offsets, weight: NDArray[np.int64], negative: Mask, scale: int
) -> tuple[NDArray[np.uint64], Mask]:
    """Return the words of integers of up to 38 digits, and the mask of numbers that do not fit."""
    groups = block.i2[starts].astype(np.int64)
    limbs = [np.zeros(len(starts), np.int64) for _ in range(5)]
    bad = np.zeros(len(starts), bool)
    for number in range(int(groups.max(initial=0))):
        digit = np.where(groups > number, block.i2[np.minimum(starts + 8 + 2 * number, block.size)], 0).astype(np.int64)
        exponent = 4 * (weight - number) + scale
        cut = _POWERS[np.clip(-exponent, 0, 4)]
        bad |= digit % cut != 0
        limb, within = np.divmod(np.maximum(exponent, 0), 12)
        part = (digit // cut) * _POWERS[within]
        bad |= (limb > 3) & (part != 0)
        for place in range(4):
            limbs[place] += np.where(limb == place, part, 0)
    for place in range(4):
        limbs[place + 1] += limbs[place] // LIMB
        limbs[place] %= LIMB
    bad |= (limbs[4] != 0) | (limbs[3] >= 10 ** (MOST_DIGITS - 36))
    limbs[3] = np.where(bad, 0, limbs[3])
    return columnar.wide_words(limbs[:4], negative), bad


# --- arrays and composites --------------------------------------------------------------------------------------------

_FEW = 32
"""Longer arrays are walked one by one."""


def _decode_arrays(type_: ServerType, places: ValuePlaces) -> DecodedColumn:
    """Decode arrays that have the declared number of dimensions and subscripts from 1."""
    element = element_type(type_)
    wanted = levels(supported_type(type_))
    block, starts, valid = places.block, places.starts, places.valid
    has = block.i4[starts].astype(np.int64)
    bad = (has != 0) & ((has != wanted) | (block.view(">u4")[np.minimum(starts + 8, block.size)] != element.oid))
    if valid is not None:
        bad &= valid
    full = (has != 0) & ~bad if valid is None else (has != 0) & ~bad & valid
    sizes = []
    for number in range(wanted):
        at = np.where(full, starts + 12 + 8 * number, 0)
        lower = np.where(full, block.i4[at + 4], 1)
        bad |= lower != 1
        sizes.append(np.where(full, block.i4[at], 0).astype(np.int64))
    full &= ~bad
    sizes = [np.where(full, size, 0) for size in sizes]
    total = np.prod(sizes, axis=0)
    elements = _locate_elements(replace(places, starts=np.where(full, starts + 12 + 8 * wanted, starts)), total)
    values, wrong = binary_column(element, elements)
    if wrong is not None:
        bad |= _has_wrong_element(wrong, total)
    count = np.ones(len(places), np.int64)
    layers = []
    for size in sizes:
        layers.append(np.repeat(size, count))
        count *= size
    for layer, level in zip(reversed(layers), reversed(range(wanted)), strict=True):
        offsets = np.zeros(len(layer) + 1, np.int32)
        np.cumsum(layer, out=offsets[1:])
        mask = columnar.bitmap(valid) if level == 0 else None
        buffers = [mask, pa.py_buffer(offsets)]
        values = pa.Array.from_buffers(pa.list_(values.type), len(layer), buffers, children=[values])
    return values, columnar.mask_or_none(bad)


def _has_wrong_element(wrong: Mask, total: NDArray[np.int64]) -> Mask:
    """Return the mask of arrays with a wrong element."""
    owners = np.repeat(np.arange(len(total)), total)
    return np.bincount(owners[wrong], minlength=len(total)) > 0


def _locate_elements(places: ValuePlaces, total: NDArray[np.int64]) -> ValuePlaces:
    """Return the places of the elements of arrays, array after array."""
    block, at = places.block, places.starts.copy()
    first = np.cumsum(total) - total
    count = int(total.sum())
    starts, lengths = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for number in range(min(int(total.max(initial=0)), _FEW)):
        live = np.flatnonzero(total > number)
        present = at[live]
        length = block.i4[present].astype(np.int64)
        starts[first[live] + number], lengths[first[live] + number] = present + 4, length
        at[live] = present + 4 + np.maximum(length, 0)
    for row in np.flatnonzero(total > _FEW).tolist():
        position = int(at[row])
        for place in range(int(first[row]) + _FEW, int(first[row] + total[row])):
            size = int.from_bytes(block.raw[position : position + 4], "big", signed=True)
            starts[place], lengths[place] = position + 4, size
            position += 4 + max(size, 0)
    valid = lengths >= 0
    return ValuePlaces(block, starts, np.maximum(lengths, 0), None if valid.all() else valid)


def _decode_composites(type_: ServerType, places: ValuePlaces) -> DecodedColumn:
    block, valid = places.block, places.valid
    bad = block.i4[places.starts] != len(type_.fields)
    if valid is not None:
        bad &= valid
    intact = ~bad if valid is None else valid & ~bad
    at, children = places.starts + 4, []
    at = np.where(intact, at, places.starts)
    wrong: Mask | None = None
    for _, field in type_.fields:
        oids = block.view(">u4")[np.minimum(at, block.size)]
        bad |= intact & (oids != field.oid)
        intact &= ~bad
        length = np.where(intact, block.i4[np.where(intact, at + 4, 0)], -1).astype(np.int64)
        start = np.where(intact, at + 8, at)
        has = intact & (length >= 0)
        at = start + np.maximum(length, 0)
        field_places = ValuePlaces(block, start, np.maximum(length, 0), None if has.all() else has)
        child, misfit = binary_column(field, field_places)
        children.append(child)
        wrong = mask_or(wrong, misfit)
    fields = list(arrow_type(supported_type(type_)))
    mask = None if valid is None else pa.array(~valid)
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask), columnar.mask_or_none(
        bad if wrong is None else bad | wrong
    )


# --- text -------------------------------------------------------------------------------------------------------------

_CAST = frozenset(
    {
        "smallint",
        "integer",
        "bigint",
        "uint4",
        "real",
        "double precision",
        "date",
        "timestamp",
        "timestamptz",
        "numeric",
    }
)
"""Types whose texts Arrow parses."""


def text_column(type_: ServerType, places: ValuePlaces) -> DecodedColumn:
    """Decode a column that the output function of a type wrote, in a session of ISO dates in UTC."""
    target = supported_type(type_)
    if type_.bare.oid == BLANKED:
        return _decode_blanked(places)
    texts, bad = _decode_texts(places)
    arrow = arrow_type(target)
    if target.name in ("text", "uuid"):
        return texts, bad
    if target.name == "jsonb" and type_.bare.oid == _JSONB:
        return _normalize_jsonb(texts, bad)
    if target.name == "jsonb":
        return as_jsonb(texts, bad)
    if target.name == "boolean":
        return pc.equal(texts, "t"), bad
    if target.name in _CAST:
        try:
            cast = texts.cast(arrow)
        except pa.ArrowInvalid:
            pass
        else:
            return cast, mask_or(bad, _find_beyond_years(cast, target.name))
    values, wrong = _read_values(texts.to_pylist(), lambda text: read_text(type_, text))
    return pa.array(values, arrow), mask_or(bad, wrong)


def _find_beyond_years(values: pa.Array, name: str) -> Mask | None:
    """Return the mask of dates and times outside the years 1 to 9999."""
    if name not in ("date", "timestamp", "timestamptz"):
        return None
    first, last = (FIRST_DAY, LAST_DAY) if name == "date" else (FIRST_DAY * DAY_US, (LAST_DAY + 1) * DAY_US - 1)
    whole = pa.int32() if name == "date" else pa.int64()
    numbers = np.frombuffer(values.buffers()[1], whole.to_pandas_dtype())[: len(values)].astype(np.int64)
    valid = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
    return _find_outside(numbers, first, last, valid)
