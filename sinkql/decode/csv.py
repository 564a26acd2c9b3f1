"""Decode a CSV stream to Arrow rows of declared columns, and collect the records that fail, with their first lines.

Records have the meaning that Postgres's COPY gives them: an empty field is NULL, and a quoted empty field is an empty
text. Arrow's parser reads blocks of plain records. A block with other records is halved until few are left, which are
read one by one.
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
from sinkql.decode.csv_options import Form, csv_format
from sinkql.decode.csv_records import BOM, Records, Splitter, inside
from sinkql.decode.json_lines import without
from sinkql.decode.text_column import Failures, from_text
from sinkql.errors import in_other_case
from sinkql.regex_repeat import RepeatedPattern

_FEW = 32
_BEYOND = (
    "a quote within field {field}, which does not begin with it, continues after the end of the line: "
    "quote the whole field"
)


class CsvRows:
    """Decode CSV streams into `columns`.

    With a header, columns are found by name, or by their name in `names`, and other fields are ignored. With
    `by_position`, the names in the header are ignored.
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
        """Return the decoder of a planned format."""
        csv = csv_format(options)
        return cls(columns, csv, header=csv.header, names=csv.names, by_position=csv.by_position)

    def decode(self, stream: BinaryIO) -> Iterator[Decoded]:
        """Yield the stream's rows by blocks; raise UndecodableError if its header lacks columns."""
        yield from self._rows(self._splitter.blocks(stream), None)

    def decode_after(self, head: bytes, stream: BinaryIO, line: int) -> Iterator[Decoded]:
        """Yield the rows of a stream that continues a file in that line; `head` is the file's beginning."""
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
                for part in self._decoded_parts(self._texts(body, table, 0, failures), body, failures):
                    yield replace(part, head=head) if part.failures else part

    def rows(self, records: Records) -> tuple[pa.RecordBatch, Failures]:
        """Return a row for each record, with fields by position, and why some failed; failed rows are meaningless.

        Raises WideError.
        """
        layout, failures = _Layout(len(self._columns), tuple(range(len(self._columns)))), dict[int, str]()
        if records.data.count(b"\n") < len(records):
            texts = self._texts(records, layout, 0, failures)
        else:
            texts = self._one_by_one(records, layout, 0, failures)
            for record in range(len(records)):
                if b"\n" in records.raw(record) and self._fields.is_broken(records.raw(record)):
                    failures.setdefault(record, "a newline outside quotes")
        return self._typed(texts, failures), failures

    def names(self, stream: BinaryIO) -> list[str]:
        """Return the fields of a stream's header, none for an empty stream; raise UndecodableError."""
        records = next(self._splitter.blocks(stream), None)
        return self._header_of(records) if records is not None else []

    def named(self, data: bytes, names: Sequence[str] = ()) -> bytes:
        """Return a file's data with other names in its header; without `names`, with its names made distinct.

        Raises UndecodableError.
        """
        records = next(self._splitter.blocks(BytesIO(data)), None)
        if records is None:
            return data
        distinct, names = list(names), self._header_of(records)
        for position, name in enumerate(names[len(distinct) :], 1):
            base = name or f"column{position}"
            others = chain((base,), (f"{base}_{number}" for number in count(2)))
            distinct.append(
                next(other for other in others if other not in distinct and (other == name or other not in names))
            )
        end = records.ends[0] - records.has_return(0)
        return self._form.delimiter.join(map(self._quoted, distinct)).encode() + data[end:]

    def _quoted(self, text: str) -> str:
        for character in dict.fromkeys((self._form.escape, self._form.quote)):
            text = text.replace(character, self._form.escape + character)
        return f"{self._form.quote}{text}{self._form.quote}"

    def _header_of(self, records: Records) -> list[str]:
        header = records.error or self._fields.of(records, 0)
        if isinstance(header, str):
            raise UndecodableError(f"its header cannot be read: {header}")
        return ["" if name is None else name for name in header]

    def _layout(self, records: Records) -> _Layout:
        """Return the positions of the columns in the header; raise UndecodableError."""
        names = self._header_of(records)
        if self._by_position:
            if len(names) != len(self._names):
                raise UndecodableError(f"its header has {len(names)} fields, and the source {len(self._names)} columns")
            return _Layout(len(names), tuple(range(len(names))))
        missing = [name for name in self._names if name not in names]
        if missing:
            available = f"{', '.join(names)}{in_other_case(missing, names)}"
            raise UndecodableError(f"its header has no column {', '.join(missing)}; it has {available}")
        duplicates = sorted({name for name in self._names if names.count(name) > 1})
        if duplicates:
            raise UndecodableError(
                f"its header has {', '.join(duplicates)} more than once, which requires COLUMNS BY = POSITION"
            )
        return _Layout(len(names), tuple(names.index(name) for name in self._names))

    # --- fields ------------------------------------------------------------------------------------------------------

    def _texts(self, records: Records, table: _Layout, first: int, failures: Failures) -> list[pa.StringArray]:
        """Return the columns' texts, with NULLs for failed records."""
        texts = self._plain_texts(records, table)
        if texts is not None:
            return texts
        if len(records) <= _FEW:
            return self._one_by_one(records, table, first, failures)
        middle = len(records) // 2
        before = self._texts(records.part(0, middle), table, first, failures)
        after = self._texts(records.part(middle, len(records)), table, first + middle, failures)
        return [pa.concat_arrays(pair) for pair in zip(before, after, strict=True)]

    def _plain_texts(self, records: Records, table: _Layout) -> list[pa.StringArray] | None:
        """Return the texts of records that Arrow reads as Postgres does; None for other records."""
        if not bool((records.begins[1:] == records.ends[:-1] + 1).all()):
            return None
        if table.width > 1 and int((records.ends - records.begins).min()) < len(records.line_end):
            return None  # Arrow reads a blank line as a row of NULLs
        data = records.data[records.begins[0] : records.ends[-1]]
        if data.startswith(BOM) or not self._fields.is_plain(data, records):
            return None  # Arrow drops a mark that only counts at the beginning of a file
        names = [f"f{place}" for place in range(table.width)]
        try:
            parsed = pc.read_csv(
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
        if parsed.num_rows != len(records):
            return None
        return [_combined(column) for column in parsed.itercolumns()]

    def _one_by_one(self, records: Records, table: _Layout, first: int, failures: Failures) -> list[pa.StringArray]:
        rows: list[list[str | None]] = []
        nothing: list[str | None] = [None] * table.width
        for record in range(len(records)):
            fields = self._fields.of(records, record)
            if not isinstance(fields, str) and len(fields) != table.width:
                shown = str(len(fields)) if records.raw(record) else "a blank line"
                fields = f"expected {table.width} fields, found {shown}"
            if isinstance(fields, str):
                failures[first + record] = fields
                fields = nothing
            rows.append(fields)
        return [pa.array([row[place] for row in rows], pa.string()) for place in table.places]

    # --- values ------------------------------------------------------------------------------------------------------

    def _decoded_parts(self, texts: list[pa.StringArray], records: Records, failures: Failures) -> Iterator[Decoded]:
        """Yield the rows of texts, in several parts if the values are much larger than their texts."""
        try:
            yield self._decoded(texts, records, failures)
        except WideError:
            middle = len(records) // 2
            before = {row: why for row, why in failures.items() if row < middle}
            after = {row - middle: why for row, why in failures.items() if row >= middle}
            yield from self._decoded_parts([text[:middle] for text in texts], records.part(0, middle), before)
            yield from self._decoded_parts([text[middle:] for text in texts], records.part(middle, len(records)), after)

    def _decoded(self, texts: list[pa.StringArray], records: Records, earlier: Failures) -> Decoded:
        failures = dict(earlier)
        typed = self._typed(texts, failures)
        failed = [RowFailure(records.line(row), failures[row], records.raw(row)) for row in sorted(failures)]
        return Decoded(without(typed, failures), len(records), failed)

    def _typed(self, texts: list[pa.StringArray], failures: Failures) -> pa.RecordBatch:
        """Return the columns' values, and note values that do not fit."""
        arrays = []
        for column, text in zip(self._columns, texts, strict=True):
            column_failures: Failures = {}
            arrays.append(from_text(text, column.type, column_failures))
            for row, message in column_failures.items():
                failures.setdefault(row, f'column "{column.name}": {message}')
            if not column.nullable and text.null_count:
                for row in np.flatnonzero(text.is_null().to_numpy(zero_copy_only=False)).tolist():
                    failures.setdefault(row, f'null value in column "{column.name}", which is NOT NULL')
        return pa.record_batch(arrays, names=[column.name for column in self._columns])

    def _nulls(self, rows: int) -> pa.StringArray:
        return pa.nulls(rows, pa.string())


@dataclass(frozen=True, slots=True)
class _Layout:
    """The number of fields of a record, and the positions of the columns."""

    width: int
    places: tuple[int, ...]


class Fields:
    """Split records of one form into fields."""

    def __init__(self, form: Form) -> None:
        self._form = form
        q, e, d = (re.escape(character) for character in (form.quote, form.escape, form.delimiter))
        self._unquoted, self._to_quote = re.compile(rf"[^{q}{d}]*"), re.compile(rf"[^{q}]*")
        self._inside = RepeatedPattern(inside(q, e))
        self._escaped = re.compile(rf"{e}([{q}{e}])")

    def of(self, records: Records, record: int) -> list[str | None] | str:
        """Return a record's fields, or why it has none; an unquoted text of NULL is None."""
        raw = records.raw(record)
        if records.line_end == b"\r\n" and records.is_terminated(record) and not records.has_return(record):
            return "its line ends with a newline alone, unlike the first line of the file"
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            return f"invalid UTF-8: 0x{raw[error.start]:02x} at byte {error.start + 1}"
        if "\0" in text:
            return "invalid character U+0000"
        stray = "\n" if records.line_end == b"\r" else "\r"
        if stray in text and stray in self._outside_quotes(text):
            shown = "newline" if stray == "\n" else "carriage return"
            return f"a {shown} outside quotes, unlike the end of the first line of the file"
        return self._split(text)

    def is_broken(self, raw: bytes) -> bool:
        """Return whether a record has a newline outside quotes."""
        return "\n" in self._outside_quotes(raw.decode(errors="replace"))

    def _outside_quotes(self, text: str) -> str:
        """Return the text outside quotes."""
        outside, at = [], 0
        while True:
            end = _end_of(self._to_quote, text, at)
            outside.append(text[at:end])
            closing = self._inside.end(text, end + 1)
            if not text.startswith(self._form.quote, closing):
                return "".join((*outside, text[end:]))
            at = closing + 1

    def _split(self, text: str) -> list[str | None] | str:
        form = self._form
        if form.quote not in text:
            return [None if field == form.null else field for field in text.split(form.delimiter)]
        fields: list[str | None] = []
        at = 0
        while True:
            end = _end_of(self._unquoted, text, at)
            parts: list[str] = []
            while text.startswith(form.quote, end):
                closing = self._inside.end(text, end + 1)
                if not text.startswith(form.quote, closing):  # only in a message: in a file, the record continues
                    return "a quoted field is not closed"
                quoted = text[end + 1 : closing]
                if (end > at or parts) and ("\n" in quoted or "\r" in quoted):
                    return _BEYOND.format(field=len(fields) + 1)
                parts += text[at:end], self._escaped.sub(r"\1", quoted)
                at = closing + 1
                end = _end_of(self._unquoted, text, at)
            rest = text[at:end]
            fields.append("".join((*parts, rest)) if parts else None if rest == form.null else rest)
            if end == len(text):
                return fields
            at = end + 1

    def is_plain(self, data: bytes, records: Records) -> bool:
        """Return whether Arrow reads consecutive records as Postgres does.

        Arrow itself checks that each has the expected number of fields.
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
        return self._has_plain_ends(characters, ends, quotes, records) and (
            quotes is None or self._has_plain_quotes(characters, quotes)
        )

    def _has_plain_ends(
        self, characters: np.ndarray, ends: np.ndarray, quotes: np.ndarray | None, records: Records
    ) -> bool:
        """Return whether all lines end as the first one does, without carriage returns elsewhere."""
        returns = np.flatnonzero(characters == ord("\r"))
        if quotes is not None:
            returns = returns[np.searchsorted(quotes, returns) % 2 == 0]
        if records.line_end != b"\r\n":
            return not len(returns)
        closed = ends if records.is_terminated(len(records) - 1) else ends[:-1]
        return len(returns) == len(closed) and bool((returns + 1 == closed).all())

    def _has_plain_quotes(self, characters: np.ndarray, quotes: np.ndarray) -> bool:
        """Return whether quotes stand only around whole fields, and doubled within them."""
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
        if self._form.quote == self._form.escape:  # two in a row are a quote within the field
            doubled = closing[:-1] + 1 == opening[1:]
            opens[1:] |= doubled
            closes[:-1] |= doubled
        return bool(opens.all() and closes.all())


def _combined(column: pa.ChunkedArray) -> pa.StringArray:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()
