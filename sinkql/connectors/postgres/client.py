"""Open psycopg connections from planned ones, and explain why one fails."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from sinkql import logical, physical
from sinkql.connector_api.dead_connection import GuardedConnection, ResponseWatch, backend_pid, is_backend_active
from sinkql.connector_api.options import reveal
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connector_api.tunnel import Tunnel, carried_tunnel, planned_tunnel
from sinkql.connectors.postgres.connection import PostgresConnection
from sinkql.errors import SinkqlError

_TIMEOUT_S = 10
SILENCE_S = 60
"""Seconds without an answer from the server's machine after which a connection counts as broken."""
APPLICATION = "sinkql"


class _Connection(GuardedConnection):
    """A connection that closes the tunnel that it uses."""

    tunnel: Tunnel | None = None

    def close(self) -> None:
        super().close()
        if self.tunnel is not None:
            self.tunnel.close()


@dataclass(frozen=True, slots=True)
class Login:
    """Where a database is, and which user connects. Secrets are read each time that a connection is opened."""

    name: str
    options: PostgresConnection
    secret: Callable[[str], str] = field(repr=False)
    tunnel: Mapping[str, Any] | None = None

    @classmethod
    def planned(cls, connection: logical.Connection, access: OutsideAccess) -> Login:
        """Return the login of a planned connection."""
        options = PostgresConnection.from_plan(connection.options)
        return cls(connection.name, options, access.secret, planned_tunnel(connection, access))

    @classmethod
    def of(cls, connection: physical.Connection, secret: Callable[[str], str]) -> Login:
        """Return the login of a connection as a job carries it."""
        options = PostgresConnection.from_plan(connection.options)
        return cls(connection.name, options, secret, carried_tunnel(connection))

    def connect(
        self, *, replication: bool = False, application: str = APPLICATION
    ) -> psycopg.Connection[tuple[Any, ...]]:
        """Open a connection in autocommit mode; raise SQ44… with the option that caused the failure."""
        with self._parameters(application) as parameters:
            if replication:
                parameters["replication"] = "database"
            tunnel = None
            if self.tunnel is not None:
                tunnel = Tunnel(self.tunnel, self.secret, self.options.host, self.options.port)
                parameters.update(_through(tunnel))
            try:
                connection = _Connection.connect(**parameters, autocommit=True)
            except psycopg.Error as error:
                if tunnel is not None:
                    tunnel.close()
                raise failure(
                    error, self.options, user=parameters["user"]
                ) from None  # the cause's text may contain the user's name
            connection.tunnel = tunnel
            connection.silence = ResponseWatch(
                connection.fileno, partial(self.is_active, self._session_pid(connection))
            )
            return connection

    @contextmanager
    def address(self, first: psycopg.Connection[tuple[Any, ...]], **more: object) -> Iterator[str]:
        """Yield the connection string of another connection like `first`, through the same tunnel.

        It names temporary files, so it is valid in the block only. `more` are other parameters of libpq.
        """
        with self._parameters(first.info.parameter_status("application_name") or APPLICATION) as parameters:
            tunnel = first.tunnel if isinstance(first, _Connection) else None
            yield psycopg.conninfo.make_conninfo(**parameters | (_through(tunnel) if tunnel else {}) | more)

    @contextmanager
    def _parameters(self, application: str) -> Iterator[dict[str, Any]]:
        """Yield libpq's parameters of a connection, without a tunnel."""
        options = self.options
        with _write_files(options, self.secret) as files:
            parameters: dict[str, Any] = {
                "host": options.host,
                "port": options.port,
                "dbname": options.database,
                "user": reveal(options.user, self.secret),
                "sslmode": options.ssl_mode.replace("_", "-"),
                "application_name": application,
                "connect_timeout": _TIMEOUT_S,
                "client_encoding": "UTF8",
                "keepalives_idle": SILENCE_S // 2,
                "keepalives_interval": SILENCE_S // 6,
                "keepalives_count": 3,
                "tcp_user_timeout": SILENCE_S * 1000,
                "gssencmode": "disable",
                **files,
            }
            if options.password is not None:
                parameters["password"] = reveal(options.password, self.secret)
            yield parameters

    def _session_pid(self, connection: psycopg.Connection[tuple[Any, ...]]) -> int | None:
        """Return the server's process id of a connection; None behind a pooler."""
        try:
            return backend_pid(connection)
        except psycopg.Error as error:
            connection.close()
            raise failure(error, self.options) from error

    def is_active(self, session: int | None) -> bool:
        """Return whether the server works on the request of a session, over a new connection."""
        with closing(self.connect()) as connection:
            return is_backend_active(connection, session)


