"""A planned connection → what the client library is told, and what its failures mean."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sinkql.errors import SinkqlError
from sinkql.extension.secret import reveal

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
    settings: tuple[tuple[str, str], ...] = field(repr=False)

    @classmethod
    def of(cls, connection: str, options: Mapping[str, Any], secret: Callable[[str], str]) -> Client:
        """Return the client of a planned connection."""
        settings = {
            "bootstrap.servers": ",".join(options["brokers"]),
            "security.protocol": options["protocol"],
            "client.id": "sinkql",
            "log_level": "0",
            "socket.keepalive.enable": "true",
            "reconnect.backoff.ms": "50",
            "reconnect.backoff.max.ms": "1000",
        }
        if "sasl_mechanism" in options:
            settings["sasl.mechanism"] = options["sasl_mechanism"]
        settings |= {label: reveal(options[name], secret) for name, label in _TEXTS.items() if name in options}
        return cls(connection, ", ".join(options["brokers"]), options["protocol"], tuple(settings.items()))

    def failure(self, error: Any, told: Troubles) -> SinkqlError:
        """Return what an error of the client library means, given what it told of its connections."""
        name, text = error.name(), error.str()
        if name in ("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"):
            return self._error(
                "SQ4275",
                f"Kafka does not let the user of connection {self.connection} do this: {text}",
                "Grant the user DESCRIBE and READ on the topic.",
            )
        return self.trouble(told) or self._error(
            "SQ4277", f"Kafka answers with an error: {text} ({name})", "Look at the log of the broker.", detail=False
        )

    def trouble(self, told: Troubles) -> SinkqlError | None:
        """Return why no broker is reached, by the most telling of what was told; None where nothing was."""
        if (text := told.of("_AUTHENTICATION")) is not None:
            if "handshake failed" in text:
                return self._error(
                    "SQ4271",
                    f"the brokers of connection {self.connection} do not know its SASL MECHANISMS",
                    "Check SASL MECHANISMS and SECURITY PROTOCOL in CREATE CONNECTION.",
                    told=text,
                )
            return self._error(
                "SQ4271",
                f"Kafka rejects the user or the password of connection {self.connection}",
                "Check SASL USERNAME, SASL PASSWORD and SASL MECHANISMS in CREATE CONNECTION.",
                told=text,
            )
        if (text := told.of("_SSL")) is not None:
            return self._untrusted(text)
        if (text := told.of("_TRANSPORT", containing="SSL handshake")) is not None:
            plain = self.protocol.replace("SSL", "PLAINTEXT")
            return self._error(
                "SQ4273",
                f"the brokers of connection {self.connection} do not speak TLS",
                f"Write SECURITY PROTOCOL = '{plain}', or give the port where they speak TLS.",
                told=text,
            )
        text = told.of("_TRANSPORT") or told.of("_RESOLVE")
        if text is None and told.of("_ALL_BROKERS_DOWN") is not None:
            other = "'SASL_SSL'" if self.protocol.startswith("SASL") else "'SSL', or 'SASL_PLAINTEXT' with a user,"
            return self._error(
                "SQ4273",
                f"the brokers of connection {self.connection} do not understand {self.protocol}: they hang up",
                f"Write SECURITY PROTOCOL = {other} if the brokers want that, or give another port.",
            )
        if text is not None or told.of("_ALL_BROKERS_DOWN", "_TIMED_OUT") is not None:
            return self.unreachable(text)
        return None

    def unreachable(self, told: str | None = None) -> SinkqlError:
        """Return the error for brokers that do not answer."""
        return self._error(
            "SQ4270",
            f"no broker of connection {self.connection} answers at {self.brokers}",
            "Check BROKER in CREATE CONNECTION, and that Kafka runs.",
            told=told,
        )

    def _untrusted(self, text: str) -> SinkqlError:
        if "verif" not in text:
            return self._error(
                "SQ4272",
                f"TLS with the brokers of connection {self.connection} fails",
                "Check SSL CERTIFICATE and SSL KEY in CREATE CONNECTION.",
                told=text,
            )
        return self._error(
            "SQ4272",
            f"the certificate of the brokers of connection {self.connection} is not trusted",
            "Add SSL CERTIFICATE AUTHORITY = SECRET name, with the certificate in PEM of who signed it.",
            told=text,
        )

    def unusable(self, error: Exception) -> SinkqlError:
        """Return the error for settings that the client library does not take: certificates and keys."""
        text = str(error)
        option = next((name for label, name in _OPTIONS.items() if label in text), "SSL CERTIFICATE AUTHORITY")
        return SinkqlError(
            "SQ4276",
            f"{option} of connection {self.connection} is not valid PEM",
            hint="Give the secret the whole text of the PEM file: ALTER SECRET name AS file('key.pem').",
        )

    def _error(
        self, code: str, message: str, hint: str, *, told: str | None = None, detail: bool = True
    ) -> SinkqlError:
        return SinkqlError(code, message, detail=told if detail else None, hint=hint)


_OPTIONS = {"ssl.ca": "SSL CERTIFICATE AUTHORITY", "ssl.certificate": "SSL CERTIFICATE", "ssl.key": "SSL KEY"}


@dataclass(slots=True)
class Troubles:
    """What a client told of its connections lately: errors that no call returns."""

    last: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=32))

    def __call__(self, error: Any) -> None:
        """Take an error, as the library gives it."""
        self.last.append((error.name(), error.str()))

    def of(self, *names: str, containing: str = "") -> str | None:
        """Return the text of the last error of one of these names; None where there was none."""
        found = (text for name, text in reversed(self.last) if name in names and containing in text)
        return next(found, None)
