"""A planned connection → an open one of psycopg; what keeps it from opening, as an error with a way out."""

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
from sinkql.errors import SinkqlError

_TIMEOUT_S = 10
_SILENCE_S = 60
"""For how long a server's machine, or what is between, may not answer before a connection is taken for broken."""
_FILES = {
    "ssl_certificate": "sslcert",
    "ssl_key": "sslkey",
    "ssl_certificate_authority": "sslrootcert",
}
APPLICATION = "sinkql"


class _Connection(GuardedConnection):
    """A connection, and the tunnel that it goes through, which is closed with it."""

    tunnel: Tunnel | None = None

    def close(self) -> None:
        super().close()
        if self.tunnel is not None:
            self.tunnel.close()


@dataclass(frozen=True, slots=True)
class Login:
    """Where a database is, and who connects; secrets are asked for whenever a connection is opened."""

    name: str
    options: Mapping[str, Any]
    secret: Callable[[str], str] = field(repr=False)
    tunnel: Mapping[str, Any] | None = None

    @classmethod
    def planned(cls, connection: logical.Connection, access: OutsideAccess) -> Login:
        """Return that of a planned connection."""
        return cls(connection.name, connection.options, access.secret, planned_tunnel(connection, access))

    @classmethod
    def of(cls, connection: physical.Connection, secret: Callable[[str], str]) -> Login:
        """Return that of a connection as a job carries it."""
        return cls(connection.name, connection.options, secret, carried_tunnel(connection))

    def connect(
        self, *, replication: bool = False, application: str = APPLICATION
    ) -> psycopg.Connection[tuple[Any, ...]]:
        """Open a connection in which each statement is a transaction; raises SQ44… with the option to blame."""
        options = self.options
        with _files(options, self.secret) as files:
            given: dict[str, Any] = {
                "host": options["host"],
                "port": options["port"],
                "dbname": options["database"],
                "user": reveal(options["user"], self.secret),
                "sslmode": options["ssl_mode"].replace("_", "-"),
                "application_name": application,
                "connect_timeout": _TIMEOUT_S,
                "client_encoding": "UTF8",
                "keepalives_idle": _SILENCE_S // 2,
                "keepalives_interval": _SILENCE_S // 6,
                "keepalives_count": 3,
                "tcp_user_timeout": _SILENCE_S * 1000,
                "gssencmode": "disable",
                **files,
            }
            if "password" in options:
                given["password"] = reveal(options["password"], self.secret)
            if replication:
                given["replication"] = "database"
            tunnel = None
            if self.tunnel is not None:
                tunnel = Tunnel(self.tunnel, self.secret, options["host"], options["port"])
                given |= {"hostaddr": "127.0.0.1", "port": tunnel.port}
            try:
                found = _Connection.connect(**given, autocommit=True)
            except psycopg.Error as error:
                if tunnel is not None:
                    tunnel.close()
                raise failure(error, options, user=given["user"]) from None  # its text may have the user's name
            found.tunnel = tunnel
            found.silence = ResponseWatch(found.fileno, partial(self._works, self._session(found)))
            return found

    def _session(self, connection: psycopg.Connection[tuple[Any, ...]]) -> int | None:
        """Return the number of the connection's process on the server; None where a pooler is between."""
        try:
            return backend_pid(connection)
        except psycopg.Error as error:
            connection.close()
            raise failure(error, self.options) from error

    def _works(self, session: int | None) -> bool:
        """Ask the server over a new connection whether it works on what a session has asked for."""
        with closing(self.connect()) as connection:
            return is_backend_active(connection, session)


def guarded(connection: psycopg.Connection[tuple[Any, ...]]) -> AbstractContextManager[None]:
    """Return a block for calls of libpq that wait for the server without psycopg."""
    silence = connection.silence if isinstance(connection, _Connection) else None
    return silence or nullcontext()


def works(connection: psycopg.Connection[tuple[Any, ...]]) -> bool:
    """Ask the server over a new connection whether it works on what this one wants."""
    silence = connection.silence if isinstance(connection, _Connection) else None
    try:
        return silence is None or silence.alive()
    except SinkqlError:
        return False


