"""Encode rows as JSON text, compute keys, and convert rows to Arrow columns. Equal rows have equal texts.

The text omits NULLs at the end of a row, so that new columns do not change existing rows.

Values are Python objects: bool, int, float, Decimal, str (text, uuid, jsonb), bytes, date, time, None. A datetime has
no zone for timestamp, and UTC for timestamptz. Arrays, lists and records are tuples; maps are tuples of pairs by key.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

from sinkql import logical
from sinkql.connector_api.types import arrow_type
from sinkql.logical.nested import entries

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[Any, ...]
_EXACT = Context(prec=60)


def normal(value: Any, type_: logical.Type) -> Any:
    """Return a value in the form of stored rows. Raise ValueError or ArithmeticError if it does not fit the type."""
    if value is None:
        return None
    match type_.name:
        case "numeric":
            return _EXACT.plus(_EXACT.quantize(value, Decimal(1).scaleb(-(type_.scale or 0))))  # removes the sign of -0
        case "uint8":
            return int(value)
        case "real":
            return struct.unpack("f", struct.pack("f", value))[0]
        case "timestamptz":
            return value.astimezone(UTC)
        case "array" | "list":
            return tuple(normal(item, type_.item) for item in value)
        case "map":
            return tuple((key, normal(item, type_.value)) for key, item in entries(value))
        case "record":
            return tuple(normal(item, field.type) for item, field in zip(value, type_.fields, strict=True))
        case _:
            return value


def _digits(value: Decimal) -> str:
    return format(value, "f")


_ENCODE: dict[str, Callable[[Any], Any]] = {
    "numeric": _digits,
    "uint8": int,
    "date": date.isoformat,
    "time": time.isoformat,
    "timestamp": datetime.isoformat,
    "timestamptz": datetime.isoformat,
    "bytea": bytes.hex,
}
_DECODE: dict[str, Callable[[Any], Any]] = {
    "numeric": Decimal,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "timestamptz": datetime.fromisoformat,
    "bytea": bytes.fromhex,
}


def _coder(type_: logical.Type, coders: Mapping[str, Callable[[Any], Any]]) -> Callable[[Any], Any] | None:
    """Return the encoder or decoder of a type, None if values need none."""
    if type_.name == "record":
        fields = [_coder(item.type, coders) or _identity for item in type_.fields]
        return lambda value: tuple(
            None if item is None else coder(item) for item, coder in zip(value, fields, strict=True)
        )
    if type_.element is None:
        return coders.get(type_.name)
    element_coder = _coder(type_.element, coders) or _identity
    return lambda value: tuple(None if item is None else element_coder(item) for item in value)


def _identity(value: Any) -> Any:
    return value


class NarrowError(Exception):
    """A column cannot hold a value exactly, because its type was widened after the column was planned."""

    def __init__(self, place: int) -> None:
        super().__init__(f"column {place}")
        self.place = place


class Codec:
    """An encoder and decoder of rows."""

    def __init__(self, types: Sequence[logical.Type]) -> None:
        self.types = tuple(types)
        self._encoders = [_coder(type_, _ENCODE) for type_ in types]
        decoders = [_coder(type_, _DECODE) for type_ in types]
        self._decoders = [(place, decoder) for place, decoder in enumerate(decoders) if decoder is not None]

    def encode(self, row: Row) -> str:
        """Return the text of a row."""
        values = [
            value if encoder is None or value is None else encoder(value)
            for value, encoder in zip(row, self._encoders, strict=True)
        ]
        while values and values[-1] is None:
            values.pop()
        return json.dumps(values, ensure_ascii=False, separators=(",", ":"))

    def decode(self, text: str) -> Row:
        """Return the row of a text."""
        values: list[Any] = json.loads(text)[: len(self.types)]
        values += [None] * (len(self.types) - len(values))
        for place, decoder in self._decoders:
            if values[place] is not None:
                values[place] = decoder(values[place])
        return tuple(values)

    def key(self, row: Row, places: Sequence[int]) -> str | None:
        """Return the text of a key, equal for equal keys; None if a part is NULL, which equals nothing."""
        parts = []
        for place in places:
            value, encoder = row[place], self._encoders[place]
            if value is None:
                return None
            if isinstance(value, float):
                value += 0.0  # zero has one sign as a key
            parts.append(value if encoder is None else encoder(value))
        return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))

    def arrays(self, rows: Iterable[Row]) -> list[pa.Array]:
        """Return the columns of rows as Arrow arrays. Raise NarrowError if a value does not fit."""
        columns = list(zip(*rows, strict=True)) or [()] * len(self.types)
        arrays = []
        for place, (column, type_) in enumerate(zip(columns, self.types, strict=True)):
            array = _exact_array(column, type_)
            if array is None:
                raise NarrowError(place)
            arrays.append(array)
        return arrays


def _exact_array(column: Sequence[Any], type_: logical.Type) -> pa.Array | None:
    """Return a column as an Arrow array, None if the type cannot hold all values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if type_.name == "real":  # Arrow would round the values
        doubles = pa.array(column, pa.float64())
        floats = doubles.cast(pa.float32())
        exact = pc.or_(pc.equal(floats.cast(pa.float64()), doubles), pc.is_nan(doubles))
        return floats if pc.all(exact).as_py() is not False else None
    try:
        return pa.array(column, arrow_type(type_))
    except (pa.ArrowInvalid, OverflowError):
        return None
