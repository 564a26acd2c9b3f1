"""Decode lines of JSON to Arrow rows of declared columns, and collect the lines that fail.

Arrow's parser reads blocks in which every column has a type that it reads exactly. A block that it refuses is halved
until few lines are left. Those lines, and lines with other types, are decoded one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, BinaryIO

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from sinkql import codec, physical
from sinkql.connector_api.stream import Decoded, RowFailure, WideError
from sinkql.connector_api.types import arrow_type
from sinkql.decode.csv_records import Records
from sinkql.decode.text_column import Failures, from_text
from sinkql.decode.text_value import record_of, value_of, wanted
from sinkql.logical import Type
from sinkql.logical.jsonb import MOST_LEVELS, nested_deeply
from sinkql.logical.nested import UNEVEN, UnevenError, entries, squared
from sinkql.logical.numeric_type import RANGES
from sinkql.logical.range import SUBTYPES
from sinkql.logical.type import JSONB

_FEW = 32
_SAMPLED = 4
"""The factor from which on a sample decides whether halving is worthwhile."""
_TOGETHER = 4
"""Halving is not worthwhile if Arrow reads less than half of the sampled groups of so many lines."""
_AS_STRING = ("text", "date", "time", "timestamp", "timestamptz", "interval", "uuid", "bytea", *SUBTYPES)
_NESTED = ("array", "list", "map", "record")
_NUMBERS = (*RANGES, "real", "double precision", "numeric")
_UNSIGNED = {"uint2": pa.uint16(), "uint4": pa.uint32(), "uint8": pa.uint64()}
_KINDS = {b'"': "str", b"t": "bool", b"f": "bool", b"[": "array", b"{": "object"}
_BLANK = b" \t\r"
_BLANKS = np.frombuffer(_BLANK, np.uint8)
_ENDLESS = re.compile(rb"[:,\[][ \t\r\n]*-?(?:NaN|Inf)")
_BEFORE_ENDLESS = np.zeros(256, bool)
_BEFORE_ENDLESS[list(b":,[ \t\r\n-")] = True
_EXPONENT = re.compile(rb"[0-9][eE]-[0-9]+[ \t\r\n,}\]]")
_ZEROS = b"0" * 40
_PIECE = 1 << 17
"""The bytes that are scanned several times within the processor's cache."""


