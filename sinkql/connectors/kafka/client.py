"""A planned connection → what the client library is told, and what its failures mean."""

from __future__ import annotations

import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from sinkql import logical, physical
from sinkql.connector_api.options import reveal
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connectors.kafka.connection import TUNNELS
from sinkql.connectors.kafka.ssh_proxy import Route, Routes, Tls, proxy_of
from sinkql.errors import SinkqlError

T = TypeVar("T")
_REACH_S = 5.0
_TEXTS = {
    "sasl_username": "sasl.username",
    "sasl_password": "sasl.password",
    "ssl_certificate_authority": "ssl.ca.pem",
    "ssl_certificate": "ssl.certificate.pem",
    "ssl_key": "ssl.key.pem",
}


@dataclass(frozen=True, slots=True)
class Client:
    """How brokers are reached, with the values of secrets: it is shown to nobody, and goes to tasks."""

    connection: str
    brokers: str
    protocol: str
    _settings: tuple[tuple[str, str], ...] = field(repr=False)
    routes: Routes | None = field(default=None, repr=False)

    @classmethod
    def planned(cls, connection: logical.Connection, access: OutsideAccess) -> Client:
        """Return the client of a planned connection."""
        return cls.of(connection.name, connection.options, access.secret, lambda name: access.connection(name).options)

    @classmethod
    def carried(cls, connection: physical.Connection, secret: Callable[[str], str]) -> Client:
        """Return the client of a connection as a job carries it."""
        return cls.of(connection.name, connection.options, secret, lambda name: connection.through[name].options)

    @classmethod
    def of(
        cls,
        connection: str,
        options: Mapping[str, Any],
        secret: Callable[[str], str],
        tunnel: Callable[[str], Mapping[str, Any]] | None = None,
    ) -> Client:
        """Return the client of planned options; `tunnel` gives those of a connection that brokers are behind."""
        settings = {
            "bootstrap.servers": ",".join(options["brokers"]),
            "security.protocol": options["protocol"],
            "client.id": "sinkql",
            "log_level": "0",
            "allow.auto.create.topics": "false",  # else a producer makes one anew that was deleted
            "socket.keepalive.enable": "true",
            "reconnect.backoff.ms": "50",
            "reconnect.backoff.max.ms": "1000",
        }
        if "sasl_mechanism" in options:
            settings["sasl.mechanism"] = options["sasl_mechanism"]
        settings |= {label: reveal(options[name], secret) for name, label in _TEXTS.items() if name in options}
        routes = _routes(options, settings, secret, tunnel) if tunnel is not None and TUNNELS in options else None
        return cls(connection, ", ".join(options["brokers"]), options["protocol"], tuple(settings.items()), routes)

    def settings(self) -> dict[str, Any]:
        """Return what the client library is told in this process; raises SQ4276."""
        settings: dict[str, Any] = dict(self._settings)
        if self.routes is None:
            return settings
        try:
            proxy = proxy_of(self.routes)
        except ValueError as error:
            raise self.unusable(error) from None
        plain = "SASL_PLAINTEXT" if self.protocol.startswith("SASL") else "PLAINTEXT"
        kept = {name: value for name, value in settings.items() if not name.startswith("ssl.")}
        return {**kept, "bootstrap.servers": proxy.bootstrap, "security.protocol": plain}

    def broker(self, host: str, port: int) -> tuple[str, int]:
        """Return the address of a broker by the one that the client library has for it."""
        return (host, port) if self.routes is None else proxy_of(self.routes).broker((host, port))

    def reach(self, host: str, port: int) -> None:
        """Connect to a broker, and leave; raises OSError, and SQ442x where it is behind a tunnel."""
        if self.routes is None:
            socket.create_connection((host, port), timeout=_REACH_S).close()
        else:
            proxy_of(self.routes).reach((host, port))

    def failure(self, error: Any, told: Troubles) -> SinkqlError:
        """Return what an error of the client library means, given what it told of its connections."""
        name, text = error.name(), error.str()
        if name in ("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"):
            return self._error(
                "SQ4275",
                f'Kafka does not let the user of connection "{self.connection}" do this: {text}',
                "Grant the user DESCRIBE and READ on the topic.",
            )
        if name == "CONCURRENT_TRANSACTIONS":
            return self._error(
                "SQ4277",
                "Kafka has not ended an earlier transaction of the sink",
                "The sink tries again by itself. If the error stays, look at the log of the broker.",
                told=f"{text} ({name})",
            )
        ours = name.startswith("_")  # and not a broker's answer
        return (self.trouble(told) if ours else None) or self._error(
            "SQ4277", f"Kafka answers with an error: {text} ({name})", "Look at the log of the broker.", detail=False
        )

    def trouble(self, told: Troubles) -> SinkqlError | None:
        """Return why no broker is reached, by the most telling of what was told; None where nothing was."""
        if self.routes is not None and (found := proxy_of(self.routes).trouble()) is not None:
            return found
        if (text := told.of("_AUTHENTICATION")) is not None:
            if "handshake failed" in text:
                return self._error(
                    "SQ4271",
                    f'the brokers of connection "{self.connection}" do not know its SASL MECHANISMS',
                    "Check SASL MECHANISMS and SECURITY PROTOCOL in CREATE CONNECTION.",
                    told=text,
                )
            return self._error(
                "SQ4271",
                f'Kafka rejects the user or the password of connection "{self.connection}"',
                "Check SASL USERNAME, SASL PASSWORD and SASL MECHANISMS in CREATE CONNECTION.",
                told=text,
            )
        if (text := told.of("_SSL")) is not None:
            return self._untrusted(text)
        if (text := told.of("_TRANSPORT", containing="SSL handshake")) is not None:
            plain = self.protocol.replace("SSL", "PLAINTEXT")
            return self._error(
                "SQ4273",
                f'the brokers of connection "{self.connection}" do not speak TLS',
                f"Write SECURITY PROTOCOL = '{plain}', or give the port where they speak TLS.",
                told=text,
            )
        text = told.of("_TRANSPORT") or told.of("_RESOLVE")
        if text is None and not told.answered and told.of("_ALL_BROKERS_DOWN") is not None:
            other = "'SASL_SSL'" if self.protocol.startswith("SASL") else "'SSL', or 'SASL_PLAINTEXT' with a user,"
            return self._error(
                "SQ4273",
                f'the brokers of connection "{self.connection}" do not understand {self.protocol}: they hang up',
                f"Write SECURITY PROTOCOL = {other} if the brokers want that, or give another port.",
            )
        if text is not None or told.of("_ALL_BROKERS_DOWN", "_TIMED_OUT") is not None:
            return self.unreachable(text)
        return None

    def unreachable(self, told: str | None = None) -> SinkqlError:
        """Return the error for brokers that do not answer."""
        return self._error(
            "SQ4270",
            f'no broker of connection "{self.connection}" answers at {self.brokers}',
            "Check BROKER in CREATE CONNECTION, and that Kafka runs.",
            told=told,
        )

    def leaderless(self, topic: str, partitions: Sequence[int]) -> SinkqlError:
        """Return the error for partitions of which no leader answers."""
        named = ", ".join(f"{topic}/{each}" for each in partitions)
        return self._error(
            "SQ4278",
            f'no broker of connection "{self.connection}" answers for {named}',
            "Start the brokers that have the partition. A running sink tries again by itself.",
        )

    def _untrusted(self, text: str) -> SinkqlError:
        if "verif" not in text:
            return self._error(
                "SQ4272",
                f'TLS with the brokers of connection "{self.connection}" fails',
                "Check SSL CERTIFICATE and SSL KEY in CREATE CONNECTION.",
                told=text,
            )
        return self._error(
            "SQ4272",
            f'the certificate of the brokers of connection "{self.connection}" is not trusted',
            "Add SSL CERTIFICATE AUTHORITY = SECRET name, with the certificate in PEM of who signed it.",
            told=text,
        )

    def unusable(self, error: Exception) -> SinkqlError:
        """Return the error for settings that the client library does not take: certificates and keys."""
        text = str(error)
        option = next((name for label, name in _OPTIONS.items() if label in text), "SSL CERTIFICATE AUTHORITY")
        return SinkqlError(
            "SQ4276",
            f'{option} of connection "{self.connection}" is not valid PEM',
            hint="Give the secret the whole text of the PEM file: ALTER SECRET name AS file('key.pem').",
        )

    def _error(
        self, code: str, message: str, hint: str, *, told: str | None = None, detail: bool = True
    ) -> SinkqlError:
        return SinkqlError(code, message, detail=told if detail else None, hint=hint)