@contextmanager
def _files(options: Mapping[str, Any], secret: Callable[[str], str]) -> Iterator[dict[str, str]]:
    """Put certificates and keys where libpq reads them, only as long as it does.

    Those of the user's own folder are not taken: a connection is what its options say.
    """
    with tempfile.TemporaryDirectory(prefix="sinkql-") as folder:
        found = {parameter: os.path.join(folder, "absent") for parameter in _FILES.values()}
        for name, parameter in _FILES.items():
            if name in options:
                path = Path(folder, parameter)
                path.touch(mode=0o600)
                path.write_text(reveal(options[name], secret))
                found[parameter] = str(path)
        yield found


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
        "SQ4401", 'host "{host}" is not known', "HOST",
        "Correct HOST: it is looked up from the machine that runs SinkQL.",
    ),
    _Failure(
        r"Connection refused",
        "SQ4402", "nothing listens on port {port} of {host}", "PORT",
        "Start the server, or correct HOST and PORT; the server's listen_addresses must take in connections from here.",
    ),
    _Failure(
        r"timeout expired|timed out|No route to host|Network is unreachable",
        "SQ4403", "{host} does not answer on port {port}", "HOST",
        "Open the port in the firewall between, or reach the server through an SSH TUNNEL.",
    ),
    _Failure(
        r"no password supplied",
        "SQ4404", "the server asks for a password", "USER",
        "Run CREATE SECRET name AS '…'; and add PASSWORD = SECRET name.",
    ),
    _Failure(
        r"password authentication failed",
        "SQ4404", "the server rejects the user or the password", "PASSWORD",
        "Correct the secret with ALTER SECRET name AS '…', or USER; psql with the same values tells whether they hold.",
    ),
    _Failure(
        r"role .* is not permitted to log in",
        "SQ4404", "the server does not let the user log in", "USER",
        "Run ALTER ROLE name LOGIN on the server.",
    ),
    _Failure(
        r"role .* does not exist",
        "SQ4404", "the server has no such user", "USER",
        "Correct USER, or run CREATE ROLE name LOGIN REPLICATION PASSWORD '…' on the server.",
    ),
    _Failure(
        r"no pg_hba\.conf entry.*no encryption|requires? SSL|SSL required",
        "SQ4405", "the server takes no connections of this user from here without SSL, or none at all", "USER",
        "Add SSL MODE = require, or a line for the user and this machine to the server's pg_hba.conf.",
    ),
    _Failure(
        r"no pg_hba\.conf entry|pg_hba\.conf rejects",
        "SQ4405", "the server takes no connections of this user from here", "USER",
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
        "Set ssl = on in the server's postgresql.conf, with a certificate; or leave out SSL MODE in a safe network.",
    ),
    _Failure(
        r"does not match host name",
        "SQ4409", 'the server\'s certificate is not one for "{host}"', "HOST",
        "Write as HOST a name that the certificate has, or use SSL MODE = verify_ca.",
    ),
    _Failure(
        r"certificate verify failed|self.signed certificate|SSL error: .*signature",
        "SQ4408", "the server's certificate has expired, or was not signed by SSL CERTIFICATE AUTHORITY",
        "SSL CERTIFICATE AUTHORITY",
        "Renew it on the server, or give the certificate of the authority that signed it: openssl s_client -starttls "
        "postgres -connect host:port shows its dates and its issuer. With SSL MODE = require none is checked.",
    ),
    _Failure(
        r"alert .*(certificate|unknown ca|decrypt error|handshake failure)|valid client certificate"
        r"|certificate authentication failed",
        "SQ4415", "the server does not accept the connection's certificate, or asks for one", "SSL CERTIFICATE",
        "Give one that has not expired, of an authority that the server trusts and for the connection's user, as SSL "
        "CERTIFICATE and SSL KEY: ALTER CONNECTION and ALTER SECRET replace them.",
    ),
    _Failure(
        r"could not (read|load).*(certificate|key|root)|root certificate file|no start line|bad (end|base64)",
        "SQ4410", "a certificate or key of the connection is not PEM text", "SSL CERTIFICATE AUTHORITY",
        "Give the text from -----BEGIN …----- to -----END …-----, as in CREATE SECRET name AS file('ca.pem').",
    ),
    _Failure(
        r"permission denied to start WAL sender|must be superuser or replication role",
        "SQ4411", "the user may not read the server's changes", "USER",
        "Run ALTER ROLE name REPLICATION on the server; on Amazon RDS GRANT rds_replication TO name.",
    ),
    _Failure(
        r"too many (clients|connections)|remaining connection slots|max_wal_senders|number of requested standby",
        "SQ4412", "the server has no connection left", "HOST",
        "Raise max_connections, and max_wal_senders for sources, or end what is connected; it is tried again.",
    ),
    _Failure(
        r"is (starting up|shutting down|in recovery mode|not accepting|not yet accepting)|terminating connection",
        "SQ4413", "the server is starting or stopping", "HOST",
        "Wait until it is up; a running source tries again by itself.",
    ),
    _Failure(
        r"expected authentication request|invalid response to (SSL|GSSAPI) negotiation",
        "SQ4414", "what listens on port {port} of {host} is not a Postgres server", "PORT",
        "Correct HOST and PORT.",
    ),
    _Failure(
        r"server closed the connection unexpectedly",
        "SQ4414", "{host} closed the connection on port {port}", "PORT",
        "Look at the server's log. If it says nothing of this, see whether Postgres is what listens on the port.",
    ),
)  # fmt: skip


def failure(error: psycopg.Error, options: Mapping[str, Any], *, user: str = "") -> SinkqlError:
    """Return why a connection does not open, or broke; the server's own words are its detail, but for the user's name.

    USER may be a secret.
    """
    told = _told(error).replace(f'"{user}"', "…") if user else _told(error)
    for each in _FAILURES:
        if re.search(each.pattern, told, re.IGNORECASE | re.DOTALL):
            message = each.message.format(host=options["host"], port=options["port"], database=options["database"])
            return SinkqlError(each.code, message, detail=_detail(told), hint=each.hint, option=each.option)
    hint = "Look at the detail, and at the server's log. A running source tries again by itself."
    message = f"the connection to Postgres at {options['host']} fails"
    return SinkqlError("SQ4414", message, detail=_detail(told), hint=hint, option="HOST")


def _told(error: psycopg.Error) -> str:
    return str(error).strip() or type(error).__name__


def _detail(told: str) -> str:
    """Return the first line of what was told, without what libpq puts before it."""
    return re.sub(r"^(connection failed: )?(connection to server at .*? failed: )?", "", told.splitlines()[0])
