"""Places of one type's values in a block, as Postgres sends them → an Arrow column, and which values do not fit.

What is said of a value that does not fit, `value` says; its place in the column has anything.
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
from sinkql.connectors.postgres.type import BLANKED, NUMERIC_OID, ServerColumn, ServerType, sql_type
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

Found = tuple[pa.Array, Mask | None]
"""A column, and where its values do not fit; None: nowhere."""

TEXTS = frozenset({19, 25, BLANKED, 1043})
"""Types whose binary form is their text."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where values stand in a block, none before the end of an earlier one; `valid` as in `columnar`."""

    block: Block
    starts: Offsets
    lengths: Offsets
    valid: Mask | None

    def __len__(self) -> int:
        return len(self.starts)

    def values(self) -> list[bytes | None]:
        """Return what stands there."""
        raw = self.block.raw
        found: list[bytes | None] = [
            raw[at : at + length] for at, length in zip(self.starts.tolist(), self.lengths.tolist(), strict=True)
        ]
        if self.valid is not None:
            for place in np.flatnonzero(~self.valid).tolist():
                found[place] = None
        return found


def decode(column: ServerColumn, places: Places, *, binary: bool) -> Found:
    """Return a column of what the server sent."""
    if column.as_text:
        return _json_text(places) if binary and column.type.bare.oid == _JSONB else _texts(places)
    return binary_column(column.type, places) if binary else text_column(column.type, places)


def read(column: ServerColumn, raw: bytes, *, binary: bool) -> Any:
    """Return one value of what the server sent; raises UnfitError, as `decode` has it among those that do not fit."""
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
    """Tell whether what the server sends in binary says a value's text."""
    bare = type_.bare
    return bare.kind == "enum" or bare.oid in (*TEXTS, _JSON, _JSONB)


_JSON, _JSONB, _INTERVAL = 114, 3802, 1186

# --- binary -----------------------------------------------------------------------------------------------------------


def binary_column(type_: ServerType, places: Places) -> Found:
    """Return a column of what a type's send function gave."""
    bare = type_.bare
    match bare.kind:
        case "enum":
            return _texts(places)
        case "array":
            return _arrays(bare, places)
        case "composite":
            return _composites(bare, places)
        case _ if bare.oid == NUMERIC_OID:
            return _numerics(bare, places)
        case _:
            found = _SIMPLE.get(bare.oid)
            return _by_value(bare, places, read_binary) if found is None else found(places)


def _texts(places: Places) -> Found:
    return columnar.texts(places.block, places.starts, places.lengths, places.valid)


def _blanked(places: Places) -> Found:
    """Return texts of a char(n) without the blanks that fill them up, as the server compares them."""
    texts, bad = _texts(places)
    return pc.ascii_rtrim(texts, " "), bad


def _json_text(places: Places) -> Found:
    """Return texts behind a byte that gives their version."""
    starts, lengths = places.starts + 1, np.maximum(places.lengths - 1, 0)
    if places.valid is not None:
        starts = np.where(places.valid, starts, places.starts)
    return columnar.texts(places.block, starts, lengths, places.valid)


def _jsonb(places: Places) -> Found:
    return _written_here(*_json_text(places))


def _written_here(texts: pa.Array, bad: Mask | None) -> Found:
    """Return texts that Postgres made of jsonb with the numbers that have an exponent here, if there are such."""
    characters = texts.buffers()[2]
    long = characters is not None and has_long_number(characters.to_pybytes())
    return as_jsonb(texts, bad) if long else (texts, bad)


def _json(places: Places) -> Found:
    texts, bad = _texts(places)
    return as_jsonb(texts, bad)


def as_jsonb(texts: pa.Array, bad: Mask | None) -> Found:
    """Return texts of JSON as those of jsonb."""
    known = texts.drop_null()
    found = jsonbs(known.to_pylist())
    if found is not None:
        if texts.null_count:
            places = np.cumsum(texts.is_valid().to_numpy(zero_copy_only=False)) - 1
            taken = pa.array(places, mask=texts.is_null().to_numpy(zero_copy_only=False))
            return pa.array(found, pa.string()).take(taken), bad
        return pa.array(found, pa.string()), bad
    values, wrong = _values(texts.to_pylist(), lambda text: read_text(_JSON_TYPE, text))
    return pa.array(values, pa.string()), mask_or(bad, wrong)


