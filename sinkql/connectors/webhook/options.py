"""The options of CREATE SOURCE … FROM WEBHOOK, as their dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from sinkql import ast
from sinkql.extension.keeping import AWS_CONNECTION, FIXED, LOG
from sinkql.extension.options import SecretOnly, Tuning, described
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
    address: str = described("the address to listen on; other machines reach `0.0.0.0` and `::`", default="127.0.0.1")
    port: int = described("the port to listen on; sources of one process may share it", default=PORT)
    ssl_certificate: SecretText | None = described(
        "the PEM certificate chain for HTTPS, together with `SSL KEY`", default=None
    )
    ssl_key: SecretOnly | None = described("the key of the certificate, in PEM", default=None)
    max_body_size: str = described("the largest body of a request", default="2MB")
    max_log_size: str = described("the size at which the log refuses requests with status 429", default="20GB")
    keep: Literal["log"] | None = described("only `log` is allowed", default=None)
    log: str | None = described(LOG, default=None)
    aws_connection: ast.Name | None = described(AWS_CONNECTION, default=None)
