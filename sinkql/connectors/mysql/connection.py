"""Open PyMySQL connections from planned ones, and explain why one fails."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import pymysql
from pymysql.constants import ER

from sinkql.connector_api import identity
from sinkql.connector_api.cdc import SKIP
from sinkql.connector_api.dead_connection import ResponseWatch
from sinkql.connector_api.options import reveal
from sinkql.connector_api.tunnel import Tunnel
from sinkql.connectors.mysql.login import GuardedConnection, login_refused_error
from sinkql.connectors.mysql.options import MySqlConnection
from sinkql.errors import SinkqlError

Connection = Any  # PyMySQL publishes no types
Reveal = Callable[[str], str]

_CONNECT_S = 20
_DENIED = {ER.ACCESS_DENIED_ERROR, ER.DBACCESS_DENIED_ERROR, ER.NOT_SUPPORTED_AUTH_MODE, 1698}
_NO_PRIVILEGE = {ER.SPECIFIC_ACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR}
_TRANSPORT = 3159
"""The server requires an encrypted connection."""


class UnencryptedError(SinkqlError):
    """A server does not offer encrypted connections."""


class _Connection(GuardedConnection):
    """A connection that closes its tunnel. A wait for the server ends if the server has lost the connection."""

    tunnel: Tunnel | None = None
    silence: ResponseWatch | None = None

    def _read_query_result(self, *args: Any, **options: Any) -> Any:
        with guarded(self):
            return super()._read_query_result(*args, **options)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._close_tunnel()

    def _force_close(self) -> None:
        super()._force_close()
        self._close_tunnel()

    def _close_tunnel(self) -> None:
        if self.tunnel is not None:
            self.tunnel.close()


def connect(
    options: MySqlConnection,
    secret: Reveal,
    *,
    name: str,
    timeout: float | None = None,
    tunnel: Mapping[str, Any] | None = None,
) -> Connection:
    """Open a connection in autocommit mode that receives texts in their own character sets.

    `tunnel` are the options of its SSH TUNNEL connection. Raises SQ4460 to SQ4463, and SQ442x for the tunnel.
    """
    if options.ssl_mode == "preferred":
        try:
            encrypted = replace(options, ssl_mode="required")
            return connect(encrypted, secret, name=name, timeout=timeout, tunnel=tunnel)
        except UnencryptedError:
            options = replace(options, ssl_mode="disabled")
    where = options.address
    opened = Tunnel(tunnel, secret, options.host, options.port) if tunnel is not None else None
    try:
        connection = _Connection(
            host=options.host,
            port=options.port,
            user=reveal(options.user, secret),
            password=reveal(options.password, secret) if options.password is not None else "",
            autocommit=True,
            charset="utf8mb4",
            connect_timeout=_CONNECT_S,
            read_timeout=_CONNECT_S,  # until the user is logged in
            write_timeout=timeout,
            program_name="sinkql",
            defer_connect=True,
            **_tls_arguments(options, secret),
        )
        connection.tunnel = opened
        connection.verified = options.ssl_mode.startswith("verify")
        connection.refused = login_refused_error(name, where)
        connection.connect(_tunnel_socket(opened) if opened is not None else None)
        connection._read_timeout = timeout
    except BaseException as error:
        if opened is not None:
            opened.close()
        if isinstance(error, ssl.SSLError):
            raise _tls_error(name, where, error) from error
        if isinstance(error, pymysql.Error | OSError | RuntimeError):
            raise failure(error, name=name, where=where) from error
        raise
    again = partial(connect, options, secret, name=name, timeout=timeout or _CONNECT_S, tunnel=tunnel)
    connection.silence = ResponseWatch(connection._sock.fileno, partial(_is_working, again, connection.thread_id()))
    return connection


def guarded(connection: Connection) -> AbstractContextManager[None]:
    """Return a context for calls that wait for the server."""
    silence: ResponseWatch | None = getattr(connection, "silence", None)
    return silence or nullcontext()


def _is_working(connect: Callable[[], Connection], session: int) -> bool:
    """Return whether the server works on the request of a session, over a new connection.

    A session that sleeps or waits for its client has finished. Behind a proxy, any answer counts.
    """
    with closing(connect()) as connection:
        mine, sessions = rows(connection, "SELECT CONNECTION_ID()")[0][0], rows(connection, _SESSION, (session,))
        if mine != connection.thread_id():
            return True
    return any(command != "Sleep" and state not in _TO_CLIENT for command, state in sessions)


_SESSION = "SELECT command, state FROM information_schema.processlist WHERE id = %s"
_TO_CLIENT = ("Writing to net", "Sending to client", "Reading from net", "Receiving from client")


def _tunnel_socket(tunnel: Tunnel) -> socket.socket:
    """Return a socket through the tunnel; certificates are still checked against the server's host name."""
    sock = socket.create_connection(("127.0.0.1", tunnel.port), timeout=_CONNECT_S)
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def _tls_arguments(options: MySqlConnection, secret: Reveal) -> dict[str, Any]:
    mode = options.ssl_mode
    if mode == "disabled":
        return {"ssl_disabled": True}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = mode == "verify_identity"
    context.verify_mode = ssl.CERT_NONE if mode == "required" else ssl.CERT_REQUIRED
    context.verify_flags &= ~getattr(
        ssl, "VERIFY_X509_STRICT", 0
    )  # the certificates that servers generate do not conform
    try:
        if options.ssl_certificate_authority is not None:
            context.load_verify_locations(cadata=reveal(options.ssl_certificate_authority, secret))
        else:
            context.load_default_certs()
        if options.ssl_certificate is not None and options.ssl_key is not None:
            certificate, key = reveal(options.ssl_certificate, secret), reveal(options.ssl_key, secret)
            identity.load_certificate(context, certificate, key)
    except (ssl.SSLError, ValueError) as error:
        raise SinkqlError(
            "SQ4462",
            "could not read a certificate or key of the connection",
            detail=str(error),
            hint="SSL CERTIFICATE AUTHORITY, SSL CERTIFICATE and SSL KEY must be texts in PEM format.",
        ) from error
    return {"ssl": context}


