"""Bytes of JSON lines → Arrow rows of declared columns, and the lines that do not decode.

Whole blocks go through Arrow's own parser where every column has a type that it reads exactly; a block that it does not
take, and any block with other types, is decoded line by line, so that one bad line is one row error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from sinkql import physical
from sinkql.connector.types import arrow_type, parse_type
from sinkql.connectors.files.convert import Failures, from_text, from_values, jsonb

_FAST = {
    "boolean": pa.bool_(), "smallint": pa.int16(), "integer": pa.int32(), "bigint": pa.int64(), "text": pa.string(),
    "real": pa.float64(), "double precision": pa.float64(),
    "date": pa.string(), "timestamp": pa.string(), "timestamptz": pa.string(),
}  # fmt: skip
_VALUES: dict[str, Any] = {
    "boolean": bool, "smallint": int, "integer": int, "bigint": int, "real": float, "double precision": float,
    "numeric": Decimal,
}  # fmt: skip


@dataclass(slots=True)
class JsonLines:
    """Decode blocks of whole lines into `columns`; `whole` puts each line into one jsonb column."""

    columns: Sequence[physical.Column]
    whole: bool = False
    _fast: pj.ParseOptions | None = field(init=False, default=None)
    _decoder: Any = field(init=False, default=None)
    _getters: tuple[Any, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        names = [parse_type(column.type).name for column in self.columns]
        if not self.whole and all(name in _FAST for name in names):
            schema = pa.schema([(column.name, _FAST[name]) for column, name in zip(self.columns, names, strict=True)])
            self._fast = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        fields = [
            (f"f{i}", msgspec.Raw if name == "jsonb" else _VALUES.get(name, str) | None, None)
            for i, name in enumerate(names)
        ]
        renamed = {f"f{i}": column.name for i, column in enumerate(self.columns)}
        row = msgspec.defstruct("Row", fields, rename=renamed, gc=False)
        self._decoder = msgspec.json.Decoder(row)
        self._getters = tuple(attrgetter(f"f{i}") for i in range(len(self.columns)))

    def decode(self, block: bytes) -> tuple[pa.RecordBatch, dict[int, str], list[bytes]]:
        """Return the rows of a block, the failures by line of the block (blank lines not counted), and the lines.

        The list of lines is empty where nothing failed.
        """
        if self._fast is not None:
            batch = self._decode_fast(block)
            if batch is not None:
                return batch, {}, []
        return self._decode_lines([line for line in block.split(b"\n") if line.strip()])

    def _decode_fast(self, block: bytes) -> pa.RecordBatch | None:
        """Return the block's rows, or None where the line-by-line way must decide."""
        lines = block.count(b"\n") + (0 if block.endswith(b"\n") else 1)
        read = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
        try:
            block.decode()
            table = pj.read_json(pa.BufferReader(block), read_options=read, parse_options=self._fast)
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return None
        if table.num_rows != lines:
            return None
        failures: Failures = {}
        arrays = []
        for column, array in zip(self.columns, table.itercolumns(), strict=True):
            chunk = array.combine_chunks()
            whole = chunk.chunk(0) if isinstance(chunk, pa.ChunkedArray) else chunk
            if pa.types.is_floating(whole.type) and pc.all(pc.is_finite(whole)).as_py() is False:
                return None
            if not column.nullable and whole.null_count:
                return None
            declared = arrow_type(column.type)
            if pa.types.is_string(whole.type) and not pa.types.is_string(declared):
                whole = from_text(whole, column.type, failures)
            arrays.append(whole if whole.type == declared else whole.cast(declared))
        return None if failures else pa.record_batch(arrays, names=[column.name for column in self.columns])

    def _decode_lines(self, lines: list[bytes]) -> tuple[pa.RecordBatch, dict[int, str], list[bytes]]:
        if self.whole:
            return self._decode_whole(lines)
        failures: Failures = {}
        rows = [self._row(line, number, failures) for number, line in enumerate(lines)]
        arrays = []
        for column, getter in zip(self.columns, self._getters, strict=True):
            values = [None if row is None else getter(row) for row in rows]
            found: Failures = {}
            if parse_type(column.type).name == "jsonb":
                array = _documents(values, found)
            else:
                array = from_values(values, column.type, found)
            for number, message in found.items():
                failures.setdefault(number, f'column "{column.name}": {message}')
            if not column.nullable:
                missing = [number for number, value in enumerate(values) if value is None]
                for number in missing:
                    failures.setdefault(number, f'column "{column.name}" is NULL, and it is NOT NULL')
            arrays.append(array)
        batch = pa.record_batch(arrays, names=[column.name for column in self.columns])
        return without(batch, failures), failures, lines if failures else []

    def _decode_whole(self, lines: list[bytes]) -> tuple[pa.RecordBatch, dict[int, str], list[bytes]]:
        failures: Failures = {}
        array = _documents(lines, failures)
        batch = pa.record_batch([array], names=[self.columns[0].name])
        return without(batch, failures), failures, lines if failures else []

    def _row(self, line: bytes, number: int, failures: Failures) -> Any:
        try:
            return self._decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            failures[number] = self._reason(error)
            return None

    def _reason(self, error: Exception) -> str:
        """Return a decoder's message with the user's column names and types."""
        message, _, path = str(error).partition(" - at `$.")
        name = path.rstrip("`")
        column = next((column for column in self.columns if column.name == name), None)
        if column is None:
            return f"it is not a JSON object: {message[0].lower()}{message[1:]}"
        other = "a text that is no number" if "decimal" in message else "a number out of range"
        got = message.rpartition("got ")[2].strip("`") if "got " in message else other
        return f'column "{name}": expected {column.type}, got {got}'


def _documents(values: Sequence[Any], failures: Failures) -> pa.Array:
    found: list[str | None] = []
    for number, value in enumerate(values):
        try:
            text = None if value is None else jsonb(bytes(value).decode())
            found.append(None if text == "null" else text)
        except ValueError as error:
            failures[number] = f"not JSON: {error}"
            found.append(None)
    return pa.array(found, pa.string())


def without(batch: pa.RecordBatch, failures: Failures) -> pa.RecordBatch:
    """Return the batch less the rows that failed."""
    if not failures:
        return batch
    return batch.take(pa.array([row for row in range(batch.num_rows) if row not in failures], pa.int64()))
