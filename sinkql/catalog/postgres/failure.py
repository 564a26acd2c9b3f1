"""What keeps a catalog's server from answering → a coded error, which never has the password."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import errors

from sinkql.catalog.address import ServerUrl
from sinkql.errors import LateError, SinkqlError


@dataclass(frozen=True, slots=True)
class _Failure:
    """Errors that are known by what they say: without a connection libpq gives no codes."""

    pattern: str
    code: str
    message: str
    hint: str


_FAILURES = (
    _Failure(
        r"password authentication failed|no password supplied|authentication failed|is not permitted to log in"
        r"|role .* does not exist|no pg_hba\.conf entry|pg_hba\.conf rejects",
        "SQ4151", "the server does not let the user log in",
        "Correct user and password: in the URL, in PGPASSWORD or in ~/.pgpass; psql with the same values tells whether "
        "they are right.",
    ),
    _Failure(
        r'database ".*" does not exist',
        "SQ4152", "the server has no such database",
        "Correct the name in the URL, or run CREATE DATABASE on the server.",
    ),
)  # fmt: skip


@contextmanager
def coded(url: ServerUrl) -> Iterator[None]:
    """Turn errors of psycopg about a catalog into coded ones."""
    try:
        yield
    except psycopg.Error as error:
        raise failure(error, url) from None  # its text may have what was in the URL


def failure(error: psycopg.Error, url: ServerUrl) -> SinkqlError:
    """Return what an error means; its own words, without secrets, are the detail."""
    told = _told(error)
    if (error.sqlstate is None and isinstance(error, psycopg.ProgrammingError)) or told.startswith("invalid "):
        return _invalid(told, url)
    if error.sqlstate is None:
        for each in _FAILURES:
            if re.search(each.pattern, told, re.IGNORECASE | re.DOTALL):
                return SinkqlError(each.code, f'{each.message} (catalog "{url}")', detail=told, hint=each.hint)
    match error:
        case errors.LockNotAvailable() | errors.SerializationFailure() | errors.DeadlockDetected():
            return busy(url, told)
        case errors.InsufficientPrivilege():
            return _privilege(url, told)
        case errors.ProtocolViolation() if "statement pooling" in told:
            return SinkqlError(
                "SQ4156",
                f'the pooler of the catalog\'s server allows no transactions (catalog "{url}")',
                detail=told,
                hint="Have PgBouncer give out connections for transactions, pool_mode = transaction, or for sessions.",
            )
        case psycopg.OperationalError() | psycopg.InterfaceError() | errors.ReadOnlySqlTransaction():
            return LateError(
                "SQ4150",
                f'catalog "{url}" cannot be reached',
                detail=told,
                hint="Check that the server runs, takes connections from here, and is no standby. A running sink goes "
                "on by itself once it answers.",
            )
        case _:
            return SinkqlError(
                "SQ4103",
                f'catalog "{url}" is damaged',
                detail=told,
                hint="Another program changed its tables; restore a backup of the database.",
            )


def busy(url: ServerUrl, told: str | None = None) -> SinkqlError:
    """Return the error for a catalog whose turn to write does not come."""
    return LateError(
        "SQ4104",
        f'catalog "{url}" is locked by another process',
        detail=told,
        hint="Try again; if the error stays, look in pg_stat_activity for a session that stays in a transaction.",
    )


def foreign(url: ServerUrl) -> SinkqlError:
    """Return the error for a schema that another program has."""
    return SinkqlError(
        "SQ4154",
        f'schema "{url.schema}" of the database belongs to another program (catalog "{url}")',
        hint="Name another schema in the URL, as in postgresql+psycopg://user@host/database?schema=pipelines.",
    )


def _invalid(told: str, url: ServerUrl) -> SinkqlError:
    """Return the error for a URL that libpq does not take; what it says may have the password, but for these."""
    harmless = re.match(r"(invalid (URI query parameter|\w+ value|port number)|bad value for)\b", told) is not None
    return SinkqlError(
        "SQ4113",
        f'the URL of the catalog is not valid (catalog "{url}")',
        detail=told if harmless else None,
        hint="What may follow after a question mark is schema, folder, and what libpq takes, as in ?sslmode=require.",
    )


def _privilege(url: ServerUrl, told: str) -> SinkqlError:
    return SinkqlError(
        "SQ4153",
        f'the user may not create, or not use, the schema "{url.schema}" (catalog "{url}")',
        detail=told,
        hint=f'Let the owner of the database run CREATE SCHEMA "{url.schema}" AUTHORIZATION, with the user of the URL.',
    )


def _told(error: psycopg.Error) -> str:
    """Return the first line of what was told, without what libpq puts before it."""
    told = str(error).strip() or type(error).__name__
    return re.sub(r"^(connection (failed|is bad): )?(connection to server at .*? failed: )?", "", told.splitlines()[0])
