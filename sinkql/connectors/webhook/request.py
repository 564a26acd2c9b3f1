"""A request's body and headers → the values of its rows, or why it is refused; rows → Arrow.

How a request becomes rows, as data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from sinkql import codec, physical
from sinkql.connector_api.types import arrow_type
from sinkql.connectors.webhook.request_log import Request
from sinkql.logical.jsonb import jsonb, jsonbs

if TYPE_CHECKING:
    import pyarrow as pa


Kind = Literal["json", "json array", "text", "bytes"]


class Filter(msgspec.Struct, frozen=True):
    """Which headers the column `headers` has: those that are `kept`, or all, less those that are `dropped`."""

    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    def take(self, headers: Mapping[str, bytes]) -> dict[str, str]:
        """Return the headers that the column has, by their names in lower case."""
        return {
            name: header_text(value)
            for name, value in sorted(headers.items())
            if name not in self.dropped and (not self.kept or name in self.kept)
        }


def header_text(value: bytes) -> str:
    """Return a header's value as text: UTF-8, or Latin-1 as HTTP had it once."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


class Header(msgspec.Struct, frozen=True):
    """A header with a column of its own."""

    name: str
    binary: bool = False


class Layout(msgspec.Struct, frozen=True):
    """How a request becomes rows: each has a body, then `headers` if there is a filter, then those of `mapped`."""

    kind: Kind
    filter: Filter | None = None
    mapped: tuple[Header, ...] = ()


_BLANK = " \t\n\r"
_ELEMENTS = codec.decoder(list[msgspec.Raw])
_NOT_JSON = "the body is not valid JSON"


class BodyError(ValueError):
    """The body is not of the source's format."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Read requests of one source."""

    layout: Layout
    bodies: Callable[[bytes], list[str | bytes]]

    @classmethod
    def of(cls, layout: Layout) -> Reading:
        """Return what reads requests of a layout."""
        made: dict[Kind, Callable[[bytes], list[str | bytes]]] = {
            "json": _documents,
            "json array": _elements,
            "text": lambda body: [text_of(body)],
            "bytes": lambda body: [body],
        }
        return cls(layout, made[layout.kind])

    def takes(self, encoding: bytes) -> bool:
        """Tell whether bodies that were encoded on their way, such as by gzip, are taken: bytes are, as they come."""
        return self.layout.kind == "bytes" or encoding.strip().lower() in (b"", b"identity")

    def request(self, at: int, headers: Mapping[str, bytes], body: bytes) -> Request:
        """Return a request as the journal has it; raises BodyError."""
        found: list[Any] = []
        if self.layout.filter is not None:
            found.append(self.layout.filter.take(headers))
        for each in self.layout.mapped:
            value = headers.get(each.name)
            found.append(value if each.binary or value is None else header_text(value))
        return Request(at, self.bodies(body), found)

    def rows(self, requests: Sequence[Request], columns: Sequence[physical.Column]) -> pa.RecordBatch:
        """Return the rows of requests: the source's columns, and `$at`."""
        import pyarrow as pa

        counts = [len(each.bodies) for each in requests]
        values: list[list[Any]] = [[body for each in requests for body in each.bodies]]
        for place in range(len(columns) - 1):
            listed = (_listed(each.headers[place]) for each in requests)
            values.append([value for value, count in zip(listed, counts, strict=True) for _ in range(count)])
        arrays = [pa.array(each, arrow_type(column.type)) for each, column in zip(values, columns, strict=True)]
        times = [each.at for each, count in zip(requests, counts, strict=True) for _ in range(count)]
        arrays.append(pa.array(times, pa.timestamp("us", "UTC")))
        return pa.record_batch(arrays, names=[*(each.name for each in columns), "$at"])


def _listed(value: Any) -> Any:
    """Return a map as Arrow has it."""
    return [{"key": name, "value": each} for name, each in value.items()] if isinstance(value, dict) else value


def text_of(body: bytes) -> str:
    """Return a body as text; raises BodyError."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise BodyError("the body is not valid UTF-8") from None


def _documents(body: bytes) -> list[str | bytes]:
    """Return the JSON documents of a body, one after the other, as texts of jsonb."""
    text = text_of(body)
    try:
        return [jsonb(text)]
    except (ValueError, RecursionError):
        lines = [each for each in text.split("\n") if each.strip(_BLANK)]
        found = jsonbs(lines) if len(lines) > 1 else None
        return [*found] if found is not None else _exact(list(_split(text)))


def _elements(body: bytes) -> list[str | bytes]:
    """Return the JSON documents of a body, and of arrays their elements."""
    texts: list[str] = []
    for each in _split(text_of(body)):
        if each.startswith("["):
            try:
                texts += [str(raw, "utf-8") for raw in _ELEMENTS.decode(each)]
            except (msgspec.MsgspecError, RecursionError):
                raise BodyError(_NOT_JSON) from None
        else:
            texts.append(each)
    found = jsonbs(texts) if texts else None
    return [*found] if found is not None else _exact(texts)


def _exact(texts: list[str]) -> list[str | bytes]:
    try:
        return [jsonb(each) for each in texts]
    except (ValueError, RecursionError) as error:
        raise BodyError(f"{_NOT_JSON}: {error}" if isinstance(error, ValueError) else _NOT_JSON) from None


def _split(text: str) -> Iterator[str]:
    """Yield the texts of JSON documents that follow each other, with nothing but blanks between."""
    at, decode = 0, json.JSONDecoder().raw_decode
    while True:
        while at < len(text) and text[at] in _BLANK:
            at += 1
        if at == len(text):
            return
        try:
            _, end = decode(text, at)
        except (ValueError, RecursionError):
            raise BodyError(_NOT_JSON) from None
        yield text[at:end]
        at = end