_JSON_TYPE = ServerType(_JSON, "json")


def _bytes(places: Places) -> Found:
    return columnar.binaries(places.block, places.starts, places.lengths, places.valid), None


def _booleans(places: Places) -> Found:
    return columnar.booleans(places.block.bytes[places.starts] != 0, places.valid), None


def _numbers(form: str, type_: Any) -> Callable[[Places], Found]:
    """Return what decodes numbers of a form into an Arrow type, as wide or wider."""

    def found(places: Places) -> Found:
        arrow = type_()
        values = places.block.view(form)[places.starts].astype(arrow.to_pandas_dtype())
        return columnar.fixed_width(values, places.valid, arrow), None

    return found


def _dates(places: Places) -> Found:
    days = places.block.i4[places.starts].astype(np.int64) + EPOCH_DAY
    bad = _outside(days, FIRST_DAY, LAST_DAY, places.valid)
    return columnar.fixed_width(days.astype(np.int32), places.valid, pa.date32()), bad


def _moments(zone: str | None) -> Callable[[Places], Found]:
    def found(places: Places) -> Found:
        micros = places.block.i8[places.starts].astype(np.int64)
        bad = _outside(micros, FIRST_DAY * DAY_US - EPOCH_US, (LAST_DAY + 1) * DAY_US - EPOCH_US - 1, places.valid)
        return columnar.fixed_width(micros + EPOCH_US, places.valid, pa.timestamp("us", zone)), bad

    return found


def _times(places: Places) -> Found:
    micros = places.block.i8[places.starts].astype(np.int64)
    return columnar.fixed_width(micros, places.valid, pa.time64("us")), _outside(micros, 0, DAY_US - 1, places.valid)


def _outside(values: NDArray[np.int64], first: int, last: int, valid: Mask | None) -> Mask | None:
    bad = (values < first) | (values > last)
    return columnar.mask_or_none(bad if valid is None else bad & valid)


def _uuids(places: Places) -> Found:
    return columnar.uuids(places.block, places.starts, places.valid), None


def _intervals(places: Places) -> Found:
    """Return the texts of intervals: each that differs is written once."""
    raw = places.block.view("V16")[places.starts]
    if places.valid is not None:
        raw[~places.valid] = b"\0" * 16
    different, which = np.unique(raw.view("S16"), return_inverse=True)
    type_ = ServerType(_INTERVAL, "interval")
    each = different.view("V16").tolist()
    values, wrong = _values(each, lambda one: read_binary(type_, one))
    mask = None if places.valid is None else ~places.valid
    found = pa.array(values, pa.string()).take(pa.array(which, mask=mask))
    return found, None if wrong is None else columnar.mask_or_none(wrong[which])


_SIMPLE: dict[int, Callable[[Places], Found]] = {
    16: _booleans, 17: _bytes, 20: _numbers(">i8", pa.int64), 21: _numbers(">i2", pa.int16),
    23: _numbers(">i4", pa.int32), 26: _numbers(">u4", pa.int64), _JSON: _json, 700: _numbers(">f4", pa.float32),
    701: _numbers(">f8", pa.float64), 1082: _dates, 1083: _times, 1114: _moments(None), 1184: _moments("UTC"),
    2950: _uuids, _JSONB: _jsonb, **dict.fromkeys(TEXTS, _texts), BLANKED: _blanked,
}  # fmt: skip


def _arrow_type(type_: ServerType) -> pa.DataType:
    target = sql_type(type_)
    assert target is not None
    return arrow_type(target)


def _by_value(type_: ServerType, places: Places, reader: Callable[[ServerType, Any], Any]) -> Found:
    """Return a column value by value."""
    values, bad = _values(places.values(), lambda raw: reader(type_, raw))
    return pa.array(values, _arrow_type(type_)), bad


def _values(given: list[Any], reader: Callable[[Any], Any]) -> tuple[list[Any], Mask | None]:
    found, bad = [], []
    for place, each in enumerate(given):
        try:
            found.append(None if each is None else reader(each))
        except UnfitError:
            found.append(None)
            bad.append(place)
    if not bad:
        return found, None
    mask = np.zeros(len(given), bool)
    mask[bad] = True
    return found, mask


# --- numerics ---------------------------------------------------------------------------------------------------------