def _through(tunnel: Tunnel) -> dict[str, Any]:
    return {"hostaddr": "127.0.0.1", "port": tunnel.port}


def guarded(connection: psycopg.Connection[tuple[Any, ...]]) -> AbstractContextManager[None]:
    """Return a context for calls of libpq that wait for the server without psycopg."""
    silence = connection.silence if isinstance(connection, _Connection) else None
    return silence or nullcontext()


def is_working(connection: psycopg.Connection[tuple[Any, ...]]) -> bool:
    """Return whether the server works on the request of this connection, over a new connection."""
    silence = connection.silence if isinstance(connection, _Connection) else None
    try:
        return silence is None or silence.alive()
    except SinkqlError:
        return False


@contextmanager
def _write_files(options: PostgresConnection, secret: Callable[[str], str]) -> Iterator[dict[str, str]]:
    """Write certificates and keys to temporary files for libpq.

    Files of the user's home folder are ignored: only the options describe a connection.
    """
    with tempfile.TemporaryDirectory(prefix="sinkql-") as folder:
        files = {
            "sslcert": options.ssl_certificate,
            "sslkey": options.ssl_key,
            "sslrootcert": options.ssl_certificate_authority,
        }
        parameters = {parameter: os.path.join(folder, "absent") for parameter in files}
        for parameter, text in files.items():
            if text is not None:
                path = Path(folder, parameter)
                path.touch(mode=0o600)
                path.write_text(reveal(text, secret))
                parameters[parameter] = str(path)
        yield parameters


@dataclass(frozen=True, slots=True)
class _Failure:
    pattern: str
    code: str
    message: str
    option: str
    hint: str


