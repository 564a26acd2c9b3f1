"""A row's values ↔ the JSON text that stands for it: equal rows have equal texts; keys; rows → Arrow columns.

NULLs at the end of a row are left out of its text, so that a row stays the same where columns come after its own.

Values are Python's: bool, int, float, Decimal, str (text, uuid, jsonb), bytes, date, time, datetime (without a zone for
timestamp, in UTC for timestamptz), tuple (arrays, lists and records; maps as keys and values by key), None.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

from sinkql import logical
from sinkql.connector_api.types import arrow_type, parse_type
from sinkql.logical.nested import entries

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[Any, ...]
_EXACT = Context(prec=60)


def normal(value: Any, type_: logical.Type) -> Any:
    """Return a value as rows hold it; raises ValueError or ArithmeticError for one that does not fit the type."""
    if value is None:
        return None
    match type_.name:
        case "numeric":
            return _EXACT.plus(_EXACT.quantize(value, Decimal(1).scaleb(-(type_.scale or 0))))  # there is no -0
        case "uint8":
            return int(value)
        case "real":
            return struct.unpack("f", struct.pack("f", value))[0]
        case "timestamptz":
            return value.astimezone(UTC)
        case "array" | "list":
            element = type_.element
            assert element is not None
            return tuple(normal(each, element) for each in value)
        case "map":
            return tuple((key, normal(each, type_.value)) for key, each in entries(value))
        case "record":
            return tuple(normal(each, field.type) for each, field in zip(value, type_.fields, strict=True))
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
    """Return what encodes or decodes a value; None where it stays as it is."""
    if type_.name == "record":
        fields = [_coder(each.type, coders) or _same for each in type_.fields]
        return lambda value: tuple(
            None if each is None else coder(each) for each, coder in zip(value, fields, strict=True)
        )
    if type_.element is None:
        return coders.get(type_.name)
    of_element = _coder(type_.element, coders) or _same
    return lambda value: tuple(None if each is None else of_element(each) for each in value)


def _same(value: Any) -> Any:
    return value


class NarrowError(Exception):
    """A column cannot hold a value of a row exactly: its type became a wider one after the column was read."""

    def __init__(self, place: int) -> None:
        super().__init__(f"column {place}")
        self.place = place


class Codec:
    """Encode and decode rows of columns of these types (canonical texts)."""

    def __init__(self, types: Sequence[str]) -> None:
        self.types = tuple(types)
        found = [parse_type(text) for text in types]
        self._encoders = [_coder(type_, _ENCODE) for type_ in found]
        decoders = [_coder(type_, _DECODE) for type_ in found]
        self._decoders = [(place, decoder) for place, decoder in enumerate(decoders) if decoder is not None]

    def encode(self, row: Row) -> str:
        """Return a row's text."""
        values = [
            value if encoder is None or value is None else encoder(value)
            for value, encoder in zip(row, self._encoders, strict=True)
        ]
        while values and values[-1] is None:
            values.pop()
        return json.dumps(values, ensure_ascii=False, separators=(",", ":"))

    def decode(self, text: str) -> Row:
        """Return the row that a text stands for."""
        values: list[Any] = json.loads(text)[: len(self.types)]
        values += [None] * (len(self.types) - len(values))
        for place, decoder in self._decoders:
            if values[place] is not None:
                values[place] = decoder(values[place])
        return tuple(values)

    def key(self, row: Row, places: Sequence[int]) -> str | None:
        """Return a key's text, the same for equal keys; None if a part is NULL, which equals nothing."""
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
        """Return the rows' columns as Arrow arrays; raises NarrowError."""
        columns = list(zip(*rows, strict=True)) or [()] * len(self.types)
        found = []
        for place, (column, text) in enumerate(zip(columns, self.types, strict=True)):
            array = _exactly(column, text)
            if array is None:
                raise NarrowError(place)
            found.append(array)
        return found


def _exactly(column: Sequence[Any], type_: str) -> pa.Array | None:
    """Return a column as an Arrow array, None where the type does not hold all its values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if type_ == "real":  # Arrow would round to it
        given = pa.array(column, pa.float64())
        found = given.cast(pa.float32())
        exact = pc.or_(pc.equal(found.cast(pa.float64()), given), pc.is_nan(given))
        return found if pc.all(exact).as_py() is not False else None
    try:
        return pa.array(column, arrow_type(type_))
    except (pa.ArrowInvalid, OverflowError):
        return None
