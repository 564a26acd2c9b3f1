"""CREATE CONNECTION … TO AWS → endpoint, region, and a role or a pair of keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sinkql import ast
from sinkql.connector.options import SecretOnly, bind, option_span
from sinkql.connector.plan import Planning
from sinkql.connector.secret import secret_data
from sinkql.errors import SinkqlError, Span
from sinkql.logical import SecretText

OWNER = "AWS connections"
_KEYS = "ACCESS KEY ID = '…', SECRET ACCESS KEY = SECRET name"


@dataclass(frozen=True, slots=True)
class AwsOptions:
    """The options of AWS connections; an empty `endpoint` is AWS's own."""

    access_key_id: SecretText | None = None
    secret_access_key: SecretOnly | None = None
    session_token: SecretText | None = None
    assume_role_arn: str | None = None
    assume_role_session_name: str | None = None
    endpoint: str | None = None
    region: str | None = None


def plan(statement: ast.CreateConnection, planning: Planning) -> Mapping[str, Any]:
    """Return the options: exactly one of a role and a whole pair of keys (SQ2510 to SQ2513)."""
    options = bind(statement.options, AwsOptions, owner=OWNER, span=statement.kind_span, secret=planning.secret)
    _check_access(statement, options)
    texts = {
        "access_key_id": options.access_key_id,
        "secret_access_key": options.secret_access_key,
        "session_token": options.session_token,
    }
    planned: dict[str, Any] = {name: secret_data(text) for name, text in texts.items() if text is not None}
    plain = {
        "assume_role_arn": options.assume_role_arn,
        "assume_role_session_name": options.assume_role_session_name,
        "endpoint": options.endpoint,
        "region": options.region,
    }
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
    if options.assume_role_arn is not None and keys:
        raise SinkqlError(
            "SQ2511",
            f"an AWS connection has ASSUME ROLE ARN or keys, not both: here is {keys[0]} too",
            _span(statement, keys[0]),
            hint="Leave out one of them.",
        )
    if options.assume_role_session_name is not None and options.assume_role_arn is None:
        raise SinkqlError(
            "SQ2513",
            "ASSUME ROLE SESSION NAME stands without ASSUME ROLE ARN",
            _span(statement, "ASSUME ROLE SESSION NAME"),
            hint="Add ASSUME ROLE ARN = 'arn:aws:iam::…:role/…', or leave it out.",
        )
    if options.assume_role_arn is not None:
        return
    if not keys:
        raise SinkqlError(
            "SQ2510",
            "an AWS connection needs keys or a role",
            statement.kind_span,
            hint=f"Add {_KEYS}, or ASSUME ROLE ARN = 'arn:aws:iam::…:role/…'.",
        )
    absent = next((name for name in ("ACCESS KEY ID", "SECRET ACCESS KEY") if name not in keys), None)
    if absent is not None:
        raise SinkqlError(
            "SQ2512",
            f"{keys[0]} stands without {absent}",
            _span(statement, keys[0]),
            hint=f"Keys come as a pair: {_KEYS}.",
        )


def _span(statement: ast.CreateConnection, name: str) -> Span:
    return option_span(statement.options, name, statement.kind_span)
