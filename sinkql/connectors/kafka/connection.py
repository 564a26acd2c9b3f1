"""Check the options of CREATE CONNECTION … TO KAFKA: brokers, security protocol and credentials."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sinkql import ast
from sinkql.connector_api.options import SecretOnly, SecretPart, bind, option_field, option_span, secret_data
from sinkql.connector_api.planning import PlanningContext
from sinkql.connectors.kafka.options import PROGRESS_TOPIC
from sinkql.errors import SinkqlError, Span
from sinkql.logical import SecretText

KIND = "KAFKA"
OWNER = "Kafka connections"
_BROKER = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s,:\[\]/]+):(\d{1,5})")
_LATER = ("AWS PRIVATELINK", "AWS CONNECTION")
_TUNNELS = "ssh_tunnels"
"""The planned option with the SSH tunnels of brokers, as `options.BrokerTunnel` describes them."""


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """The options of TO KAFKA; exactly one of BROKER and BROKERS is required."""

    broker: str | None = option_field("a broker, as `host:9092`; SinkQL discovers all other brokers", default=None)
    brokers: tuple[str, ...] = option_field("several brokers, as `('a:9092', 'b:9092')`", default=())
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] | None = option_field(
        "the protocol; by default `SASL_SSL` with a SASL option, else `SSL`", default=None
    )
    sasl_mechanisms: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = option_field(
        "the authentication mechanism", default=None
    )
    sasl_username: SecretPart | None = option_field("the user name", default=None)
    sasl_password: SecretOnly | None = option_field("the password of the user", default=None)
    ssl_certificate_authority: SecretText | None = option_field(
        "the PEM certificate of the authority, if this machine does not trust it",
        default=None,
    )
    ssl_certificate: SecretText | None = option_field(
        "the client certificate in PEM, together with `SSL KEY`", default=None
    )
    ssl_key: SecretOnly | None = option_field("the key of the client certificate, in PEM", default=None)
    ssh_tunnel: ast.Name | None = option_field(
        "the SSH tunnel connection to reach all brokers that name none",
        default=None,
    )
    aws_privatelink: ast.Name | None = option_field("not supported yet", default=None)
    aws_connection: ast.Name | None = option_field("not supported yet", default=None)
    progress_topic: str | None = option_field(
        "the topic with the sinks' offsets, created if needed; `_sinkql-progress` by default",
        default=None,
    )
    progress_topic_replication_factor: int | None = option_field(
        "the replication factor of a new progress topic; the brokers' default otherwise", default=None
    )


def plan_connection(statement: ast.CreateConnection, planning: PlanningContext) -> Mapping[str, Any]:
    """Return the planned options (`options.KafkaConnection`). Raise SQ2101 to SQ2106, SQ2560 to SQ2563 or SQ2988."""
    _check_later(statement)
    brokers = tuple(_brokers(statement))
    tunnels = _tunnels(statement, planning)
    options = bind(
        statement.options,
        KafkaOptions,
        owner=OWNER,
        span=statement.kind_span,
        secret=planning.secret,
        ignore=("BROKER", "BROKERS"),
    )
    sasl = any((options.sasl_mechanisms, options.sasl_username, options.sasl_password))
    protocol = options.security_protocol or ("SASL_SSL" if sasl else "SSL")
    _check_sasl(statement, options, protocol, sasl=sasl)
    _check_ssl(statement, options, protocol)
    secrets = {
        "sasl_username": options.sasl_username,
        "sasl_password": options.sasl_password,
        "ssl_certificate_authority": options.ssl_certificate_authority,
        "ssl_certificate": options.ssl_certificate,
        "ssl_key": options.ssl_key,
    }
    planned: dict[str, Any] = {"brokers": list(brokers), "protocol": protocol}
    if options.ssh_tunnel is not None:
        tunnels.append({"connection": planning.connection(options.ssh_tunnel, "SSH TUNNEL").name})
    if tunnels:
        planned[_TUNNELS] = tunnels
    if options.sasl_mechanisms is not None:
        planned["sasl_mechanism"] = options.sasl_mechanisms
    planned["progress_topic"] = options.progress_topic or PROGRESS_TOPIC
    if options.progress_topic_replication_factor:
        planned["progress_replication"] = options.progress_topic_replication_factor
    return planned | {name: secret_data(text) for name, text in secrets.items() if text is not None}


def _check_later(statement: ast.CreateConnection) -> None:
    for option in statement.options:
        if option.name in _LATER:
            message = f"{option.name} of Kafka connections is not supported yet"
            hint = "Write BROKER 'host:9092' with an address that this machine can reach, or add SSH TUNNEL name."
            if option.name == "AWS CONNECTION":
                hint = "Leave it out."
            raise SinkqlError("SQ2988", message, option.span, hint=hint)
    for _, item in _items(statement):
        if isinstance(item, ast.Phrase) and not _has_tunnel(item):
            words = (item.then or item).words
            raise SinkqlError(
                "SQ2988",
                f"{words} of a broker is not supported yet" if words else "a broker takes no options",
                item.span,
                hint="Write the address alone, as BROKER 'host:9092', or 'host:9092' USING SSH TUNNEL name.",
            )


def _items(statement: ast.CreateConnection) -> Iterator[tuple[ast.Option, ast.Value | None]]:
    """Yield each broker of the statement and its option."""
    for option in statement.options:
        if option.name in ("BROKER", "BROKERS"):
            items = option.value.items if isinstance(option.value, ast.Sequence) else (option.value,)
            yield from ((option, item) for item in items)


def _has_tunnel(item: ast.Phrase) -> bool:
    """Return whether the broker has an SSH tunnel and no other options."""
    tunnel = item.then
    return (
        tunnel is not None and tunnel.words == "USING SSH TUNNEL" and not (item.words or item.options or tunnel.options)
    )


def _tunnels(statement: ast.CreateConnection, planning: PlanningContext) -> list[dict[str, str]]:
    """Return the SSH tunnels of single brokers."""
    tunnels = []
    for _, item in _items(statement):
        match item:
            case ast.Phrase(value=ast.Text(value=broker), then=ast.Phrase(value=ast.Word(name=tunnel))):
                tunnels.append({"broker": broker, "connection": planning.connection(tunnel, "SSH TUNNEL").name})
    return tunnels


def _brokers(statement: ast.CreateConnection) -> Iterator[str]:
    """Yield the addresses of BROKER or BROKERS. Raise SQ2560 or SQ2561."""
    options = [option for option in statement.options if option.name in ("BROKER", "BROKERS")]
    if not options:
        hint = "Add BROKER 'host:9092'."
        raise SinkqlError("SQ2560", f"{OWNER} require the option BROKER", statement.kind_span, hint=hint)
    if len(options) > 1:
        raise SinkqlError(
            "SQ2560",
            "BROKER and BROKERS are specified more than once",
            options[1].span,
            hint="Write all brokers in BROKERS ('a:9092', 'b:9092').",
        )
    (option,) = options
    items = [item for _, item in _items(statement)]
    if not items or (option.name == "BROKER" and isinstance(option.value, ast.Sequence)):
        hint = "Write BROKER 'host:9092', or BROKERS ('a:9092', 'b:9092')."
        message = f"{option.name} takes {'one address' if option.name == 'BROKER' else 'at least one address'}"
        raise SinkqlError("SQ2561", message, option.span, hint=hint)
    for item in items:
        address = item.value if isinstance(item, ast.Phrase) else item
        text = address.value if isinstance(address, ast.Text) else ""
        address_parts = _BROKER.fullmatch(text)
        if address_parts is None or not 0 < int(address_parts[2]) < 1 << 16:
            raise SinkqlError(
                "SQ2561",
                f'invalid broker "{text}"' if text else f"{option.name} takes the address of a broker",
                item.span if item is not None else option.span,
                hint=_addresses(text) or "Write the host and the port, as in 'host:9092'.",
            )
        yield text


def _addresses(text: str) -> str | None:
    """Return the hint for brokers listed in one string, as other clients accept them; None for other strings."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) < 2 or not all(map(_BROKER.fullmatch, parts)):
        return None
    return f"Write BROKERS ({', '.join(map(repr, parts))})."


