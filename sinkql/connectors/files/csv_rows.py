"""A CSV stream → Arrow rows of declared columns, and the records that do not decode, by their number in the file.

As in Postgres, an empty field is NULL and a quoted empty one is an empty text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc

from sinkql import physical
from sinkql.connectors.files.convert import Failures, from_text
from sinkql.connectors.files.json_lines import without

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Decoded:
    """Hold a block's rows, how many records it had, and what failed: record number in the file → (why, the text)."""

    batch: pa.RecordBatch
    records: int
    failures: dict[int, tuple[str, str]]


class HeaderError(ValueError):
    """Say that a header has not the declared columns."""


@dataclass(frozen=True, slots=True)
class CsvRows:
    """Decode one CSV stream into `columns`. With a header, columns go by name, and others in the file are left out."""

    columns: Sequence[physical.Column]
    header: bool
    delimiter: str = ","

    def decode(self, stream: Any) -> Iterator[Decoded]:
        """Yield the stream's rows by blocks; raises HeaderError, pa.ArrowInvalid where it is no CSV at all."""
        invalid: list[tuple[int, str, str]] = []

        def skip(row: pc.InvalidRow) -> str:
            message = f"expected {row.expected_columns} fields, found {row.actual_columns}"
            invalid.append((row.number, message, row.text))
            return "skip"

        try:
            reader = self._open(stream, skip)
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                return
            raise
        self._check(reader.schema.names)
        at = 2 if self.header else 1
        for batch in reader:
            bad, invalid[:] = list(invalid), []
            numbers = _numbers(at, batch.num_rows, [number for number, _, _ in bad])
            decoded = self._typed(batch, numbers)
            failures = decoded.failures | {number: (message, text) for number, message, text in bad}
            records = batch.num_rows + len(bad)
            at += records
            yield Decoded(decoded.batch, records, failures)
        if invalid:
            yield Decoded(self._none(), len(invalid), {number: (why, text) for number, why, text in invalid})

    def _open(self, stream: Any, skip: Any) -> pc.CSVStreamingReader:
        names = None if self.header else [column.name for column in self.columns]
        return pc.open_csv(
            stream,
            read_options=pc.ReadOptions(use_threads=False, block_size=_BLOCK, column_names=names),
            parse_options=pc.ParseOptions(delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=skip),
            convert_options=pc.ConvertOptions(
                column_types={column.name: pa.string() for column in self.columns},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _check(self, names: list[str]) -> None:
        missing = [column.name for column in self.columns if column.name not in names]
        if missing:
            raise HeaderError(f"its header has no column {', '.join(missing)}; it has {', '.join(names)}")
        twice = sorted({column.name for column in self.columns if names.count(column.name) > 1})
        if twice:
            raise HeaderError(f"its header has {', '.join(twice)} more than once")

    def _typed(self, batch: pa.RecordBatch, numbers: Sequence[int]) -> Decoded:
        failures: Failures = {}
        arrays = []
        for column in self.columns:
            texts = batch.column(batch.schema.get_field_index(column.name))
            found: Failures = {}
            arrays.append(from_text(texts, column.type, found))
            for row, message in found.items():
                failures.setdefault(row, f'column "{column.name}": {message}')
            if not column.nullable and texts.null_count:
                for row, value in enumerate(texts.is_null().to_pylist()):
                    if value:
                        failures.setdefault(row, f'column "{column.name}" is NULL, and it is NOT NULL')
        typed = pa.record_batch(arrays, names=[column.name for column in self.columns])
        located = {numbers[row]: (message, self._text(batch, row)) for row, message in failures.items()}
        return Decoded(without(typed, failures), batch.num_rows, located)

    def _text(self, batch: pa.RecordBatch, row: int) -> str:
        return self.delimiter.join(str(column[row].as_py() or "") for column in batch.columns)

    def _none(self) -> pa.RecordBatch:
        empty: Failures = {}
        arrays = [from_text(pa.array([], pa.string()), column.type, empty) for column in self.columns]
        return pa.record_batch(arrays, names=[column.name for column in self.columns])


def _numbers(at: int, rows: int, invalid: list[int]) -> Sequence[int]:
    """Return the record numbers of a block's good rows, given those of its bad ones."""
    if not invalid:
        return range(at, at + rows)
    bad = set(invalid)
    return [number for number in range(at, at + rows + len(invalid)) if number not in bad]
