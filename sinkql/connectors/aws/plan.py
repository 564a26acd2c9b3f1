"""CREATE CONNECTION … TO AWS → endpoint, region, and a role or a pair of keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sinkql import ast
from sinkql.errors import SinkqlError, Span
from sinkql.extension.options import SecretOnly, SecretPart, bind, described, option_span
from sinkql.extension.plan import Planning
from sinkql.extension.secret import secret_data
from sinkql.logical import SecretText

OWNER = "AWS connections"
_KEYS = "ACCESS KEY ID = '…', SECRET ACCESS KEY = SECRET name"


@dataclass(frozen=True, slots=True)
class AwsOptions:
    """The options of AWS connections; an empty `endpoint` is AWS's own."""

    access_key_id: SecretPart | None = described("with `SECRET ACCESS KEY`: a pair of keys", default=None)
    secret_access_key: SecretOnly | None = described("", default=None)
    session_token: SecretText | None = described("with a pair of keys that is valid for a while", default=None)
    assume_role_arn: str | None = described("a role instead of keys", default=None, later=f"Add {_KEYS} instead.")
    assume_role_session_name: str | None = described("with a role", default=None, later="Leave it out.")
    endpoint: str | None = described("of an S3-compatible store; AWS itself without one", default=None)
    region: str | None = described("", default=None)


def plan(statement: ast.CreateConnection, planning: Planning) -> Mapping[str, Any]:
    """Return the options, a whole pair of keys among them (SQ2510, SQ2512)."""
    options = bind(statement.options, AwsOptions, owner=OWNER, span=statement.kind_span, secret=planning.secret)
    _check_access(statement, options)
    texts = {
        "access_key_id": options.access_key_id,
        "secret_access_key": options.secret_access_key,
        "session_token": options.session_token,
    }
    planned: dict[str, Any] = {name: secret_data(text) for name, text in texts.items() if text is not None}
    plain = {"endpoint": options.endpoint, "region": options.region}
    return planned | {name: text for name, text in plain.items() if text}


def _check_access(statement: ast.CreateConnection, options: AwsOptions) -> None:
    keys = [
        name
        for name, value in (
            ("ACCESS KEY ID", options.access_key_id),
            ("SECRET ACCESS KEY", options.secret_access_key),
            ("SESSION TOKEN", options.session_token),
        )
        if value is not None
    ]
    if not keys:
        raise SinkqlError(
            "SQ2510",
            "an AWS connection needs keys",
            statement.kind_span,
            hint=f"Add {_KEYS}.",
        )
    absent = next((name for name in ("ACCESS KEY ID", "SECRET ACCESS KEY") if name not in keys), None)
    if absent is not None:
        raise SinkqlError(
            "SQ2512",
            f"{keys[0]} requires {absent}",
            _span(statement, keys[0]),
            hint=f"Keys come as a pair: {_KEYS}.",
        )


def _span(statement: ast.CreateConnection, name: str) -> Span:
    return option_span(statement.options, name, statement.kind_span)