def _check_sasl(statement: ast.CreateConnection, options: KafkaOptions, protocol: str, *, sasl: bool) -> None:
    def span_of(name: str) -> Span:
        return option_span(statement.options, name, statement.kind_span)

    values = {
        "SASL MECHANISMS": options.sasl_mechanisms,
        "SASL USERNAME": options.sasl_username,
        "SASL PASSWORD": options.sasl_password,
    }
    if not protocol.startswith("SASL"):
        for name in (name for name, value in values.items() if value is not None):
            hint = f"Write SECURITY PROTOCOL = 'SASL_{protocol}', or leave out {name}."
            raise SinkqlError(
                "SQ2562", f"{name} cannot be used with SECURITY PROTOCOL {protocol}", span_of(name), hint=hint
            )
        return
    examples = {"SASL MECHANISMS": "'PLAIN'", "SASL USERNAME": "'…'", "SASL PASSWORD": "SECRET name"}
    for name in (name for name, value in values.items() if value is None):
        message = f"SECURITY PROTOCOL {protocol} requires the option {name}"
        raise SinkqlError("SQ2562", message, span_of("SECURITY PROTOCOL"), hint=f"Add {name} = {examples[name]}.")


def _check_ssl(statement: ast.CreateConnection, options: KafkaOptions, protocol: str) -> None:
    def span_of(name: str) -> Span:
        return option_span(statement.options, name, statement.kind_span)

    values = {
        "SSL CERTIFICATE AUTHORITY": options.ssl_certificate_authority,
        "SSL CERTIFICATE": options.ssl_certificate,
        "SSL KEY": options.ssl_key,
    }
    if not protocol.endswith("SSL"):
        for name in (name for name, value in values.items() if value is not None):
            secure = "SASL_SSL" if protocol.startswith("SASL") else "SSL"
            hint = f"Write SECURITY PROTOCOL = '{secure}', or leave out {name}."
            raise SinkqlError(
                "SQ2563", f"{name} cannot be used with SECURITY PROTOCOL {protocol}", span_of(name), hint=hint
            )
    if (options.ssl_key is None) != (options.ssl_certificate is None):
        present, missing = (
            ("SSL KEY", "SSL CERTIFICATE") if options.ssl_key is not None else ("SSL CERTIFICATE", "SSL KEY")
        )
        raise SinkqlError(
            "SQ2563", f"{present} requires {missing}", span_of(present), hint=f"Add {missing} = SECRET name."
        )
