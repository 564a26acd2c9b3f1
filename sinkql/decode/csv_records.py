"""Cut a stream of CSV into blocks of whole records, by the rules of Postgres's COPY."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import BinaryIO

import numpy as np

from sinkql.connector_api.stream import UndecodableError
from sinkql.decode.csv_options import Form
from sinkql.regex_repeat import RepeatedPattern

Places = np.ndarray | list[int]

BLOCK = 1 << 20
_LONGEST = 128 << 20  # an unclosed quote must not exhaust memory
BOM = b"\xef\xbb\xbf"
_LINE = re.compile(rb"[^\r\n]*")


@dataclass(frozen=True)
class Records:
    """Whole records of a block, with the number of the block's first line.

    Record i is `data[begins[i] : ends[i]]`. All lines should end as the first line of the file does: with `line_end`,
    which is empty if that line has no end. `error` says why the only record cannot be read.
    """

    data: bytes
    begins: np.ndarray
    ends: np.ndarray
    first_line: int
    line_end: bytes
    error: str | None = None

    def __len__(self) -> int:
        return len(self.begins)

    def part(self, first: int, stop: int) -> Records:
        """Return some of the records, with the same block."""
        return Records(self.data, self.begins[first:stop], self.ends[first:stop], self.first_line, self.line_end)

    def without_blank_lines(self) -> Records:
        """Return the records without empty lines."""
        sizes = self.ends - self.begins
        blank = sizes == 0
        if self.line_end == b"\r\n":
            blank |= (sizes == 1) & (np.frombuffer(self.data, np.uint8)[self.begins] == ord("\r"))
        return replace(self, begins=self.begins[~blank], ends=self.ends[~blank]) if blank.any() else self

    def line(self, record: int) -> int:
        """Return the number of a record's first line."""
        return self.first_line + int(np.searchsorted(self._line_ends, self.begins[record]))

    @cached_property
    def _line_ends(self) -> np.ndarray:
        return np.flatnonzero(np.frombuffer(self.data, np.uint8) == (self.line_end or b"\n")[-1])

    def whole(self) -> list[bytes]:
        """Return the bytes of all records, with a carriage return before their newlines."""
        places = zip(self.begins.tolist(), self.ends.tolist(), strict=True)
        return [self.data[begin:end] for begin, end in places]

    def raw(self, record: int) -> bytes:
        """Return a record's bytes without its line end."""
        return self.data[self.begins[record] : self.ends[record] - self.has_return(record)]

    def has_return(self, record: int) -> bool:
        """Return whether a record ends with a carriage return and a newline, as the first line does."""
        end = self.ends[record]
        return self.line_end == b"\r\n" and self.is_terminated(record) and self.data[end - 1 : end] == b"\r"

    def is_terminated(self, record: int) -> bool:
        """Return whether a line end follows a record."""
        return bool(self.ends[record] < len(self.data))


