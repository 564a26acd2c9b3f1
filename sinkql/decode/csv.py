"""A CSV stream → Arrow rows of declared columns, and the records that do not decode, by the lines they begin in.

Records mean what they mean to Postgres's COPY: an empty field is NULL and a quoted empty one is an empty text. Those in
plain form go through Arrow's parser a block at a time; a block with others is halved, and the last few are read one by
one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain, count
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from sinkql import physical
from sinkql.connector_api.stream import Decoded, RowFailure, UndecodableError, WideError
from sinkql.decode.csv_options import csv_format
from sinkql.decode.csv_records import BOM, Form, Records, Splitter, inside
from sinkql.decode.json_lines import without
from sinkql.decode.text_column import Failures, from_text
from sinkql.errors import in_other_case
from sinkql.regex_repeat import RepeatedPattern

_FEW = 32
_BEYOND = (
    "a quote within field {field}, which does not begin with it, goes on beyond the end of the line: "
    "a field that has quotes is to be quoted as a whole"
)


class CsvRows:
    """Decode CSV streams into `columns`.

    With a header, columns go by name, the one in `names` if that is given, and others in the file are left out; or they
    go `by_position`, and the header is passed over.
    """

    def __init__(
        self,
        columns: Sequence[physical.Column],
        form: Form,
        *,
        header: bool,
        names: Sequence[str] = (),
        by_position: bool = False,
    ) -> None:
        self._columns = columns
        self._names = list(names) or [column.name for column in columns]
        self._form, self._header, self._by_position = form, header, by_position
        self._splitter, self._fields = Splitter(form), Fields(form)

    @classmethod
    def of(cls, options: Mapping[str, Any], columns: Sequence[physical.Column]) -> CsvRows:
        """Return the decoder of a planned format, whose options leave out what is as in `Form`."""
        csv = csv_format(options)
        form = Form(csv.delimiter, csv.quote, csv.escape, csv.null, csv.comment, csv.skip_blank_lines)
        return cls(columns, form, header=csv.header, names=csv.names, by_position=csv.by_position)

    def decode(self, stream: BinaryIO) -> Iterator[Decoded]:
        """Yield the stream's rows by blocks; raises UndecodableError where its header lacks columns."""
        yield from self._rows(self._splitter.blocks(stream), None)

    def decode_after(self, head: bytes, stream: BinaryIO, line: int) -> Iterator[Decoded]:
        """Yield the rows of a stream that goes on in that line of a file, whose beginning is `head`."""
        first = next(self._splitter.blocks(BytesIO(head)), None)
        if first is not None:
            table, named = (self._layout(first), first.raw(0)) if self._header else (None, b"")
            yield from self._rows(self._splitter.blocks(stream, line, first.line_end), table, named)

    def _rows(self, blocks: Iterator[Records], table: _Layout | None, head: bytes = b"") -> Iterator[Decoded]:
        if not self._header:
            table = _Layout(len(self._columns), tuple(range(len(self._columns))))
        for records in blocks:
            if table is None:
                table, body = self._layout(records), records.part(1, len(records))
                head = records.raw(0)
            else:
                body = records
            if records.error is not None:
                yield replace(self._decoded([self._nulls(1)] * len(self._columns), body, {0: records.error}), head=head)
            elif len(body):
                failures: Failures = {}
                for each in self._parts(self._texts(body, table, 0, failures), body, failures):
                    yield replace(each, head=head) if each.failures else each

    def rows(self, records: Records) -> tuple[pa.RecordBatch, Failures]:
        """Return a row for each record by the place of its fields, and why some failed, whose rows mean nothing.

        Raises WideError.
        """
        layout, failures = _Layout(len(self._columns), tuple(range(len(self._columns)))), dict[int, str]()
        if records.data.count(b"\n") < len(records):
            texts = self._texts(records, layout, 0, failures)
        else:
            texts = self._one_by_one(records, layout, 0, failures)
            for record in range(len(records)):
                if b"\n" in records.raw(record) and self._fields.broken(records.raw(record)):
                    failures.setdefault(record, "a newline outside of quotes")
        return self._typed(texts, failures), failures

    def names(self, stream: BinaryIO) -> list[str]:
        """Return the fields of a stream's header, none where there is no line; raises UndecodableError."""
        records = next(self._splitter.blocks(stream), None)
        return self._header_of(records) if records is not None else []

    def named(self, data: bytes, names: Sequence[str] = ()) -> bytes:
        """Return a file's data with other names in its header: without `names` its own, made such that all differ.

        Raises UndecodableError.
        """
        records = next(self._splitter.blocks(BytesIO(data)), None)
        if records is None:
            return data
        found, names = list(names), self._header_of(records)
        for place, name in enumerate(names[len(found) :], 1):
            given = name or f"column{place}"
            others = chain((given,), (f"{given}_{number}" for number in count(2)))
            found.append(next(each for each in others if each not in found and (each == name or each not in names)))
        end = records.ends[0] - records.returned(0)
        return self._form.delimiter.join(map(self._quoted, found)).encode() + data[end:]

    def _quoted(self, text: str) -> str:
        for each in dict.fromkeys((self._form.escape, self._form.quote)):
            text = text.replace(each, self._form.escape + each)
        return f"{self._form.quote}{text}{self._form.quote}"

    def _header_of(self, records: Records) -> list[str]:
        found = records.error or self._fields.of(records, 0)
        if isinstance(found, str):
            raise UndecodableError(f"its header cannot be read: {found}")
        return ["" if name is None else name for name in found]

    def _layout(self, records: Records) -> _Layout:
        """Return where the header has the columns; raises UndecodableError."""
        names = self._header_of(records)
        if self._by_position:
            if len(names) != len(self._names):
                raise UndecodableError(f"its header has {len(names)} fields, and the source {len(self._names)} columns")
            return _Layout(len(names), tuple(range(len(names))))
        missing = [name for name in self._names if name not in names]
        if missing:
            there = f"{', '.join(names)}{in_other_case(missing, names)}"
            raise UndecodableError(f"its header has no column {', '.join(missing)}; it has {there}")
        twice = sorted({name for name in self._names if names.count(name) > 1})
        if twice:
            raise UndecodableError(
                f"its header has {', '.join(twice)} more than once, which takes the option COLUMNS BY = POSITION"
            )
        return _Layout(len(names), tuple(names.index(name) for name in self._names))

    # --- fields ------------------------------------------------------------------------------------------------------

    def _texts(self, records: Records, table: _Layout, first: int, failures: Failures) -> list[pa.StringArray]:
        """Return the columns' texts, with NULLs for a record that has failed."""
        found = self._plain(records, table)
        if found is not None:
            return found
        if len(records) <= _FEW:
            return self._one_by_one(records, table, first, failures)
        middle = len(records) // 2
        before = self._texts(records.part(0, middle), table, first, failures)
        after = self._texts(records.part(middle, len(records)), table, first + middle, failures)
        return [pa.concat_arrays(pair) for pair in zip(before, after, strict=True)]

    def _plain(self, records: Records, table: _Layout) -> list[pa.StringArray] | None:
        """Return the texts of records that Arrow reads as Postgres does, None for others."""
        if not bool((records.begins[1:] == records.ends[:-1] + 1).all()):
            return None
        if table.width > 1 and int((records.ends - records.begins).min()) < len(records.line_end):
            return None  # of a blank line Arrow makes a row of NULLs
        data = records.data[records.begins[0] : records.ends[-1]]
        if data.startswith(BOM) or not self._fields.plain(data, records):
            return None  # Arrow leaves out such a mark, which is one at the beginning of a file alone
        names = [f"f{place}" for place in range(table.width)]
        try:
            found = pc.read_csv(
                pa.BufferReader(data + b"\n"),
                read_options=pc.ReadOptions(use_threads=False, block_size=len(data) + 2, column_names=names),
                parse_options=pc.ParseOptions(
                    delimiter=self._form.delimiter,
                    quote_char=self._form.quote,
                    double_quote=self._form.quote == self._form.escape,
                    newlines_in_values=True,
                    ignore_empty_lines=False,
                ),
                convert_options=pc.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    include_columns=[names[place] for place in table.places],
                    null_values=[self._form.null],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowInvalid:
            return None
        if found.num_rows != len(records):
            return None
        return [_whole(column) for column in found.itercolumns()]

    def _one_by_one(self, records: Records, table: _Layout, first: int, failures: Failures) -> list[pa.StringArray]:
        rows: list[list[str | None]] = []
        nothing: list[str | None] = [None] * table.width
        for record in range(len(records)):
            found = self._fields.of(records, record)
            if not isinstance(found, str) and len(found) != table.width:
                shown = str(len(found)) if records.raw(record) else "a blank line"
                found = f"expected {table.width} fields, found {shown}"
            if isinstance(found, str):
                failures[first + record] = found
                found = nothing
            rows.append(found)
        return [pa.array([row[place] for row in rows], pa.string()) for place in table.places]

    # --- values ------------------------------------------------------------------------------------------------------

    def _parts(self, texts: list[pa.StringArray], records: Records, failures: Failures) -> Iterator[Decoded]:
        """Yield the rows of texts, in several parts where the values are much larger than their texts."""
        try:
            yield self._decoded(texts, records, failures)
        except WideError:
            middle = len(records) // 2
            before = {row: why for row, why in failures.items() if row < middle}
            after = {row - middle: why for row, why in failures.items() if row >= middle}
            yield from self._parts([text[:middle] for text in texts], records.part(0, middle), before)
            yield from self._parts([text[middle:] for text in texts], records.part(middle, len(records)), after)

    def _decoded(self, texts: list[pa.StringArray], records: Records, known: Failures) -> Decoded:
        failures = dict(known)
        typed = self._typed(texts, failures)
        failed = [RowFailure(records.line(row), failures[row], records.raw(row)) for row in sorted(failures)]
        return Decoded(without(typed, failures), len(records), failed)

    def _typed(self, texts: list[pa.StringArray], failures: Failures) -> pa.RecordBatch:
        """Return the columns' values, and note what does not fit."""
        arrays = []
        for column, text in zip(self._columns, texts, strict=True):
            found: Failures = {}
            arrays.append(from_text(text, column.type, found))
            for row, message in found.items():
                failures.setdefault(row, f'column "{column.name}": {message}')
            if not column.nullable and text.null_count:
                for row in np.flatnonzero(text.is_null().to_numpy(zero_copy_only=False)).tolist():
                    failures.setdefault(row, f'null value in column "{column.name}", which is NOT NULL')
        return pa.record_batch(arrays, names=[column.name for column in self._columns])

    def _nulls(self, rows: int) -> pa.StringArray:
        return pa.nulls(rows, pa.string())


@dataclass(frozen=True, slots=True)
class _Layout:
    """How many fields a record has, and the place of each column's."""

    width: int
    places: tuple[int, ...]


class Fields:
    """Records of one form → their fields."""

    def __init__(self, form: Form) -> None:
        self._form = form
        q, e, d = (re.escape(each) for each in (form.quote, form.escape, form.delimiter))
        self._unquoted, self._to_quote = re.compile(rf"[^{q}{d}]*"), re.compile(rf"[^{q}]*")
        self._inside = RepeatedPattern(inside(q, e))
        self._escaped = re.compile(rf"{e}([{q}{e}])")

    def of(self, records: Records, record: int) -> list[str | None] | str:
        """Return a record's fields, or why it has none; a field is None where it is the text of NULL, unquoted."""
        raw = records.raw(record)
        if records.line_end == b"\r\n" and records.terminated(record) and not records.returned(record):
            return "its line ends with a newline alone, unlike the first line of the file"
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            return f"invalid UTF-8: 0x{raw[error.start]:02x} at byte {error.start + 1}"
        if "\0" in text:
            return "invalid character U+0000"
        stray = "\n" if records.line_end == b"\r" else "\r"
        if stray in text and stray in self._outside(text):
            shown = "newline" if stray == "\n" else "carriage return"
            return f"a {shown} outside of quotes, unlike the end of the first line of the file"
        return self._split(text)

    def broken(self, raw: bytes) -> bool:
        """Tell whether a record has a newline outside of quotes."""
        return "\n" in self._outside(raw.decode(errors="replace"))

    def _outside(self, text: str) -> str:
        """Return what stands outside of quotes."""
        found, at = [], 0
        while True:
            end = _end_of(self._to_quote, text, at)
            found.append(text[at:end])
            closing = self._inside.end(text, end + 1)
            if not text.startswith(self._form.quote, closing):
                return "".join((*found, text[end:]))
            at = closing + 1

    def _split(self, text: str) -> list[str | None] | str:
        form = self._form
        if form.quote not in text:
            return [None if field == form.null else field for field in text.split(form.delimiter)]
        found: list[str | None] = []
        at = 0
        while True:
            end = _end_of(self._unquoted, text, at)
            parts: list[str] = []
            while text.startswith(form.quote, end):
                closing = self._inside.end(text, end + 1)
                if not text.startswith(form.quote, closing):  # which no record of a file has: there it goes on
                    return "a quoted field is not closed"
                quoted = text[end + 1 : closing]
                if (end > at or parts) and ("\n" in quoted or "\r" in quoted):
                    return _BEYOND.format(field=len(found) + 1)
                parts += text[at:end], self._escaped.sub(r"\1", quoted)
                at = closing + 1
                end = _end_of(self._unquoted, text, at)
            rest = text[at:end]
            found.append("".join((*parts, rest)) if parts else None if rest == form.null else rest)
            if end == len(text):
                return found
            at = end + 1

    def plain(self, data: bytes, records: Records) -> bool:
        """Return whether records that lie one after the other mean to Arrow what they mean to Postgres.

        What is left to Arrow: that each has as many fields as expected.
        """
        form = self._form
        if b"\0" in data or records.line_end == b"\r":
            return False
        if form.escape != form.quote and form.escape.encode() in data:
            return False
        try:
            data.isascii() or data.decode()
        except UnicodeDecodeError:
            return False
        characters = np.frombuffer(data, np.uint8)
        ends = records.ends - records.begins[0]
        quotes = np.flatnonzero(characters == ord(form.quote)) if form.quote.encode() in data else None
        return self._plain_ends(characters, ends, quotes, records) and (
            quotes is None or self._plain_quotes(characters, quotes)
        )

    def _plain_ends(
        self, characters: np.ndarray, ends: np.ndarray, quotes: np.ndarray | None, records: Records
    ) -> bool:
        """Return whether all line ends are those of the first line, and no carriage return stands elsewhere."""
        returns = np.flatnonzero(characters == ord("\r"))
        if quotes is not None:
            returns = returns[np.searchsorted(quotes, returns) % 2 == 0]
        if records.line_end != b"\r\n":
            return not len(returns)
        closed = ends if records.terminated(len(records) - 1) else ends[:-1]
        return len(returns) == len(closed) and bool((returns + 1 == closed).all())

    def _plain_quotes(self, characters: np.ndarray, quotes: np.ndarray) -> bool:
        """Return whether quotes stand only around whole fields, and doubled in them."""
        if len(quotes) % 2:
            return False
        around = np.zeros(256, bool)
        around[[ord(self._form.delimiter), ord("\n"), ord("\r")]] = True
        opening, closing = quotes[::2], quotes[1::2]
        before = np.where(opening > 0, characters[opening - 1], ord("\n"))
        after = np.where(
            closing < len(characters) - 1, characters[np.minimum(closing + 1, len(characters) - 1)], ord("\n")
        )
        opens, closes = around[before], around[after]
        if self._form.quote == self._form.escape:  # two in a row close and open again: a quote in the field
            doubled = closing[:-1] + 1 == opening[1:]
            opens[1:] |= doubled
            closes[:-1] |= doubled
        return bool(opens.all() and closes.all())


def _whole(column: pa.ChunkedArray) -> pa.StringArray:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()