class JsonDecoder:
    """Decode streams of whole lines; `whole` reads each line into one jsonb column. Blank lines are ignored."""

    def __init__(self, columns: Sequence[physical.Column], *, whole: bool = False) -> None:
        self._columns = columns
        self._whole = whole
        self._types = [column.type for column in columns]
        self._names = [type_.name for type_ in self._types]
        self._schema = None if whole or {JSONB, *_NESTED} & {*self._names} else self._arrow_schema()
        fields = [(f"f{i}", _decoded_as(name), None) for i, name in enumerate(self._names)]
        renamed = {f"f{i}": column.name for i, column in enumerate(columns)}
        self._decode = msgspec.json.Decoder(msgspec.defstruct("Row", fields, rename=renamed, gc=False)).decode
        self._getters = tuple(attrgetter(f"f{i}") for i in range(len(columns)))

    def decode(self, stream: BinaryIO) -> Iterator[Decoded]:
        """Yield the rows of a stream, in several parts if the values are much larger than their texts."""
        yield from self._parts(_lines(stream.read()))

    def decode_lines(self, lines: Sequence[bytes]) -> Iterator[Decoded]:
        """Yield the rows of lines as `decode` does; the lines have no newline and are not blank."""
        ends = np.cumsum([len(line) + 1 for line in lines]) - 1
        begins = np.concatenate(([0], ends[:-1] + 1))
        yield from self._parts(Records(b"\n".join(lines), begins, ends, 1, b"\n"))

    def rows(self, lines: Records) -> tuple[pa.RecordBatch, Failures]:
        """Return a row for each line, and why some failed; failed rows are meaningless. Raise WideError."""
        failures: Failures = {}
        arrays = self._arrays(lines, 0, failures)
        return pa.record_batch(arrays, names=[column.name for column in self._columns]), failures

    def _parts(self, lines: Records) -> Iterator[Decoded]:
        try:
            batch, failures = self.rows(lines)
        except WideError:
            middle = len(lines) // 2
            yield from self._parts(lines.part(0, middle))
            yield from self._parts(lines.part(middle, len(lines)))
            return
        failed = [RowFailure(lines.line(row), failures[row], lines.raw(row)) for row in sorted(failures)]
        yield Decoded(without(batch, failures), len(lines), failed)

    def _arrays(self, lines: Records, first: int, failures: Failures) -> list[pa.Array]:
        """Return the columns, with NULLs for failed lines."""
        arrays = self._read_with_arrow(lines) if self._schema is not None and len(lines) else None
        if arrays is not None:
            return arrays
        if self._schema is None or len(lines) <= _FEW or self._is_hopeless(lines):
            return self._one_by_one(lines, first, failures)
        middle = len(lines) // 2
        before = self._arrays(lines.part(0, middle), first, failures)
        after = self._arrays(lines.part(middle, len(lines)), first + middle, failures)
        return [pa.concat_arrays(pair) for pair in zip(before, after, strict=True)]

    def _is_hopeless(self, lines: Records) -> bool:
        """Return whether a sample from the middle shows that Arrow reads hardly any part of the lines."""
        if len(lines) <= _SAMPLED * _FEW:
            return False
        middle = len(lines) // 2
        groups = [lines.part(first, first + _TOGETHER) for first in range(middle, middle + _FEW, _TOGETHER)]
        refused = sum(self._read_with_arrow(group) is None for group in groups)
        return 2 * refused >= len(groups)

    # --- through Arrow -----------------------------------------------------------------------------------------------

    def _arrow_schema(self) -> pa.Schema:
        fields = []
        for column, name in zip(self._columns, self._names, strict=True):
            type_ = _UNSIGNED.get(name) or (pa.string() if name in _AS_STRING else arrow_type(column.type))
            if name == "numeric":  # Arrow scales a number before it checks whether it fits
                type_ = pa.decimal256(38, type_.scale)
            fields.append((column.name, type_))
        return pa.schema(fields)

    def _read_with_arrow(self, lines: Records) -> list[pa.Array] | None:
        """Return the columns if Arrow reads all lines as `_one_by_one` does, else None."""
        block = lines.data[lines.begins[0] : lines.ends[-1]]
        if not _are_objects(block, lines):
            return None
        read = pj.ReadOptions(use_threads=False, block_size=len(block) + 1)
        parse = pj.ParseOptions(explicit_schema=self._schema, unexpected_field_behavior="ignore")
        try:
            table = pj.read_json(pa.BufferReader(block), read_options=read, parse_options=parse)
        except pa.ArrowInvalid:
            return None
        if table.num_rows != len(lines):
            return None
        failures: Failures = {}
        zeros = np.zeros(len(lines), bool)
        arrays = []
        for column, chunks in zip(self._columns, table.itercolumns(), strict=True):
            array = self._exact_array(column, pa.concat_arrays(chunks.chunks), zeros, failures)
            if array is None or failures or (array.null_count and not column.nullable):
                return None
            arrays.append(array)
        return arrays if not zeros.any() or not _has_lost_digits(block, lines, np.flatnonzero(zeros)) else None

    def _exact_array(
        self, column: physical.Column, array: pa.Array, zeros: np.ndarray, failures: Failures
    ) -> pa.Array | None:
        """Return an array of Arrow's parser in the column's type; None if it may differ from the text.

        Marks the lines in which a number was read as zero.
        """
        if pa.types.is_string(array.type):
            return from_text(array, column.type, failures)
        if pa.types.is_floating(array.type):
            if pc.all(pc.is_finite(array)).as_py() is False:
                return None
            zeros |= pc.equal(array, pa.scalar(0, array.type)).fill_null(False).to_numpy(zero_copy_only=False)
            return array
        try:
            return array.cast(arrow_type(column.type))
        except pa.ArrowInvalid:
            return None

    # --- one by one --------------------------------------------------------------------------------------------------

    def _one_by_one(self, lines: Records, first: int, failures: Failures) -> list[pa.Array]:
        line_failures: Failures = {}
        if self._whole:
            texts = [self._text(line, number, line_failures) for number, line in enumerate(lines.whole())]
            arrays = [from_text(pa.array(texts, pa.string()), JSONB, line_failures)]
        else:
            rows = [self._row(line, number, line_failures) for number, line in enumerate(lines.whole())]
            arrays = [self._column(place, rows, line_failures) for place in range(len(self._columns))]
        failures |= {first + line: message for line, message in line_failures.items()}
        return arrays

    def _text(self, line: bytes, number: int, failures: Failures) -> str | None:
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            failures[number] = _utf8_error(line, error)
            return None

    def _row(self, line: bytes, number: int, failures: Failures) -> Any:
        if not line.isascii() and self._text(line, number, failures) is None:
            return None
        if line.count(b"[") + line.count(b"{") > MOST_LEVELS and nested_deeply(line.decode()):
            failures[number] = f"it is nested more than {MOST_LEVELS} levels deep"
            return None
        try:
            return self._decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            failures[number] = self._reason(error, line)
            return None

    def _column(self, place: int, rows: Sequence[Any], failures: Failures) -> pa.Array:
        column, name, getter = self._columns[place], self._names[place], self._getters[place]
        values = [None if row is None else getter(row) for row in rows]
        column_failures: Failures = {}
        if name in _NUMBERS:
            texts = _strings([_number(raw, row, column.type, column_failures) for row, raw in enumerate(_raws(values))])
            wrong: Failures = {}
            array = from_text(texts, column.type, wrong)
            column_failures |= {row: wanted(column.type, texts[row].as_py(), quoted=False) for row in wrong}
        elif name in _NESTED:
            nested = [
                _nested_value(raw, row, self._types[place], column_failures) for row, raw in enumerate(_raws(values))
            ]
            array = pa.array(nested, arrow_type(column.type))
        elif name == "boolean":
            array = pa.array(values, pa.bool_())
        else:
            texts = _strings(_raws(values)) if name == "jsonb" else pa.array(values, pa.string())
            array = from_text(texts, column.type, column_failures)
        for row, message in column_failures.items():
            failures.setdefault(row, f'column "{column.name}": {message}')
        if not column.nullable and array.null_count:
            for row in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
                failures.setdefault(row, f'null value in column "{column.name}", which is NOT NULL')
        return array

    def _reason(self, error: Exception, line: bytes) -> str:
        """Return a decoder's message with the user's column names and types."""
        if "truncated" in str(error):
            half = line.rstrip().endswith(b"}") and _SURROGATE.search(line)
            if half:
                return f"{half[0].decode()} is half of a character"
            return "it is not a JSON object: it ends before the object does"
        message, _, path = str(error).partition(" - at `$.")
        name = path.rstrip("`")
        column = next((column for column in self._columns if column.name == name), None)
        if column is None or "got " not in message:
            why = message.removeprefix("JSON is malformed: ")
            return f"it is not a JSON object: {why[0].lower()}{why[1:]}"
        return f'column "{name}": expected {column.type}, got {message.rpartition("got ")[2].strip("`")}'