@contextmanager
def failing(*, name: str, where: str) -> Iterator[None]:
    """Translate errors of the client library in a block."""
    try:
        yield
    except (pymysql.Error, OSError) as error:
        raise failure(error, name=name, where=where) from error


def failure(error: Exception, *, name: str, where: str) -> SinkqlError:
    """Return the error that a failure of the client library means."""
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    cause = error.__cause__ or getattr(error, "original_exception", None)
    if isinstance(cause, ssl.SSLError):
        return _tls_error(name, where, cause)
    if number in _DENIED:
        return SinkqlError(
            "SQ4461",
            f'MySQL server {where} rejects the user of connection "{name}"',
            detail=text,
            hint="Correct USER, or the secret of PASSWORD. Check that the user may connect from this machine, and "
            "whether the server requires encryption: SSL MODE = 'required'.",
        )
    if number in _NO_PRIVILEGE:
        return no_privilege(where, text)
    if number == _TRANSPORT:
        return SinkqlError(
            "SQ4462",
            f"MySQL server {where} accepts only encrypted connections",
            hint="Add SSL MODE = 'required' to the connection.",
        )
    if "SSL" in text and "support" in text:
        return UnencryptedError(
            "SQ4462",
            f"MySQL server {where} does not offer encrypted connections",
            hint="Set up a certificate on the server, or set SSL MODE = 'disabled'.",
        )
    if number == ER.MASTER_FATAL_ERROR_READING_BINLOG:
        return _binlog_error(where, text)
    return SinkqlError(
        "SQ4460",
        f"MySQL server {where} does not answer"
        if _is_connection_lost(number)
        else f"MySQL server {where} cannot answer the request now",
        detail=text,
        hint="Check HOST and PORT of the connection, and that this machine can reach a MySQL server there."
        if _is_connection_lost(number)
        else None,
    )


def _is_connection_lost(number: int) -> bool:
    """Return whether an error concerns the connection: an error of the client or without a number of the server."""
    return number == 0 or 2000 <= number < 3000 or number < 1000


def no_privilege(where: str, text: str) -> SinkqlError:
    """Return the error of a missing privilege."""
    return SinkqlError(
        "SQ4465",
        f"the user lacks a privilege on MySQL server {where}",
        detail=text,
        hint="Run GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO name; on the server, with the user's "
        "name.",
    )


def _tls_error(name: str, where: str, error: ssl.SSLError) -> SinkqlError:
    """Return the error of a failed TLS handshake, usually due to a certificate or an old version."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return SinkqlError(
            "SQ4462",
            f"could not negotiate TLS with MySQL server {where}",
            detail=str(error),
            hint="Update the server's TLS, or set SSL MODE = 'disabled'.",
        )
    return SinkqlError(
        "SQ4462",
        f'the certificate of MySQL server {where} is not valid for connection "{name}"',
        detail=error.verify_message or str(error),
        hint="Set SSL CERTIFICATE AUTHORITY to the certificate of its issuer. SSL MODE = 'verify_ca' accepts any host "
        "name.",
    )


def _binlog_error(where: str, text: str) -> SinkqlError:
    """Return the error of a log that lacks the next events."""
    if "diverged" in text or "errant" in text or "more" in text.split() or "not in the master's binlog" in text:
        return SinkqlError(
            "SQ4467",
            f"MySQL server {where} does not have the transactions that were read last",
            detail=text,
            hint=f"Another server may have taken over. {SKIP}",
        )
    return SinkqlError(
        "SQ4466",
        f"MySQL server {where} has deleted unread parts of its binary log",
        detail=text,
        hint=f"{SKIP} Set binlog_expire_logs_seconds higher.",
    )


def rows(connection: Connection, query: str, arguments: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with connection.cursor() as cursor:
        cursor.execute(query, arguments or None)
        return list(cursor.fetchall())


def variables(connection: Connection, *names: str) -> dict[str, str]:
    """Return the values of server variables by lower-case name; unknown ones are left out."""
    places = ", ".join(["%s"] * len(names))
    settings = rows(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({places})", names)
    return {name.lower(): value for name, value in settings}


def is_mariadb(connection: Connection) -> bool:
    """Return whether the server is MariaDB."""
    return "mariadb" in rows(connection, "SELECT VERSION()")[0][0].lower()


def charsets(connection: Connection, *, maria: bool) -> dict[int, str]:
    """Return the character set of each collation, by the collation's id."""
    table = "collation_character_set_applicability" if maria else "collations"
    query = f"SELECT id, character_set_name FROM information_schema.{table} WHERE id IS NOT NULL"
    return dict(rows(connection, query))
