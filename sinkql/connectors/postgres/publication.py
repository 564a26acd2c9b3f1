"""What is known of a publication: its server, its tables, and what is wrong with some. It is kept as facts."""

from __future__ import annotations

import msgspec

from sinkql import codec, logical
from sinkql.connectors.postgres.type import ServerTable
from sinkql.keywords import QUERY, QUOTED

_MORE = "CHECK COLUMN CREATE DO FOR GRANT INTO REFERENCES TABLE TO UNIQUE USER"
_RESERVED = QUERY | QUOTED | frozenset(_MORE.split())


UNKNOWN = ""
"""The id of a server that was only looked at: it tells its own to whom may read its changes."""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a table's changes cannot be read, or not even its `rows`: an error raised where somebody wants them."""

    code: str
    message: str
    hint: str
    rows: bool = False


class Found(msgspec.Struct, frozen=True):
    """What was found of a publication: its server, and its tables, with the problem of each that cannot be read.

    `left_out` has the columns that the server does not send, `generated` those of them that it computes, `partitioned`
    the tables whose partitions it sends instead, each with one of them.
    """

    version: int
    system: str
    tables: tuple[ServerTable, ...]
    problems: dict[str, Problem] = {}
    left_out: dict[str, tuple[str, ...]] = {}
    partitioned: dict[str, str] = {}
    generated: dict[str, tuple[str, ...]] = {}


def found_of(facts: logical.Facts) -> Found | None:
    """Read the facts that `find` gave; None where nobody asked."""
    return codec.convert(facts["postgres"], Found) if "postgres" in facts else None


def quoted(name: str) -> str:
    """Return a name as Postgres reads it."""
    plain = name.isascii() and name.isidentifier() and name == name.lower() and name.upper() not in _RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'
