"""The options of CREATE SOURCE … FROM WEBHOOK, as their dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from sinkql import ast
from sinkql.connector_api.options import SecretOnly, Tuning, option_field
from sinkql.connector_api.source_options import AWS_CONNECTION, FIXED, LOG
from sinkql.logical import SecretText

SOURCE_OWNER = "sources from WEBHOOK"
PORT = 6876


@dataclass(frozen=True, slots=True)
class NoOptions:
    """FROM WEBHOOK has no options of its own."""


@dataclass(frozen=True, slots=True)
class SourceOptions(Tuning):
    """The options of WITH (…)."""

    fixed: ClassVar[tuple[str, ...]] = FIXED
    address: str = option_field(
        "the address to listen on; others than this machine reach `0.0.0.0` and `::`", default="127.0.0.1"
    )
    port: int = option_field("the port to listen on, which several sources of one process share", default=PORT)
    ssl_certificate: SecretText | None = option_field(
        "the certificate, and those that signed it, as PEM text, to serve HTTPS with `SSL KEY`", default=None
    )
    ssl_key: SecretOnly | None = option_field("the key of the certificate as PEM text", default=None)
    max_body_size: str = option_field("how long the body of a request may be", default="2MB")
    max_log_size: str = option_field(
        "how much the log holds for sinks before requests are refused with status 429", default="20GB"
    )
    keep: Literal["log"] | None = option_field("`log`, which alone has the requests", default=None)
    log: str | None = option_field(LOG, default=None)
    aws_connection: ast.Name | None = option_field(AWS_CONNECTION, default=None)
