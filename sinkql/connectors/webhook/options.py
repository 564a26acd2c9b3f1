"""Define the options of CREATE SOURCE … FROM WEBHOOK, and the planned options that a capture uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import msgspec

from sinkql import ast, codec
from sinkql.connector_api.options import SecretOnly, Tuning, option_field
from sinkql.connector_api.source_options import AWS_CONNECTION, FIXED, LOG
from sinkql.logical import SecretText

SOURCE_OWNER = "sources from WEBHOOK"
PORT = 6876


@dataclass(frozen=True, slots=True)
class NoOptions:
    """FROM WEBHOOK has no options."""


@dataclass(frozen=True, slots=True)
class SourceOptions(Tuning):
    """The options of WITH (…)."""

    fixed: ClassVar[tuple[str, ...]] = FIXED
    address: str = option_field(
        "the address to listen on; other machines reach `0.0.0.0` and `::`", default="127.0.0.1"
    )
    port: int = option_field("the port to listen on; sources of one process may share it", default=PORT)
    ssl_certificate: SecretText | None = option_field(
        "the PEM certificate chain for HTTPS, together with `SSL KEY`", default=None
    )
    ssl_key: SecretOnly | None = option_field("the key of the certificate, in PEM", default=None)
    max_body_size: str = option_field("the largest body of a request", default="2MB")
    max_log_size: str = option_field("the size at which the log refuses requests with status 429", default="20GB")
    keep: Literal["log"] | None = option_field("only `log` is allowed", default=None)
    log: str | None = option_field(LOG, default=None)
    aws_connection: ast.Name | None = option_field(AWS_CONNECTION, default=None)


class Identity(msgspec.Struct, frozen=True):
    """The certificate and its key, each as `secret_data`."""

    certificate: dict[str, Any]
    key: dict[str, Any]


class PlannedOptions(msgspec.Struct, frozen=True):
    """The planned options: where the source listens, and which requests pass."""

    address: str
    port: int
    max_body: int
    url: str = ""
    ssl: Identity | None = None
    check: str | None = None


def planned_options(tuning: Mapping[str, Any]) -> PlannedOptions:
    """Return the typed options of a planned source."""
    return codec.convert(tuning, PlannedOptions)
