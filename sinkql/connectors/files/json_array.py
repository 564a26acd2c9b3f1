"""A stream that is one JSON array → Arrow rows of declared columns, an element each, decoded as JSON lines are.

The array is cut into elements by its strings and brackets, as much of it at a time as was read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import msgspec

from sinkql import physical
from sinkql.connector_api.stream import Decoded, RowFailure, UndecodableError
from sinkql.decode.json_lines import JsonDecoder
from sinkql.regex_repeat import RepeatedPattern

BLOCK = 1 << 20
_LONGEST = 128 << 20
_BOM = b"\xef\xbb\xbf"
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*){,100}"'  # those with more, and what has more, are walked through: see _element
_FLAT = rb'[{\[][^{}\[\]"]*(?:%b[^{}\[\]"]*){,200}[}\]]' % _STRING
_BLANK = re.compile(rb"[ \t\r\n]*")
_ELEMENT = re.compile(rb'%b|%b|[^ \t\r\n,\[\]{}"]+' % (_FLAT, _STRING), re.DOTALL)
_TO_BRACKET = RepeatedPattern(rb"[^{}\[\]\"]+|%b" % _STRING)
_IN_STRING = RepeatedPattern(rb'[^"\\]+|\\.')


class JsonArray:
    """Decode streams of one array each; `whole` puts each element into one jsonb column."""

    def __init__(self, columns: Sequence[physical.Column], *, whole: bool) -> None:
        self._lines = JsonDecoder(columns, whole=whole)

    def decode(self, stream: BinaryIO) -> Iterator[Decoded]:
        """Yield the rows of a stream; raises UndecodableError where it is not an array, or not closed."""
        for block, line, elements in _blocks(stream):
            texts = [block[begin:end] for begin, end in elements]
            for part in self._lines.decode_lines([_on_one_line(text) for text in texts]):
                failed = []
                for failure in part.failures:
                    begin, end = elements[failure.line - 1]
                    failed.append(RowFailure(line + block.count(b"\n", 0, begin), failure.message, block[begin:end]))
                yield Decoded(part.batch, part.records, failed)


def _on_one_line(element: bytes) -> bytes:
    """Return an element without newlines; one in a string stays an error."""
    if b"\n" not in element:
        return element
    try:
        return msgspec.json.format(element, indent=-1)
    except msgspec.MsgspecError:
        return element.replace(b"\n", b"\1")


def _blocks(stream: BinaryIO) -> Iterator[tuple[bytes, int, list[tuple[int, int]]]]:
    """Yield what was read, the line in which it begins, and where the elements in it begin and end."""
    rest, line, state = b"", 1, "["
    while True:
        data = stream.read(max(BLOCK, len(rest)))  # as much again: a long element is not searched many times over
        block = rest + data
        if state == "[":
            block = block.removeprefix(_BOM)
        elements, at, state = _cut(block, state, line, ended=not data)
        if elements:
            yield block, line, elements
        line += block.count(b"\n", 0, at)
        rest = block[at:]
        if not data:
            break
        if len(rest) > _LONGEST:
            raise UndecodableError(f"the element in line {line} is longer than {_LONGEST >> 20} MiB")
    if state != "end" or rest:
        what = "its array is not closed" if state not in ("[", "end") else "it is not a JSON array"
        raise UndecodableError(f"line {line}: {what}")


def _cut(block: bytes, state: str, line: int, *, ended: bool) -> tuple[list[tuple[int, int]], int, str]:
    """Return where a block's elements begin and end, up to where it is read, and what comes next.

    That is `[`, an element or the end (`first`), an element (`next`), a comma or the end (`,`), or nothing (`end`).
    """
    elements: list[tuple[int, int]] = []
    at = 0
    while True:
        at = _end_of(_BLANK, block, at)
        if at == len(block):
            return elements, at, state
        here = block[at : at + 1]
        if state == "[" and here == b"[":
            at, state = at + 1, "first"
        elif state in ("first", ",") and here == b"]":
            at, state = at + 1, "end"
        elif state == "," and here == b",":
            at, state = at + 1, "next"
        elif state in ("first", "next"):
            end = _element(block, at)
            if end == at and not _may_go_on(block, at):
                raise _misplaced(block, at, line, "an element")
            if end == at or (end == len(block) and not ended):
                return elements, at, state
            elements.append((at, end))
            at, state = end, ","
        else:
            expected = {"[": "[", ",": ", or ]"}.get(state, "nothing after the array")
            raise _misplaced(block, at, line, expected)


def _may_go_on(block: bytes, at: int) -> bool:
    """Return whether an element begins there that has no end in the block."""
    return block[at : at + 1] in (b"{", b"[", b'"')


def _misplaced(block: bytes, at: int, line: int, expected: str) -> UndecodableError:
    found, here = block[at : at + 1].decode("latin-1"), line + block.count(b"\n", 0, at)
    return UndecodableError(f"line {here}: expected {expected}, found {found}")


def _element(block: bytes, at: int) -> int:
    """Return where the element that begins there ends, `at` where it does not end in the block."""
    match = _ELEMENT.match(block, at)
    if match is not None:
        return match.end()
    if not _may_go_on(block, at):
        return at
    depth, end = 0, at
    while depth or end == at:
        end = _TO_BRACKET.end(block, end)
        sign = block[end : end + 1]
        if sign == b'"':
            end = _IN_STRING.end(block, end + 1)
            if not block.startswith(b'"', end):
                return at
        elif sign:
            depth += 1 if sign in b"{[" else -1
        else:
            return at
        end += 1
    return end


def _end_of(pattern: re.Pattern[bytes], block: bytes, at: int) -> int:
    match = pattern.match(block, at)
    return at if match is None else match.end()
