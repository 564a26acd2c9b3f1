"""Configure the client library for a planned connection, and convert its failures to coded errors."""

from __future__ import annotations

import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from sinkql import logical, physical
from sinkql.connector_api.options import reveal
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connectors.kafka.options import KafkaConnection
from sinkql.connectors.kafka.ssh_proxy import Route, Routes, Tls, proxy_of
from sinkql.errors import SinkqlError
from sinkql.machine import clock

T = TypeVar("T")
_REACH_S = 5.0


@dataclass(frozen=True, slots=True)
class Client:
    """The settings of a connection with the values of its secrets, which `repr` hides. Tasks receive a copy."""

    connection: str
    brokers: str
    protocol: str
    _settings: tuple[tuple[str, str], ...] = field(repr=False)
    routes: Routes | None = field(default=None, repr=False)

    @classmethod
    def planned(cls, connection: logical.Connection, access: OutsideAccess) -> Client:
        """Return the client of a connection in the catalog."""
        return cls.of(connection.name, connection.options, access.secret, lambda name: access.connection(name).options)

    @classmethod
    def carried(cls, connection: physical.Connection, secret: Callable[[str], str]) -> Client:
        """Return the client of a connection in a job."""
        return cls.of(connection.name, connection.options, secret, lambda tunnel: connection.through[tunnel].options)

    @classmethod
    def of(
        cls,
        connection: str,
        options: Mapping[str, Any],
        secret: Callable[[str], str],
        tunnel: Callable[[str], Mapping[str, Any]] | None = None,
    ) -> Client:
        """Return the client of planned options; `tunnel` returns the options of an SSH tunnel by its name."""
        planned = KafkaConnection.from_plan(options)
        settings = {
            "bootstrap.servers": ",".join(planned.brokers),
            "security.protocol": planned.protocol,
            "client.id": "sinkql",
            "log_level": "0",
            "allow.auto.create.topics": "false",  # else a producer would recreate a deleted topic
            "socket.keepalive.enable": "true",
            "reconnect.backoff.ms": "50",
            "reconnect.backoff.max.ms": "1000",
        }
        if planned.sasl_mechanism is not None:
            settings["sasl.mechanism"] = planned.sasl_mechanism
        credentials = {
            "sasl.username": planned.sasl_username,
            "sasl.password": planned.sasl_password,
            "ssl.ca.pem": planned.ssl_certificate_authority,
            "ssl.certificate.pem": planned.ssl_certificate,
            "ssl.key.pem": planned.ssl_key,
        }
        settings |= {name: reveal(text, secret) for name, text in credentials.items() if text is not None}
        routes = _routes(planned, settings, secret, tunnel) if tunnel is not None and planned.ssh_tunnels else None
        return cls(connection, ", ".join(planned.brokers), planned.protocol, tuple(settings.items()), routes)

    def settings(self) -> dict[str, Any]:
        """Return the client library's settings in this process. Raise SQ4276 for invalid certificates or keys."""
        settings: dict[str, Any] = dict(self._settings)
        if self.routes is None:
            return settings
        try:
            proxy = proxy_of(self.routes)
        except ValueError as error:
            raise self.unusable(error) from None
        plain = "SASL_PLAINTEXT" if self.protocol.startswith("SASL") else "PLAINTEXT"
        unencrypted = {name: value for name, value in settings.items() if not name.startswith("ssl.")}
        return {**unencrypted, "bootstrap.servers": proxy.bootstrap, "security.protocol": plain}

    def broker(self, host: str, port: int) -> tuple[str, int]:
        """Return the address of a broker that the client library knows by another address, that of the proxy."""
        return (host, port) if self.routes is None else proxy_of(self.routes).broker((host, port))

    def reach(self, host: str, port: int) -> None:
        """Connect to a broker and disconnect. Raise OSError, or SQ442x if the broker is behind a tunnel."""
        if self.routes is None:
            socket.create_connection((host, port), timeout=_REACH_S).close()
        else:
            proxy_of(self.routes).reach((host, port))

    def failure(self, error: Any, errors: ConnectionErrors) -> SinkqlError:
        """Return the coded error for an error of the client library, given the errors of its connections."""
        name, text = error.name(), error.str()
        if name in ("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"):
            return self._error(
                "SQ4275",
                f'Kafka denied access to the user of connection "{self.connection}": {text}',
                "Grant the user DESCRIBE and READ on the topic.",
            )
        if name == "CONCURRENT_TRANSACTIONS":
            return self._error(
                "SQ4277",
                "Kafka has not completed an earlier transaction of the sink",
                "SinkQL retries. If the error remains, read the log of the broker.",
                reason=f"{text} ({name})",
            )
        is_local = name.startswith("_")  # the library's own code, not a broker's
        return (self.connection_error(errors) if is_local else None) or self._error(
            "SQ4277", f"Kafka returned an error: {text} ({name})", "Read the log of the broker."
        )

    def connection_error(self, errors: ConnectionErrors) -> SinkqlError | None:
        """Return why no broker can be reached, by the most specific of the errors; None without errors."""
        if self.routes is not None and (error := proxy_of(self.routes).connection_error()) is not None:
            return error
        if (text := errors.text_of("_AUTHENTICATION")) is not None:
            if "handshake failed" in text:
                return self._error(
                    "SQ4271",
                    f'the brokers of connection "{self.connection}" do not support its SASL MECHANISMS',
                    "Check SASL MECHANISMS and SECURITY PROTOCOL in CREATE CONNECTION.",
                    reason=text,
                )
            return self._error(
                "SQ4271",
                f'Kafka rejected the user name or the password of connection "{self.connection}"',
                "Check SASL USERNAME, SASL PASSWORD and SASL MECHANISMS in CREATE CONNECTION.",
                reason=text,
            )
        if (text := errors.text_of("_SSL")) is not None:
            return self._untrusted(text)
        if (text := errors.text_of("_TRANSPORT", containing="SSL handshake")) is not None:
            plain = self.protocol.replace("SSL", "PLAINTEXT")
            return self._error(
                "SQ4273",
                f'the brokers of connection "{self.connection}" do not use TLS',
                f"Write SECURITY PROTOCOL = '{plain}', or specify the brokers' TLS port.",
                reason=text,
            )
        text = errors.text_of("_TRANSPORT") or errors.text_of("_RESOLVE")
        if text is None and not errors.answered and errors.text_of("_ALL_BROKERS_DOWN") is not None:
            other = "'SASL_SSL'" if self.protocol.startswith("SASL") else "'SSL', or 'SASL_PLAINTEXT' with a user name,"
            return self._error(
                "SQ4273",
                f'the brokers of connection "{self.connection}" close connections: they do not accept {self.protocol}',
                f"Write SECURITY PROTOCOL = {other} if the brokers require it, or specify another port.",
            )
        if text is not None or errors.text_of("_ALL_BROKERS_DOWN", "_TIMED_OUT") is not None:
            return self.unreachable(text)
        return None

    def unreachable(self, reason: str | None = None) -> SinkqlError:
        """Return the error for brokers that do not answer."""
        return self._error(
            "SQ4270",
            f'no broker of connection "{self.connection}" answers at {self.brokers}',
            "Check BROKER in CREATE CONNECTION, and check that Kafka is running.",
            reason=reason,
        )

    def leaderless(self, topic: str, partitions: Sequence[int]) -> SinkqlError:
        """Return the error for partitions whose leaders do not answer."""
        names = ", ".join(f"{topic}/{partition}" for partition in partitions)
        return self._error(
            "SQ4278",
            f'no broker of connection "{self.connection}" answers for {names}',
            "Start the brokers that hold the partition. SinkQL retries the sinks.",
        )

    def _untrusted(self, text: str) -> SinkqlError:
        if "verif" not in text:
            return self._error(
                "SQ4272",
                f'TLS with the brokers of connection "{self.connection}" failed',
                "Check SSL CERTIFICATE and SSL KEY in CREATE CONNECTION.",
                reason=text,
            )
        return self._error(
            "SQ4272",
            f'the certificate of the brokers of connection "{self.connection}" is not trusted',
            "Add SSL CERTIFICATE AUTHORITY = SECRET name with the PEM certificate of the issuing authority.",
            reason=text,
        )

    def unusable(self, error: Exception) -> SinkqlError:
        """Return the error for a certificate or key that the client library rejects."""
        text = str(error)
        option = next((name for label, name in _OPTIONS.items() if label in text), "SSL CERTIFICATE AUTHORITY")
        return SinkqlError(
            "SQ4276",
            f'{option} of connection "{self.connection}" is not valid PEM',
            hint="Store the whole text of the PEM file in the secret: ALTER SECRET name AS file('key.pem').",
        )

    def _error(self, code: str, message: str, hint: str, *, reason: str | None = None) -> SinkqlError:
        return SinkqlError(code, message, detail=reason, hint=hint)


