"""The stored facts of a publication."""

from __future__ import annotations

import msgspec

from sinkql import codec, logical
from sinkql.connectors.postgres.type import ServerTable
from sinkql.keywords import QUERY, QUOTED

_MORE = "CHECK COLUMN CREATE DO FOR GRANT INTO REFERENCES TABLE TO UNIQUE USER"
_RESERVED = QUERY | QUOTED | frozenset(_MORE.split())


UNKNOWN = ""
"""The system identifier of a server that was only previewed: the server shows it only to replication users."""


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a table's changes cannot be read, as an error for statements that use the table.

    With `rows`, its rows cannot be read either.
    """

    code: str
    message: str
    hint: str
    rows: bool = False


class PublicationFacts(msgspec.Struct, frozen=True):
    """The facts of a publication: its server, its tables, and the problems of tables that cannot be read.

    `left_out` has the columns that the server does not send, and `generated` the generated ones among them.
    `partitioned` has each table whose partitions are sent instead, with one partition.
    """

    version: int
    system: str
    tables: tuple[ServerTable, ...]
    problems: dict[str, Problem] = {}
    left_out: dict[str, tuple[str, ...]] = {}
    partitioned: dict[str, str] = {}
    generated: dict[str, tuple[str, ...]] = {}


def publication_facts(facts: logical.Facts) -> PublicationFacts | None:
    """Return the facts that `find` stored; None if the server was not asked."""
    return codec.convert(facts["postgres"], PublicationFacts) if "postgres" in facts else None


def quoted(name: str) -> str:
    """Return a name as Postgres reads it."""
    plain = name.isascii() and name.isidentifier() and name == name.lower() and name.upper() not in _RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'
