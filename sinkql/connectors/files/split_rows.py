"""Decode the splits of files to Arrow rows, and collect the records that do not decode."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from io import BufferedReader, BytesIO
from typing import BinaryIO, cast

import pyarrow as pa

from sinkql import physical
from sinkql.connector_api.source_options import OnError, RecordErrorPolicy
from sinkql.connector_api.stream import (
    Decoded,
    DecodedMessages,
    Decoder,
    QuotedDecoder,
    ReadCounts,
    RowError,
    Split,
    StoredDecoder,
    UndecodableError,
    not_replayable_error,
)
from sinkql.connector_api.types import arrow_type
from sinkql.connectors.files.content import (
    LONGEST_LINE,
    ListedFile,
    ListedStream,
    LongLineError,
    SeenFile,
    from_data,
    listed,
    undecodable,
)
from sinkql.connectors.files.file_format import FileFormat
from sinkql.connectors.files.file_parts import long_line_error
from sinkql.connectors.files.local_listing import Folder
from sinkql.connectors.files.object_listing import Bucket
from sinkql.errors import SinkqlError

_BLOCK_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
_CORRECT = "Correct the file."
_THEN = """ No row of it was written, and a new file in its place will be read. The sink continues when it is \
started again."""


@dataclass(frozen=True, slots=True)
class SplitRows:
    """The rows of one source's splits. `policy` decides what happens to records that do not decode."""

    source: str
    folder: Folder | Bucket
    format: FileFormat
    columns: tuple[physical.Column, ...]
    policy: OnError

    def read(self, split: Split, read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, without records that do not decode; raise SQ3101 if these stop the sinks.

        Raises SQ3301 before it yields a row of bytes that changed after they were listed.
        """
        file = from_data(split["file"])
        stored = self.format.decoding.stored
        with self.folder.open(file) as stream:
            if stored is not None:
                yield from self._read_stored(
                    file, split, stream, stored(self.format.options, self.columns), read_counts
                )
                return
            chunks = listed(stream, self.folder, file, split["base"], split["parts"])
            if split["from"] and split.get("head"):
                yield from self._read_records(file, split, stream, chunks, read_counts)
            elif self.format.is_divisible(file) and not self.format.quote:
                yield from self._read_lines(file, split, chunks, read_counts)
            else:
                yield from self._read_whole(file, chunks, read_counts)
        if split["parts"]:
            read_counts.bytes += split["parts"][-1][0] - split["from"]

    def _decoder(self) -> Decoder:
        return self.format.decoding.open(self.format.options, self.columns)

    def _read_lines(
        self, file: SeenFile, split: Split, chunks: Iterator[bytes], read_counts: ReadCounts
    ) -> Iterator[pa.RecordBatch]:
        decoder = self._decoder()
        skip, before = split["from"] - split["base"], split["lines"]
        for data in chunks:
            before += data.count(b"\n", 0, skip)
            for block in _blocks(data, skip):
                yield from self._rows(file, decoder.decode(text_of(block, before)), read_counts, before=before)
                before += block.count(b"\n")
            skip = 0

    def _read_records(
        self, file: SeenFile, split: Split, stream: BinaryIO, chunks: Iterator[bytes], read_counts: ReadCounts
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a later split of a file; the head of the file tells the decoder its fields."""
        decoder = cast(QuotedDecoder, self._decoder())
        head = next(listed(stream, self.folder, file, 0, [split["head"]]))
        first, skip = next(chunks), split["from"] - split["base"]
        line = 1 + split["lines"] + first.count(b"\n", 0, skip)
        source = ListedStream(itertools.chain([first[skip:]], chunks))
        try:
            with BufferedReader(source, _BLOCK_BYTES) as buffered:
                yield from self._rows(file, decoder.decode_after(head, buffered, line), read_counts)
        except UndecodableError as error:
            raise self._failure(file, error, source.error) from error

    def _read_whole(self, file: SeenFile, chunks: Iterator[bytes], read_counts: ReadCounts) -> Iterator[pa.RecordBatch]:
        decoder = self._decoder()
        source = ListedStream(chunks)
        try:
            with (
                BufferedReader(source, _BLOCK_BYTES) as buffered,
                self.format.written.plain(buffered, file) as stream,
            ):
                if not self.format.lines:
                    yield from self._rows(file, decoder.decode(stream), read_counts)
                    return
                before = 0
                for block in whole_lines(stream):
                    yield from self._rows(file, decoder.decode(text_of(block, before)), read_counts, before=before)
                    before += block.count(b"\n")
        except LongLineError as error:
            raise long_line_error(self.source, file, error) from error
        except (OSError, pa.ArrowException, UndecodableError) as error:
            raise self._failure(file, error, source.error) from error

    def _read_stored(
        self, file: SeenFile, split: Split, stream: BinaryIO, decoder: StoredDecoder, read_counts: ReadCounts
    ) -> Iterator[pa.RecordBatch]:
        source = ListedFile(stream, self.folder, file, split["parts"])
        try:
            with BufferedReader(source) as buffered:
                yield from self._rows(file, decoder.decode_range(buffered, split["from"], split["to"]), read_counts)
        except UndecodableError as error:
            raise self._failure(file, error, source.error) from error
        read_counts.bytes += split["to"] - split["from"]

    def _failure(self, file: SeenFile, error: Exception, cause: SinkqlError | None) -> SinkqlError:
        """Return the error of a file that cannot be decoded: the `cause` if its bytes could not be read."""
        if cause is not None:
            return cause
        return undecodable(self.folder.shown(file.name), self.format.name, error, then=_THEN)

    def _rows(
        self, file: SeenFile, parts: Iterator[Decoded], read_counts: ReadCounts, *, before: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """Yield the decoded rows, and count them; `before` is the number of lines before the decoded ones."""
        policy = RecordErrorPolicy(self.source, self.policy)
        for decoded in parts:
            read_counts.rows += decoded.records
            for failure in decoded.failures:
                if self.policy == "fail":
                    policy = replace(policy, correct=self._remedy(failure.raw))
                position = f"{file.name}:{before + failure.line}"
                about = {"header": decoded.head.decode(errors="replace")} if decoded.head else {}
                policy.handle(read_counts, RowError(position, "SQ3101", failure.message, failure.raw, about=about))
            yield decoded.batch

    def _remedy(self, raw: bytes) -> str:
        """Return how to correct a record that does not decode."""
        name = self.format.name
        if name == "CSV" and not raw:
            return "Correct the file, or create the source with FORMAT CSV … (SKIP BLANK LINES = true)."
        try:
            raw.decode()
        except UnicodeDecodeError:
            return "Correct the file, or create the source with the ENCODING that its files have."
        if name == "JSON" and not self.format.array and raw.lstrip().startswith(b"["):
            return "Correct the file; if its rows are in one array, create the source with FORMAT JSON ARRAY."
        if name == "JSON" and raw.strip() == b"{":
            return "Correct the file: FORMAT JSON reads an object from each line."
        return _CORRECT

    # --- dead letters ------------------------------------------------------------------------------------------------

    def retry_dead_letters(self, records: Sequence[RowError]) -> Iterator[DecodedMessages]:
        """Decode lines, elements of arrays, and CSV records with the header of their file."""
        if self.format.decoding.stored is not None:
            raise not_replayable_error(f"files of FORMAT {self.format.name} are not cut into records")
        options = {name: value for name, value in self.format.options.items() if name != "array"}
        decoder = self.format.decoding.open(options, self.columns)
        for record in records:
            yield self._retry(record, decoder)

    def _retry(self, record: RowError, decoder: Decoder) -> DecodedMessages:
        raw = record.raw.replace(b"\n", b" ") if self.format.array else record.raw
        head = record.about.get("header")
        stream = BytesIO(raw if head is None else f"{head}\n".encode() + raw)
        try:
            parts = list(decoder.decode(stream))
        except (UndecodableError, pa.ArrowException) as error:
            return DecodedMessages(_no_rows(self.columns), {0: str(error)})
        failures = [failure.message for part in parts for failure in part.failures]
        if failures or sum(part.records for part in parts) != 1:
            return DecodedMessages(_no_rows(self.columns), {0: failures[0] if failures else "it is not one record"})
        return DecodedMessages(next(part.batch for part in parts if part.records), {})


def _no_rows(columns: Sequence[physical.Column]) -> pa.RecordBatch:
    fields = [pa.field(column.name, arrow_type(column.type)) for column in columns]
    return pa.RecordBatch.from_pylist([], schema=pa.schema(fields))


def _blocks(data: bytes, begin: int) -> Iterator[bytes]:
    """Yield whole lines from a byte on, about a megabyte at a time."""
    while begin < len(data):
        end = len(data)
        if begin + _BLOCK_BYTES < end:
            limit = begin + _BLOCK_BYTES
            end = data.rfind(b"\n", begin, limit) + 1 or data.find(b"\n", limit) + 1 or end
        yield data[begin:end]
        begin = end


def text_of(block: bytes, before: int) -> BytesIO:
    """Return a block as a stream, without the byte order mark if no line of the file is `before` it."""
    return BytesIO(block if before else block.removeprefix(_BOM))


def whole_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield a stream in blocks of whole lines; raise LongLineError for a line that is too long."""
    rest, line = b"", 1
    while block := stream.read(max(_BLOCK_BYTES, len(rest))):  # reads double, so that a long line is copied few times
        end = block.rfind(b"\n") + 1
        if end:
            yield rest + block[:end]
            line += block.count(b"\n")
            rest = block[end:]
        else:
            rest += block
            if len(rest) > LONGEST_LINE:
                raise LongLineError(line)
    if rest.strip():
        yield rest
