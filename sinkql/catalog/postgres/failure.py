"""Convert errors of a catalog's server to coded errors, without the password."""

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
    """Errors that are recognized by their text: without a connection, libpq provides no codes."""

    pattern: str
    code: str
    message: str
    hint: str


_FAILURES = (
    _Failure(
        r"password authentication failed|no password supplied|authentication failed|is not permitted to log in"
        r"|role .* does not exist|no pg_hba\.conf entry|pg_hba\.conf rejects",
        "SQ4151", "the server rejected the login",
        "Correct the user and password in the URL, PGPASSWORD or ~/.pgpass. Check them by connecting with psql.",
    ),
    _Failure(
        r'database ".*" does not exist',
        "SQ4152", "the database does not exist on the server",
        "Correct the name in the URL, or run CREATE DATABASE on the server.",
    ),
)  # fmt: skip


@contextmanager
def coded(url: ServerUrl) -> Iterator[None]:
    """Convert psycopg's errors about a catalog to coded errors."""
    try:
        yield
    except psycopg.Error as error:
        raise failure(error, url) from None  # the text of the cause may contain the URL


def failure(error: psycopg.Error, url: ServerUrl) -> SinkqlError:
    """Return the coded error for an error of psycopg; its text, without secrets, becomes the detail."""
    message = _message_of(error)
    if (error.sqlstate is None and isinstance(error, psycopg.ProgrammingError)) or message.startswith("invalid "):
        return _invalid_url_error(message, url)
    if error.sqlstate is None:
        for entry in _FAILURES:
            if re.search(entry.pattern, message, re.IGNORECASE | re.DOTALL):
                return SinkqlError(entry.code, f'{entry.message} (catalog "{url}")', detail=message, hint=entry.hint)
    match error:
        case errors.LockNotAvailable() | errors.SerializationFailure() | errors.DeadlockDetected():
            return busy(url, message)
        case errors.InsufficientPrivilege():
            return _privilege_error(url, message)
        case errors.ProtocolViolation() if "statement pooling" in message:
            return SinkqlError(
                "SQ4156",
                f'the pooler of the catalog\'s server does not support transactions (catalog "{url}")',
                detail=message,
                hint="Set pool_mode = transaction or pool_mode = session in PgBouncer.",
            )
        case psycopg.OperationalError() | psycopg.InterfaceError() | errors.ReadOnlySqlTransaction():
            return LateError(
                "SQ4150",
                f'catalog "{url}" cannot be reached',
                detail=message,
                hint="Check that the server runs, accepts connections from this host, and is not a standby. Running "
                "sinks continue automatically when it answers again.",
            )
        case _:
            return SinkqlError(
                "SQ4103",
                f'catalog "{url}" is damaged',
                detail=message,
                hint="Another program changed the tables. Restore a backup of the database.",
            )


def busy(url: ServerUrl, message: str | None = None) -> SinkqlError:
    """Return the error for a catalog whose write lock is not released."""
    return LateError(
        "SQ4104",
        f'catalog "{url}" is locked by another process',
        detail=message,
        hint="Try again. If the error persists, look in pg_stat_activity for a session with a long transaction.",
    )


def foreign(url: ServerUrl) -> SinkqlError:
    """Return the error for a schema of another program."""
    return SinkqlError(
        "SQ4154",
        f'schema "{url.schema}" of the database belongs to another program (catalog "{url}")',
        hint="Name another schema in the URL, for example postgresql+psycopg://user@host/database?schema=pipelines.",
    )


def _invalid_url_error(message: str, url: ServerUrl) -> SinkqlError:
    """Return the error for a URL that libpq refuses; only messages that cannot contain the password are shown."""
    harmless = re.match(r"(invalid (URI query parameter|\w+ value|port number)|bad value for)\b", message) is not None
    return SinkqlError(
        "SQ4113",
        f'the URL of the catalog is not valid (catalog "{url}")',
        detail=message if harmless else None,
        hint="After a question mark, write schema, folder or parameters of libpq, for example ?sslmode=require.",
    )


def _privilege_error(url: ServerUrl, message: str) -> SinkqlError:
    return SinkqlError(
        "SQ4153",
        f'the user may not create or use the schema "{url.schema}" (catalog "{url}")',
        detail=message,
        hint=f'Ask the database owner to run CREATE SCHEMA "{url.schema}" AUTHORIZATION with the user of the URL.',
    )


def _message_of(error: psycopg.Error) -> str:
    """Return the first line of the error, without libpq's prefix."""
    message = str(error).strip() or type(error).__name__
    return re.sub(
        r"^(connection (failed|is bad): )?(connection to server at .*? failed: )?", "", message.splitlines()[0]
    )
