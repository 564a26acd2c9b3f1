"""The stored facts of a server and its tables."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sinkql import codec, logical


class Server(msgspec.Struct, frozen=True):
    """A server: MariaDB or MySQL, and its version."""

    mariadb: bool
    version: str


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column; `type` is its declaration, and `problem` names the type if it cannot be read."""

    name: str
    type: str
    nullable: bool
    problem: str | None = None


class Table(msgspec.Struct, frozen=True, omit_defaults=True):
    """A table: `key` is its primary key, or a unique key without NULL; `unique` are its other unique keys.

    `cascades` are foreign keys that change its rows without a log entry. A table with a `problem` cannot be read.
    """

    database: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    cascades: tuple[str, ...] = ()
    problem: str | None = None
    hint: str | None = None


class ServerFacts(msgspec.Struct, frozen=True):
    """The facts of a server."""

    mariadb: bool
    version: str
    tables: tuple[Table, ...]


def server_facts(facts: logical.Facts) -> ServerFacts | None:
    """Return the server's facts among the facts of a source."""
    return codec.convert(facts["mysql"], ServerFacts, strict=False) if "mysql" in facts else None


def listed(names: Sequence[str]) -> str:
    """Return names as messages show them."""
    return ", ".join(f'"{name}"' for name in names)