class Splitter:
    """Cut streams of one form into blocks of whole records. An unclosed last record comes alone, as an error."""

    def __init__(self, form: Form) -> None:
        self._quote, self._escape = form.quote.encode(), form.escape.encode()
        self._comment = form.comment.encode() if form.comment else None
        self._skip_blank_lines = form.skip_blank_lines
        self._first_line, self._lines, self._old_lines = (
            _RecordEnd(self._quote, self._escape, ends) for ends in (b"\r\n", b"\n", b"\r")
        )

    def blocks(self, stream: BinaryIO, line: int = 1, line_end: bytes = b"") -> Iterator[Records]:
        """Yield the records of a stream; raise UndecodableError for a record that is too long.

        A stream that continues a file has the number of its first `line`, and the `line_end` of the file.
        """
        rest, first = b"", line == 1
        while True:
            # reads double, so that a long record is searched few times
            data = stream.read(max(BLOCK, len(rest), len(BOM)))
            block = (rest + data).removeprefix(BOM) if first else rest + data
            first, ended = False, not data
            line_end = line_end or self._line_end(block, ended=ended)
            begins, ends, used = self._cut(block, line_end, ended=ended) if line_end or ended else ([], [], 0)
            records = Records(block[:used], np.asarray(begins), np.asarray(ends), line, line_end)
            if self._skip_blank_lines:
                records = records.without_blank_lines()
            if len(records):
                yield records
            line += block.count(line_end[-1:] or b"\n", 0, used)
            rest = block[used:]
            if ended:
                break
            if len(rest) > _LONGEST:
                raise UndecodableError(
                    f"the record in line {line} is longer than {_LONGEST >> 20} MiB; is a quote open?"
                )
        if rest:
            lines = rest.count(line_end[-1:] or b"\n") + (not rest.endswith(b"\n"))
            why = f"a quoted field is not closed, and includes the rest of the file, {lines} lines"
            yield Records(rest, np.array([0]), np.array([len(rest)]), line, line_end, why)

    def _line_end(self, block: bytes, *, ended: bool) -> bytes:
        """Return the end of the first line; empty if it is not in the block."""
        if self._comment is not None and block.startswith(self._comment):
            at = _LINE.match(block).end()  # type: ignore[union-attr]  # it always matches, even the empty text
        else:
            at = self._first_line.after(block, 0)
        if block[at : at + 1] == b"\n":
            return b"\n"
        if block[at : at + 1] != b"\r" or (at + 1 == len(block) and not ended):
            return b""
        return b"\r\n" if block[at + 1 : at + 2] == b"\n" else b"\r"

    def _cut(self, block: bytes, line_end: bytes, *, ended: bool) -> tuple[Places, Places, int]:
        """Return the begins and ends of the whole records of a block, and the number of bytes used."""
        commented = self._comment is not None and (block.startswith(self._comment) or b"\n" + self._comment in block)
        if commented or line_end == b"\r" or (self._escape != self._quote and self._escape in block):
            return self._cut_one_by_one(block, line_end, ended=ended)
        characters = np.frombuffer(block, np.uint8)
        ends = np.flatnonzero(characters == ord("\n"))
        odd = False
        if self._quote in block:
            quotes = np.flatnonzero(characters == self._quote[0])
            ends, odd = ends[np.searchsorted(quotes, ends) % 2 == 0], bool(len(quotes) % 2)
        used = int(ends[-1]) + 1 if len(ends) else 0
        if ended and used < len(block) and not odd:
            ends, used = np.append(ends, len(block)), len(block)
        return np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends, ends, used

    def _cut_one_by_one(self, block: bytes, line_end: bytes, *, ended: bool) -> tuple[list[int], list[int], int]:
        end = b"\r" if line_end == b"\r" else b"\n"
        record = self._old_lines if line_end == b"\r" else self._lines
        begins, ends, at = [], [], 0
        while at < len(block):
            comment = self._comment is not None and block.startswith(self._comment, at)
            if comment:
                index = block.find(end, at)
                stop = len(block) if index < 0 else index
            else:
                stop = record.after(block, at)
            if stop < len(block) and block[stop : stop + 1] != end:
                break  # a quote that is not closed in this block
            if stop == len(block) and not ended:
                break
            if not comment:
                begins.append(at)
                ends.append(stop)
            at = min(stop + 1, len(block))
        return begins, ends, at


class _RecordEnd:
    """Find the end of a record that may have quotes anywhere, and line ends within quotes."""

    def __init__(self, quote: bytes, escape: bytes, line_ends: bytes) -> None:
        q, e = re.escape(quote), re.escape(escape)
        within = rb"[^%b]*" % q
        if quote != escape:
            within = rb"[^%b%b]*(?:%b(?:[%b%b]|(?![%b%b]))[^%b%b]*){,100}" % (q, e, e, q, e, q, e, q, e)
        self._parts = RepeatedPattern(rb"[^%b%b]+|%b%b%b" % (q, line_ends, q, within, q))
        self._quote, self._inside = quote, RepeatedPattern(inside(q.decode(), e.decode()).encode())

    def after(self, block: bytes, at: int) -> int:
        """Return the offset behind a record, or of a quote that is not closed."""
        at = self._parts.end(block, at)
        while block.startswith(self._quote, at):  # a text with many escapes, or without end
            end = self._inside.end(block, at + 1)
            if not block.startswith(self._quote, end):
                break
            at = self._parts.end(block, end + 1)
        return at


def inside(quote: str, escape: str) -> str:
    """Return the pattern of the text between two quotes, given the patterns of quote and escape."""
    return f"[^{quote}]+|{quote}{quote}" if quote == escape else f"[^{quote}{escape}]+|{escape}[{quote}{escape}]?"
