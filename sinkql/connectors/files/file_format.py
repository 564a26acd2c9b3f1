"""Describe how the files of one source are decoded, and cut them into splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sinkql.connector_api.stream import Decoding, Size, Split
from sinkql.connectors.files.content import Part, SeenFile, Written, from_data
from sinkql.connectors.files.options import format_options

_SPLIT_BYTES = 64 << 20
_MOST_SPLITS = 64
_ROW_BYTES = 100
"""The bytes of a row whose end only decoding finds."""
_STORED_ROW_BYTES = 25
"""The bytes of a row in a format like Parquet, which is compressed."""
_COMPRESSED_TIMES = 10
"""How much larger a compressed file is when it is decompressed: usual for JSON and CSV, at most a thousand."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The format of a source's files.

    `options` are the planned options. A `pinned` file is opened only as it was listed, by its etag.
    """

    options: Mapping[str, Any]
    decoding: Decoding
    written: Written
    pinned: bool
    name: str = field(init=False)
    array: bool = field(init=False)
    lines: bool = field(init=False)
    """Whether each record is a line."""
    quote: bytes = field(init=False)
    """The character that each record has an even number of; empty if records cannot be cut by it."""

    def __post_init__(self) -> None:
        options = format_options(self.options)
        object.__setattr__(self, "name", options.name)
        object.__setattr__(self, "array", options.array)
        object.__setattr__(self, "lines", self.decoding.lines(self.options))
        object.__setattr__(self, "quote", self.decoding.quote(self.options))

    def is_plain(self, file: SeenFile) -> bool:
        """Return whether a file is decoded from its bytes, without decompressing or transcoding them."""
        return self.decoding.stored is not None or self.written.is_plain(file.name)

    def is_divisible(self, file: SeenFile) -> bool:
        """Return whether a file can be read in several splits of whole records."""
        if self.pinned and file.size <= _SPLIT_BYTES:
            return False  # so that it is fetched with one request
        return (self.lines or self.quote != b"") and self.is_plain(file)

    def size(self, split: Split) -> Size:
        """Return about how large a split is: its lines if they are records, otherwise a guess by its bytes."""
        file, parts, begin = from_data(split["file"]), split["parts"], split["from"]
        end = split.get("to", parts[-1][0] if parts else begin)
        size = max(0, end - begin)
        if self.decoding.stored is not None:
            return Size(size // _STORED_ROW_BYTES, size)
        if not self.is_plain(file):
            return Size(size * _COMPRESSED_TIMES // _ROW_BYTES, size * _COMPRESSED_TIMES)
        lines = [lines for _, lines, digest in parts if digest and lines >= 0]
        if size and (self.lines or self.quote) and len(lines) == len(parts):
            return Size(sum(lines) * size // (end - split["base"]), size)
        return Size(size // _ROW_BYTES, size)

    def splits(self, file: SeenFile, begin: int) -> Iterator[Split]:
        """Yield the splits of a file from a byte on, of about 64 MiB if its format can be cut."""
        if self.decoding.stored is not None:
            yield from _stored_splits(file)
            return
        base = lines = 0
        parts: list[Part] = []
        name = msgspec.structs.replace(file, parts=()).data()
        head = {"head": file.parts[0]} if self.quote and self.is_divisible(file) and file.parts else {}
        for part in file.parts:
            if part[0] <= begin:
                base, lines = part[0], lines + part[1]
                continue
            parts.append(part)
            if self.is_divisible(file) and part[0] - base >= _SPLIT_BYTES and part[1] >= 0:
                yield {"file": name, "base": base, "from": max(begin, base), "lines": lines, "parts": parts, **head}
                base, lines, parts = part[0], lines + sum(count for _, count, _ in parts), []
        if parts or not file.parts:
            yield {"file": name, "base": base, "from": max(begin, base), "lines": lines, "parts": parts, **head}


def _stored_splits(file: SeenFile) -> Iterator[Split]:
    """Yield the splits of a file that the decoder seeks in: each has all parts, since it may read any of them."""
    name = msgspec.structs.replace(file, parts=()).data()
    begin, least = 0, max(_SPLIT_BYTES, file.size // _MOST_SPLITS)
    for end, _, _ in file.parts:
        if end - begin >= least or end == file.size:
            yield {"file": name, "base": 0, "from": begin, "to": end, "lines": 0, "parts": file.parts}
            begin = end
    if not file.parts:
        yield {"file": name, "base": 0, "from": 0, "to": 0, "lines": 0, "parts": ()}