_SURROGATE = re.compile(rb"\\u[dD][89a-bA-B][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")


def _decoded_as(name: str) -> Any:
    """Return the type that decodes a member; numbers are decoded from their text, which is exact."""
    if name in _NUMBERS or name == "jsonb" or name in _NESTED:
        return msgspec.Raw
    return bool | None if name == "boolean" else str | None


def _nested_value(raw: bytes | None, row: int, type_: Type, failures: Failures) -> Sequence[Any] | None:
    """Return the value of an array or an object, with members decoded as their types say."""
    try:
        value: Sequence[Any] | None = member(raw, type_)
        return value
    except MemberError as error:
        failures[row] = str(error)
        return None


class MemberError(Exception):
    """A member does not fit its type."""


def _items(raw: bytes, type_: Type, element: Type) -> list[Any]:
    if raw[:1] != b"[":
        raise MemberError(f"expected {type_}, got {_KINDS.get(raw[:1], 'number')}")
    try:
        return squared([member(item, element) for item in _raws(_MEMBERS.decode(raw))], type_)
    except UnevenError:
        raise MemberError(UNEVEN) from None


def member(raw: bytes | None, type_: Type) -> Any:
    """Return a value of a type from its JSON; raise MemberError."""
    if raw is None:
        return None
    if type_.name in ("map", "record"):
        return _object(raw, type_)
    if type_.element is not None:
        return _items(raw, type_, type_.element)
    kind, text = _KINDS.get(raw[:1], "number"), raw.decode()
    if kind == "str" and type_.name != "jsonb":
        text = msgspec.json.decode(raw)
    wanted_kinds = {"boolean": ("bool",), "numeric": ("number", "str"), "jsonb": (kind,)}
    if kind not in wanted_kinds.get(type_.name, ("number",) if type_.name in _NUMBERS else ("str",)):
        raise MemberError(f"expected {type_}, got {kind}")
    try:
        return value_of(text, type_)
    except ValueError:
        raise MemberError(wanted(type_, text, quoted=kind == "str")) from None


