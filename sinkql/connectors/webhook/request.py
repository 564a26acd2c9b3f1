"""Convert a request's body and headers to the values of its rows, and rows to Arrow, as the source's layout says."""

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
    """The headers of the column `headers`: the `kept` names, or all, without the `dropped` ones."""

    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    def take(self, headers: Mapping[str, bytes]) -> dict[str, str]:
        """Return the headers of the column by their names in lower case."""
        return {
            name: header_text(value)
            for name, value in sorted(headers.items())
            if name not in self.dropped and (not self.kept or name in self.kept)
        }


def header_text(value: bytes) -> str:
    """Return a header's value as text: UTF-8, or Latin-1 as in early HTTP."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


class Header(msgspec.Struct, frozen=True):
    """A header with a separate column."""

    name: str
    binary: bool = False


class Layout(msgspec.Struct, frozen=True):
    """How a request becomes rows: each has a body, then `headers` if there is a filter, then the `mapped` headers."""

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
    """Read the requests of one source."""

    layout: Layout
    bodies: Callable[[bytes], list[str | bytes]]

    @classmethod
    def of(cls, layout: Layout) -> Reading:
        """Return the reading for a layout."""
        readers: dict[Kind, Callable[[bytes], list[str | bytes]]] = {
            "json": _documents,
            "json array": _elements,
            "text": lambda body: [text_of(body)],
            "bytes": lambda body: [body],
        }
        return cls(layout, readers[layout.kind])

    def is_readable(self, encoding: bytes) -> bool:
        """Return whether bodies with a content encoding (gzip) are readable: only as bytes, unchanged."""
        return self.layout.kind == "bytes" or encoding.strip().lower() in (b"", b"identity")

    def request(self, at: int, headers: Mapping[str, bytes], body: bytes) -> Request:
        """Return a request as the request log stores it; raise BodyError."""
        values: list[Any] = []
        if self.layout.filter is not None:
            values.append(self.layout.filter.take(headers))
        for header in self.layout.mapped:
            value = headers.get(header.name)
            values.append(value if header.binary or value is None else header_text(value))
        return Request(at, self.bodies(body), values)

    def rows(self, requests: Sequence[Request], columns: Sequence[physical.Column]) -> pa.RecordBatch:
        """Return the rows of requests: the source's columns, and `$at`."""
        import pyarrow as pa

        counts = [len(request.bodies) for request in requests]
        values: list[list[Any]] = [[body for request in requests for body in request.bodies]]
        for index in range(len(columns) - 1):
            listed = (_as_pairs(request.headers[index]) for request in requests)
            values.append([value for value, count in zip(listed, counts, strict=True) for _ in range(count)])
        arrays = [pa.array(items, arrow_type(column.type)) for items, column in zip(values, columns, strict=True)]
        times = [request.at for request, count in zip(requests, counts, strict=True) for _ in range(count)]
        arrays.append(pa.array(times, pa.timestamp("us", "UTC")))
        return pa.record_batch(arrays, names=[*(column.name for column in columns), "$at"])


def _as_pairs(value: Any) -> Any:
    """Return a map as Arrow expects it."""
    return [{"key": name, "value": item} for name, item in value.items()] if isinstance(value, dict) else value


def text_of(body: bytes) -> str:
    """Return a body as text; raise BodyError."""
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
        lines = [line for line in text.split("\n") if line.strip(_BLANK)]
        documents = jsonbs(lines) if len(lines) > 1 else None
        return [*documents] if documents is not None else _documents_one_by_one(list(_split(text)))


def _elements(body: bytes) -> list[str | bytes]:
    """Return the JSON documents of a body, with arrays replaced by their elements."""
    texts: list[str] = []
    for document in _split(text_of(body)):
        if document.startswith("["):
            try:
                texts += [str(raw, "utf-8") for raw in _ELEMENTS.decode(document)]
            except (msgspec.MsgspecError, RecursionError):
                raise BodyError(_NOT_JSON) from None
        else:
            texts.append(document)
    documents = jsonbs(texts) if texts else None
    return [*documents] if documents is not None else _documents_one_by_one(texts)


def _documents_one_by_one(texts: list[str]) -> list[str | bytes]:
    try:
        return [jsonb(text) for text in texts]
    except (ValueError, RecursionError) as error:
        raise BodyError(f"{_NOT_JSON}: {error}" if isinstance(error, ValueError) else _NOT_JSON) from None


def _split(text: str) -> Iterator[str]:
    """Yield the texts of JSON documents that follow each other, with only white space in between."""
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