_FAILURES = (
    _Failure(
        r"failed to resolve host|could not translate host name",
        "SQ4401", 'host "{host}" is unknown', "HOST",
        "Correct HOST: the machine that runs SinkQL must be able to resolve it.",
    ),
    _Failure(
        r"Connection refused",
        "SQ4402", "nothing listens on port {port} of {host}", "PORT",
        "Start the server, or correct HOST and PORT. The server's listen_addresses must allow connections from here.",
    ),
    _Failure(
        r"timeout expired|timed out|No route to host|Network is unreachable",
        "SQ4403", "{host} does not answer on port {port}", "HOST",
        "Open the port in the firewall, or connect through an SSH TUNNEL.",
    ),
    _Failure(
        r"no password supplied",
        "SQ4404", "the server asks for a password", "USER",
        "Run CREATE SECRET name AS '…'; and add PASSWORD = SECRET name.",
    ),
    _Failure(
        r"password authentication failed",
        "SQ4404", "the server rejects the user or the password", "PASSWORD",
        "Correct USER, or the secret with ALTER SECRET name AS '…'. Check the values with psql.",
    ),
    _Failure(
        r"role .* is not permitted to log in",
        "SQ4404", "the user may not log in to the server", "USER",
        "Run ALTER ROLE name LOGIN on the server.",
    ),
    _Failure(
        r"role .* does not exist",
        "SQ4404", "the server has no such user", "USER",
        "Correct USER, or run CREATE ROLE name LOGIN REPLICATION PASSWORD '…' on the server.",
    ),
    _Failure(
        r"no pg_hba\.conf entry.*no encryption|requires? SSL|SSL required",
        "SQ4405", "the server accepts no connections of this user from here, at least without SSL", "USER",
        "Add SSL MODE = require, or a line for the user and this machine to the server's pg_hba.conf.",
    ),
    _Failure(
        r"no pg_hba\.conf entry|pg_hba\.conf rejects",
        "SQ4405", "the server accepts no connections of this user from here", "USER",
        "Add a line for the user and this machine to the server's pg_hba.conf, and run SELECT pg_reload_conf() there.",
    ),
    _Failure(
        r'database ".*" does not exist',
        "SQ4406", 'the server has no database "{database}"', "DATABASE",
        "Correct DATABASE; SELECT datname FROM pg_database on the server lists them.",
    ),
    _Failure(
        r"server does not support SSL",
        "SQ4407", "the server does not support SSL", "SSL MODE",
        "Set ssl = on in the server's postgresql.conf, with a certificate. In a safe network, leave out SSL MODE.",
    ),
    _Failure(
        r"does not match host name",
        "SQ4409", 'the server\'s certificate is not valid for "{host}"', "HOST",
        "Use a name of the certificate as HOST, or set SSL MODE = verify_ca.",
    ),
    _Failure(
        r"certificate verify failed|self.signed certificate|SSL error: .*signature",
        "SQ4408", "the server's certificate has expired, or was not signed by SSL CERTIFICATE AUTHORITY",
        "SSL CERTIFICATE AUTHORITY",
        "Renew it on the server, or set the certificate of the authority that signed it. openssl s_client -starttls "
        "postgres -connect host:port shows its dates and its issuer. SSL MODE = require checks no certificate.",
    ),
    _Failure(
        r"alert .*(certificate|unknown ca|decrypt error|handshake failure)|valid client certificate"
        r"|certificate authentication failed",
        "SQ4415", "the server rejects the connection's certificate, or requires one", "SSL CERTIFICATE",
        "Set SSL CERTIFICATE and SSL KEY to a valid certificate of the user, from an authority that the server trusts. "
        "ALTER CONNECTION and ALTER SECRET replace them.",
    ),
    _Failure(
        r"could not (read|load).*(certificate|key|root)|root certificate file|no start line|bad (end|base64)",
        "SQ4410", "a certificate or key of the connection is not PEM text", "SSL CERTIFICATE AUTHORITY",
        "Use the text from -----BEGIN …----- to -----END …-----, for example CREATE SECRET name AS file('ca.pem').",
    ),
    _Failure(
        r"permission denied to start WAL sender|must be superuser or replication role",
        "SQ4411", "the user may not read the server's changes", "USER",
        "Run ALTER ROLE name REPLICATION on the server; on Amazon RDS GRANT rds_replication TO name.",
    ),
    _Failure(
        r"too many (clients|connections)|remaining connection slots|max_wal_senders|number of requested standby",
        "SQ4412", "the server has no connection left", "HOST",
        "Raise max_connections, and max_wal_senders for sources, or end other connections. SinkQL retries "
        "automatically.",
    ),
    _Failure(
        r"is (starting up|shutting down|in recovery mode|not accepting|not yet accepting)|terminating connection",
        "SQ4413", "the server is starting or stopping", "HOST",
        "Wait until it is up. A running source retries automatically.",
    ),
    _Failure(
        r"expected authentication request|invalid response to (SSL|GSSAPI) negotiation",
        "SQ4414", "the program on port {port} of {host} is not a Postgres server", "PORT",
        "Correct HOST and PORT.",
    ),
    _Failure(
        r"server closed the connection unexpectedly",
        "SQ4414", "{host} closed the connection on port {port}", "PORT",
        "Check the server's log. If it has no entry, check that Postgres listens on the port.",
    ),
)  # fmt: skip


def failure(error: psycopg.Error, options: PostgresConnection, *, user: str = "") -> SinkqlError:
    """Return the error that explains why a connection does not open or broke.

    The server's own message is the detail, without the user's name: USER may be a secret.
    """
    text = _error_text(error).replace(f'"{user}"', "…") if user else _error_text(error)
    for known_failure in _FAILURES:
        if re.search(known_failure.pattern, text, re.IGNORECASE | re.DOTALL):
            message = known_failure.message.format(host=options.host, port=options.port, database=options.database)
            return SinkqlError(
                known_failure.code,
                message,
                detail=_first_line(text),
                hint=known_failure.hint,
                option=known_failure.option,
            )
    hint = "Check the detail and the server's log. A running source retries automatically."
    message = f"the connection to Postgres at {options.host} failed"
    return SinkqlError("SQ4414", message, detail=_first_line(text), hint=hint, option="HOST")


def _error_text(error: psycopg.Error) -> str:
    return str(error).strip() or type(error).__name__


def _first_line(text: str) -> str:
    """Return the first line of a message, without the prefix of libpq."""
    return re.sub(r"^(connection failed: )?(connection to server at .*? failed: )?", "", text.splitlines()[0])