def _routes(
    planned: KafkaConnection,
    settings: Mapping[str, str],
    secret: Callable[[str], str],
    tunnel: Callable[[str], Mapping[str, Any]],
) -> Routes:
    """Return the routes to brokers behind SSH servers."""
    routes = []
    for planned_tunnel in planned.ssh_tunnels:
        options = dict(tunnel(planned_tunnel.connection))
        options["keys"] = {"secret_text": [reveal(options["keys"], secret)]}
        broker = None if planned_tunnel.broker is None else _address(planned_tunnel.broker)
        routes.append(Route(broker, planned_tunnel.connection, msgspec.json.encode(options).decode()))
    tls = None
    if planned.protocol.endswith("SSL"):
        tls = Tls(*map(settings.get, ("ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem")))
    return Routes(tuple(map(_address, planned.brokers)), tuple(routes), tls)


def _address(broker: str) -> tuple[str, int]:
    host, _, port = broker.rpartition(":")
    return host.strip("[]"), int(port)


_OPTIONS = {"ssl.ca": "SSL CERTIFICATE AUTHORITY", "ssl.certificate": "SSL CERTIFICATE", "ssl.key": "SSL KEY"}


@dataclass(slots=True)
class ConnectionErrors:
    """The errors of a client's connections since the last answer, which no call returns; the client calls it."""

    last: deque[tuple[float, str, str]] = field(default_factory=lambda: deque(maxlen=32))
    answered: bool = False

    def __call__(self, error: Any) -> None:
        """Record an error of the library."""
        self.last.append((clock.monotonic(), error.name(), error.str()))

    def clear(self) -> None:
        """Discard all errors after an answer."""
        self.last.clear()
        self.answered = True

    def text_of(self, *names: str, containing: str = "", since: float = 0.0) -> str | None:
        """Return the text of the last error with one of these names since a monotonic time; None without one."""
        texts = (text for at, name, text in reversed(self.last) if name in names and containing in text and at >= since)
        return next(texts, None)


def call_outside_handler(call: Callable[[], T]) -> T:
    """Run a call of the library, in another thread if this one is handling an exception.

    If a call fails during exception handling, the library keeps a reference to that exception forever. The exception's
    frames keep the client alive, and the client's threads would try to reach their brokers forever.
    """
    if sys.exc_info()[1] is None:
        return call()
    with ThreadPoolExecutor(1, "kafka") as pool:
        return pool.submit(call).result()


_LOST: dict[Client, float] = {}


def mark_lost(client: Client) -> None:
    """Record that brokers did not answer a client of a connection: its other clients may be lost, too."""
    _LOST[client] = clock.monotonic()


def is_lost(client: Client, created_at: float) -> bool:
    """Return whether a client of a connection, created at a monotonic time, may have been lost since."""
    return _LOST.get(client, 0.0) >= created_at
