"""Decode a stream that is one JSON array to Arrow rows, one for each element, as lines of JSON are decoded.

The array is cut into elements by its strings and brackets, a block at a time.
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
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*){,100}"'  # `_element` walks through longer ones
_FLAT = rb'[{\[][^{}\[\]"]*(?:%b[^{}\[\]"]*){,200}[}\]]' % _STRING
_BLANK = re.compile(rb"[ \t\r\n]*")
_ELEMENT = re.compile(rb'%b|%b|[^ \t\r\n,\[\]{}"]+' % (_FLAT, _STRING), re.DOTALL)
_TO_BRACKET = RepeatedPattern(rb"[^{}\[\]\"]+|%b" % _STRING)
_IN_STRING = RepeatedPattern(rb'[^"\\]+|\\.')


class JsonArray:
    """Decode streams of one array each; `whole` reads each element into one jsonb column."""

    def __init__(self, columns: Sequence[physical.Column], *, whole: bool) -> None:
        self._lines = JsonDecoder(columns, whole=whole)

    def decode(self, stream: BinaryIO) -> Iterator[Decoded]:
        """Yield the rows of a stream; raise UndecodableError if it is not one closed array."""
        for block, line, elements in _blocks(stream):
            texts = [block[begin:end] for begin, end in elements]
            for part in self._lines.decode_lines([_on_one_line(text) for text in texts]):
                failed = []
                for failure in part.failures:
                    begin, end = elements[failure.line - 1]
                    failed.append(RowFailure(line + block.count(b"\n", 0, begin), failure.message, block[begin:end]))
                yield Decoded(part.batch, part.records, failed)


def _on_one_line(element: bytes) -> bytes:
    """Return an element without newlines; a newline in a string stays an error."""
    if b"\n" not in element:
        return element
    try:
        return msgspec.json.format(element, indent=-1)
    except msgspec.MsgspecError:
        return element.replace(b"\n", b"\1")


def _blocks(stream: BinaryIO) -> Iterator[tuple[bytes, int, list[tuple[int, int]]]]:
    """Yield blocks, each with its first line number and the begins and ends of its elements."""
    rest, line, state = b"", 1, "["
    while True:
        data = stream.read(max(BLOCK, len(rest)))  # reads double, so that a long element is searched few times
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
    """Return the begins and ends of a block's elements, the offset up to which it is used, and the next state.

    The state names the next token: `[`, an element or the end (`first`), an element (`next`), a comma or the end (`,`),
    or nothing (`end`).
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
            if end == at and not _may_continue(block, at):
                raise _misplaced(block, at, line, "an element")
            if end == at or (end == len(block) and not ended):
                return elements, at, state
            elements.append((at, end))
            at, state = end, ","
        else:
            expected = {"[": "[", ",": ", or ]"}.get(state, "nothing after the array")
            raise _misplaced(block, at, line, expected)


def _may_continue(block: bytes, at: int) -> bool:
    """Return whether an element begins there that may end in a later block."""
    return block[at : at + 1] in (b"{", b"[", b'"')


def _misplaced(block: bytes, at: int, line: int, expected: str) -> UndecodableError:
    character, here = block[at : at + 1].decode("latin-1"), line + block.count(b"\n", 0, at)
    return UndecodableError(f"line {here}: expected {expected}, found {character}")


def _element(block: bytes, at: int) -> int:
    """Return the end of the element that begins at an offset; the offset itself if it ends in a later block."""
    match = _ELEMENT.match(block, at)
    if match is not None:
        return match.end()
    if not _may_continue(block, at):
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