_POWERS = np.array([10**each for each in range(19)], np.int64)
_NARROW = 18
"""How many digits fit into eight bytes."""
_MOST_GROUPS = 12
"""How many groups of four digits a number may have whose digits all may count."""
_NEGATIVE = 0x4000
_EXACT = Context(prec=2 * MOST_DIGITS)


def _numerics(type_: ServerType, places: Places) -> Found:
    """Return decimals: most by eight-byte numbers, others by four limbs of twelve digits, odd ones value by value."""
    target = sql_type(type_)
    assert target is not None
    assert target.scale is not None
    block, starts, valid = places.block, places.starts, places.valid
    groups = block.i2[starts].astype(np.int64)
    weight = block.i2[starts + 2].astype(np.int64)
    sign = block.view(">u2")[starts + 4].astype(np.int64)
    if valid is not None:
        groups, weight, sign = np.where(valid, groups, 0), np.where(valid, weight, 0), np.where(valid, sign, 0)
    before = 4 * (weight + 1) + target.scale
    odd = (sign & ~_NEGATIVE != 0) | (groups > _MOST_GROUPS) | (np.abs(weight) > _MOST_GROUPS)
    wide = (before > _NARROW) & (groups > 0) & ~odd
    groups = np.where(wide | odd, 0, groups)
    values, bad = _narrow(block, starts, groups, weight, target.scale)
    values = np.where(sign == _NEGATIVE, -values, values)
    arrow = arrow_type(target)
    if not wide.any() and not odd.any():
        return columnar.decimals(values, valid, arrow), columnar.mask_or_none(bad)
    at, words = np.flatnonzero(wide), np.empty((0, 2), np.uint64)
    if len(at):
        words, wrong = _wide(block, starts[at], weight[at], sign[at] == _NEGATIVE, target.scale)
        bad[at] |= wrong
    more = np.flatnonzero(odd)
    if len(more):
        raw = [
            block.slice(int(start), int(length))
            for start, length in zip(starts[more], places.lengths[more], strict=True)
        ]
        found, wrong_ones = _values(raw, lambda one: read_binary(type_, one))
        bad[more] |= False if wrong_ones is None else wrong_ones
        whole = [0 if each is None else int(each.scaleb(target.scale, _EXACT)) for each in found]
        pairs = b"".join(each.to_bytes(16, "little", signed=True) for each in whole)
        at = np.concatenate([at, more])
        words = np.concatenate([words, np.frombuffer(pairs, np.uint64).reshape(-1, 2)])
    return columnar.decimals(values, valid, arrow, (at, words)), columnar.mask_or_none(bad)


def _narrow(
    block: Block, starts: Offsets, groups: NDArray[np.int64], weight: NDArray[np.int64], scale: int
) -> tuple[NDArray[np.int64], Mask]:
    """Return whole numbers of up to 18 digits, and which have more digits behind the point than the scale."""
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


def _wide(
    block: Block, starts: Offsets, weight: NDArray[np.int64], negative: Mask, scale: int
) -> tuple[NDArray[np.uint64], Mask]:
    """Return the words of whole numbers of up to 38 digits, and which do not fit."""
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
"""Arrays of more elements are walked one by one."""


def _arrays(type_: ServerType, places: Places) -> Found:
    """Return arrays whose number of dimensions is the declared one, and whose subscripts begin with 1."""
    assert type_.element is not None
    target = sql_type(type_)
    assert target is not None
    wanted = levels(target)
    block, starts, valid = places.block, places.starts, places.valid
    has = block.i4[starts].astype(np.int64)
    bad = (has != 0) & ((has != wanted) | (block.view(">u4")[np.minimum(starts + 8, block.size)] != type_.element.oid))
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
    sizes = [np.where(full, each, 0) for each in sizes]
    total = np.prod(sizes, axis=0)
    elements = _elements(replace(places, starts=np.where(full, starts + 12 + 8 * wanted, starts)), total)
    found, wrong = binary_column(type_.element, elements)
    if wrong is not None:
        bad |= _any_in(wrong, total)
    count = np.ones(len(places), np.int64)
    layers = []
    for size in sizes:
        layers.append(np.repeat(size, count))
        count *= size
    for layer, each in zip(reversed(layers), reversed(range(wanted)), strict=True):
        offsets = np.zeros(len(layer) + 1, np.int32)
        np.cumsum(layer, out=offsets[1:])
        mask = columnar.bitmap(valid) if each == 0 else None
        buffers = [mask, pa.py_buffer(offsets)]
        found = pa.Array.from_buffers(pa.list_(found.type), len(layer), buffers, children=[found])
    return found, columnar.mask_or_none(bad)