def _object(raw: bytes, type_: Type) -> tuple[Any, ...]:
    """Return an object's members as a map, with the last of duplicate keys, or as the fields of a record."""
    if raw[:1] != b"{":
        raise MemberError(f"expected {type_}, got {_KINDS.get(raw[:1], 'number')}")
    members = _OBJECT.decode(raw)
    values = dict(zip(members, _raws(list(members.values())), strict=True))
    if type_.name == "map":
        if any("\0" in key for key in values):
            raise MemberError("it has a key with the character U+0000")
        return entries((key, member(value, type_.value)) for key, value in values.items())
    try:
        return record_of([member(values.get(field.name), field.type) for field in type_.fields], type_)
    except ValueError as error:
        raise MemberError(str(error)) from None


_MEMBERS = codec.decoder(list[msgspec.Raw])
_OBJECT = codec.decoder(dict[str, msgspec.Raw])


def _number(raw: bytes | None, row: int, type_: Type, failures: Failures) -> bytes | None:
    """Return a number's text; a numeric may also be a string."""
    kind = None if raw is None else _KINDS.get(raw[:1])
    if raw is None or kind is None:
        return raw
    if kind == "str" and type_.name == "numeric":
        return str(msgspec.json.decode(raw)).encode()
    failures[row] = f"expected {type_}, got {kind}"
    return None


def _raws(values: Sequence[Any]) -> list[bytes | None]:
    """Return the texts of members; JSON's null is NULL, and so is a missing member."""
    raws = [None if value is None else bytes(value) for value in values]
    return [None if raw == b"null" else raw for raw in raws]


def _strings(texts: Sequence[bytes | None]) -> pa.StringArray:
    return pa.array(texts, pa.binary()).cast(pa.string())


def _utf8_error(line: bytes, error: UnicodeDecodeError) -> str:
    return f"invalid UTF-8: 0x{line[error.start]:02x} at byte {error.start + 1}"