def _routes(
    options: Mapping[str, Any],
    settings: Mapping[str, str],
    secret: Callable[[str], str],
    tunnel: Callable[[str], Mapping[str, Any]],
) -> Routes:
    """Return how brokers behind SSH servers are reached."""
    found = []
    for each in options[TUNNELS]:
        given = dict(tunnel(each["connection"]))
        given["keys"] = {"secret_text": [reveal(given["keys"], secret)]}
        broker = _address(each["broker"]) if "broker" in each else None
        found.append(Route(broker, each["connection"], msgspec.json.encode(given).decode()))
    tls = None
    if options["protocol"].endswith("SSL"):
        tls = Tls(*map(settings.get, ("ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem")))
    return Routes(tuple(map(_address, options["brokers"])), tuple(found), tls)


def _address(broker: str) -> tuple[str, int]:
    host, _, port = broker.rpartition(":")
    return host.strip("[]"), int(port)


_OPTIONS = {"ssl.ca": "SSL CERTIFICATE AUTHORITY", "ssl.certificate": "SSL CERTIFICATE", "ssl.key": "SSL KEY"}


@dataclass(slots=True)
class Troubles:
    """What a client told of its connections since the last answer: errors that no call returns."""

    last: deque[tuple[float, str, str]] = field(default_factory=lambda: deque(maxlen=32))
    answered: bool = False

    def __call__(self, error: Any) -> None:
        """Take an error, as the library gives it."""
        self.last.append((time.monotonic(), error.name(), error.str()))

    def clear(self) -> None:
        """Forget all: there was an answer."""
        self.last.clear()
        self.answered = True

    def of(self, *names: str, containing: str = "", since: float = 0.0) -> str | None:
        """Return the text of the last error of one of these names; None where there was none since then."""
        found = (text for at, name, text in reversed(self.last) if name in names and containing in text and at >= since)
        return next(found, None)


def apart(call: Callable[[], T]) -> T:
    """Call what asks the library, in a thread of its own where an exception is being handled here.

    The library never lets go of that one where a call of it fails meanwhile, nor of the client that frames of it know:
    its threads would look for their brokers for good.
    """
    if sys.exc_info()[1] is None:
        return call()
    with ThreadPoolExecutor(1, "kafka") as pool:
        return pool.submit(call).result()


_LOST: dict[Client, float] = {}


def lose(client: Client) -> None:
    """Note that brokers left a client of a connection without an answer: other clients may be lost to them, too."""
    _LOST[client] = time.monotonic()


def is_lost(client: Client, made_at: float) -> bool:
    """Return whether a client of a connection, made at a monotonic time, may have been lost since."""
    return _LOST.get(client, 0.0) >= made_at