def _any_in(wrong: Mask, total: NDArray[np.int64]) -> Mask:
    """Return which arrays have an element that is wrong."""
    whose = np.repeat(np.arange(len(total)), total)
    return np.bincount(whose[wrong], minlength=len(total)) > 0


def _elements(places: Places, total: NDArray[np.int64]) -> Places:
    """Return where the elements of arrays stand, of one array after the other."""
    block, at = places.block, places.starts.copy()
    first = np.cumsum(total) - total
    count = int(total.sum())
    starts, lengths = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for number in range(min(int(total.max(initial=0)), _FEW)):
        live = np.flatnonzero(total > number)
        here = at[live]
        length = block.i4[here].astype(np.int64)
        starts[first[live] + number], lengths[first[live] + number] = here + 4, length
        at[live] = here + 4 + np.maximum(length, 0)
    for row in np.flatnonzero(total > _FEW).tolist():
        where = int(at[row])
        for place in range(int(first[row]) + _FEW, int(first[row] + total[row])):
            size = int.from_bytes(block.raw[where : where + 4], "big", signed=True)
            starts[place], lengths[place] = where + 4, size
            where += 4 + max(size, 0)
    valid = lengths >= 0
    return Places(block, starts, np.maximum(lengths, 0), None if valid.all() else valid)


def _composites(type_: ServerType, places: Places) -> Found:
    block, valid = places.block, places.valid
    bad = block.i4[places.starts] != len(type_.fields)
    if valid is not None:
        bad &= valid
    known = ~bad if valid is None else valid & ~bad
    at, children = places.starts + 4, []
    at = np.where(known, at, places.starts)
    wrong: Mask | None = None
    for _, field in type_.fields:
        oids = block.view(">u4")[np.minimum(at, block.size)]
        bad |= known & (oids != field.oid)
        known &= ~bad
        length = np.where(known, block.i4[np.where(known, at + 4, 0)], -1).astype(np.int64)
        start = np.where(known, at + 8, at)
        has = known & (length >= 0)
        at = start + np.maximum(length, 0)
        given = Places(block, start, np.maximum(length, 0), None if has.all() else has)
        child, misfit = binary_column(field, given)
        children.append(child)
        wrong = mask_or(wrong, misfit)
    fields = list(_arrow_type(type_))
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
"""Types whose texts Arrow reads."""


def text_column(type_: ServerType, places: Places) -> Found:
    """Return a column of what a type's output function gave, in a session of ISO dates in UTC."""
    target = sql_type(type_)
    assert target is not None
    if type_.bare.oid == BLANKED:
        return _blanked(places)
    texts, bad = _texts(places)
    arrow = arrow_type(target)
    if target.name in ("text", "uuid"):
        return texts, bad
    if target.name == "jsonb" and type_.bare.oid == _JSONB:
        return _written_here(texts, bad)
    if target.name == "jsonb":
        return as_jsonb(texts, bad)
    if target.name == "boolean":
        return pc.equal(texts, "t"), bad
    if target.name in _CAST:
        try:
            found = texts.cast(arrow)
        except pa.ArrowInvalid:
            pass
        else:
            return found, mask_or(bad, _beyond(found, target.name))
    values, wrong = _values(texts.to_pylist(), lambda text: read_text(type_, text))
    return pa.array(values, arrow), mask_or(bad, wrong)


def _beyond(found: pa.Array, name: str) -> Mask | None:
    """Return which dates and times are outside of the years 1 to 9999."""
    if name not in ("date", "timestamp", "timestamptz"):
        return None
    first, last = (FIRST_DAY, LAST_DAY) if name == "date" else (FIRST_DAY * DAY_US, (LAST_DAY + 1) * DAY_US - 1)
    whole = pa.int32() if name == "date" else pa.int64()
    numbers = np.frombuffer(found.buffers()[1], whole.to_pandas_dtype())[: len(found)].astype(np.int64)
    valid = found.is_valid().to_numpy(zero_copy_only=False) if found.null_count else None
    return _outside(numbers, first, last, valid)
