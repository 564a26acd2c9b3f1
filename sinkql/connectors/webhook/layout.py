"""How a request becomes rows, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

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