def _lines(block: bytes) -> Records:
    """Return the lines of a block that are not blank."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    if block and not block.endswith(b"\n"):
        ends = np.append(ends, len(block))
    begins = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    first = np.frombuffer(block + b" ", np.uint8)[begins]
    is_used = begins < ends
    others = np.flatnonzero(is_used & np.isin(first, _BLANKS)).tolist()
    is_used[[line for line in others if not block[begins[line] : ends[line]].strip(_BLANK)]] = False
    return Records(block, begins[is_used], ends[is_used], 1, b"\n")


def _are_objects(block: bytes, lines: Records) -> bool:
    """Return whether each line can be exactly one object, if a parser finds as many objects as lines.

    Then no object crosses a line end: after `}` and a newline, `{` would have to follow a comma.
    """
    if b"\0" in block or bool((lines.begins == lines.ends).any()) or _endless(block):
        return False
    try:
        block.isascii() or block.decode()
    except UnicodeDecodeError:
        return False
    if not bool((lines.begins[1:] == lines.ends[:-1] + 1).all()):
        return False
    characters = np.frombuffer(lines.data, np.uint8)
    last = characters[lines.ends - 1]
    if b"\r" in block:
        last = np.where(last == ord("\r"), characters[np.maximum(lines.ends - 2, 0)], last)
    opened = characters[lines.begins]
    return bool((opened == ord("{")).all() and (last == ord("}")).all()) and _is_shallow(block, lines)


def _endless(block: bytes) -> bool:
    """Return whether there may be a NaN or an infinity, which Arrow accepts in members without a column.

    Searches for their first characters at the speed of memory: a search for whole words is slow.
    """
    characters = np.frombuffer(block, np.uint8)
    for begin in range(0, len(characters), _PIECE):
        piece = characters[begin : begin + _PIECE]
        first = begin + np.flatnonzero((piece == ord("N")) | (piece == ord("I")))
        first = first[_BEFORE_ENDLESS[characters[first - 1]] & (first < len(characters) - 2)]
        third = characters[first + 2]
        if bool(((third == ord("N")) | (third == ord("f"))).any()):
            return _ENDLESS.search(block) is not None
    return False


def _has_lost_digits(block: bytes, lines: Records, zeros: np.ndarray) -> bool:
    """Return whether a number that is not zero may be read as zero: it ends in e-… or has many zeros.

    Examines only the lines with a zero if they are few. Searches for both forms at the speed of memory: "-" is frequent
    in texts, and a search for two characters is slow.
    """
    if len(zeros) <= len(lines) // 4:
        places = zip(lines.begins[zeros].tolist(), lines.ends[zeros].tolist(), strict=True)
        block = b"\n".join([lines.data[begin:end] for begin, end in places])
    characters = np.frombuffer(block, np.uint8)
    exponents = np.flatnonzero((characters[1:] == ord("-")) & ((characters[:-1] | 0x20) == ord("e")))
    if any(_EXPONENT.match(block, at - 1) for at in exponents.tolist()):
        return True
    words = np.frombuffer(block, np.uint64, len(block) // 8)  # 40 zeros fill at least one of them
    return bool((words == _WORD).any()) and _ZEROS in block


_WORD = np.frombuffer(_ZEROS, np.uint64, 1)[0]


def _is_shallow(block: bytes, lines: Records) -> bool:
    """Return whether no line is nested too deeply; only lines with many brackets are examined.

    Brackets within strings do not count, so the brackets of one line say nothing about another.
    """
    characters = np.frombuffer(block, np.uint8)
    pieces = (characters[begin : begin + _PIECE] for begin in range(0, len(characters), _PIECE))
    if sum(np.count_nonzero((piece & 0xDF) == ord("[")) for piece in pieces) - len(lines) < MOST_LEVELS:  # and "{"
        return True
    opened = np.flatnonzero((characters & 0xDF) == ord("["))
    counts = np.diff(np.searchsorted(opened, lines.ends - lines.begins[0]), prepend=0)
    many = np.flatnonzero(counts > MOST_LEVELS).tolist()
    return not any(nested_deeply(lines.data[lines.begins[line] : lines.ends[line]].decode()) for line in many)


def without(batch: pa.RecordBatch, failures: Failures) -> pa.RecordBatch:
    """Return the batch without the failed rows."""
    if not failures:
        return batch
    is_valid = np.ones(batch.num_rows, bool)
    is_valid[list(failures)] = False
    return batch.filter(pa.array(is_valid))
