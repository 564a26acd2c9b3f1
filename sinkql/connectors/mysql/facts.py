"""What is known of a server and its tables, as it is stored with a source."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sinkql import codec, logical


class Server(msgspec.Struct, frozen=True):
    """A server: of MariaDB or MySQL, and its version."""

    mariadb: bool
    version: str


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column; `type` is its declaration, `problem` what the type is called where it cannot be read."""

    name: str
    type: str
    nullable: bool
    problem: str | None = None


class Table(msgspec.Struct, frozen=True, omit_defaults=True):
    """A table: `key` is its primary key, or else a unique one without NULL; `unique` are the other ones.

    `cascades` are foreign keys that change its rows without a word in the log. A `problem` keeps it from being read.
    """

    database: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    cascades: tuple[str, ...] = ()
    problem: str | None = None
    hint: str | None = None


class Found(msgspec.Struct, frozen=True):
    """What a server was found to have."""

    mariadb: bool
    version: str
    tables: tuple[Table, ...]


def found_of(facts: logical.Facts) -> Found | None:
    """Return what is among the facts of a source."""
    return codec.convert(facts["mysql"], Found, strict=False) if "mysql" in facts else None


def listed(names: Sequence[str]) -> str:
    """Return names as messages have them."""
    return ", ".join(f'"{each}"' for each in names)
