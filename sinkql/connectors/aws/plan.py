"""Check the options of CREATE CONNECTION … TO AWS: endpoint, region, and a role or a pair of keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sinkql import ast
from sinkql.connector_api.options import (
    PlannedOptions,
    SecretOnly,
    SecretPart,
    bind,
    option_field,
    option_span,
    secret_data,
)
from sinkql.connector_api.planning import PlanningContext
from sinkql.errors import SinkqlError, Span
from sinkql.logical import SecretText

OWNER = "AWS connections"
_KEYS = "ACCESS KEY ID = '…', SECRET ACCESS KEY = SECRET name"
_ROLE = "ASSUME ROLE ARN = 'arn:aws:iam::123456789012:role/name'"
_PAIR = ("ACCESS KEY ID", "SECRET ACCESS KEY", "SESSION TOKEN")
_OF_ROLE = ("ASSUME ROLE SESSION NAME", "ASSUME ROLE EXTERNAL ID")
_ARN = re.compile(r"arn:aws[a-z-]*:iam::\d*:role/[\w+=,.@/-]+")
_SESSION_NAME = re.compile(r"[\w+=,.@-]{2,64}", re.ASCII)
_EXTERNAL_ID = re.compile(r"[\w+=,.@:/-]{2,1224}", re.ASCII)


@dataclass(frozen=True, slots=True)
class AwsOptions:
    """The options of AWS connections; an empty `endpoint` means AWS."""

    access_key_id: SecretPart | None = option_field(
        "the id of an access key, together with `SECRET ACCESS KEY`", default=None
    )
    secret_access_key: SecretOnly | None = option_field("", default=None)
    session_token: SecretText | None = option_field("the session token of temporary keys", default=None)
    assume_role_arn: str | None = option_field(
        "a role instead of keys; this machine's AWS credentials must be allowed to assume it", default=None
    )
    assume_role_session_name: str | None = option_field(
        "the session name in AWS logs; `sinkql` by default", default=None
    )
    assume_role_external_id: str | None = option_field(
        "the external id that the role's trust policy requires", default=None
    )
    endpoint: str | None = option_field("the URL of an S3-compatible store; AWS by default", default=None)
    region: str | None = option_field("the region of buckets and catalogs", default=None)


@dataclass(frozen=True, slots=True)
class AwsConnection(PlannedOptions):
    """The planned options of an AWS connection; the keys are references to secrets."""

    access_key_id: Mapping[str, Any] | None = None
    secret_access_key: Mapping[str, Any] | None = None
    session_token: Mapping[str, Any] | None = None
    assume_role_arn: str | None = None
    assume_role_session_name: str | None = None
    assume_role_external_id: str | None = None
    endpoint: str | None = None
    region: str | None = None


def plan(statement: ast.CreateConnection, planning: PlanningContext) -> Mapping[str, Any]:
    """Return the options: a role or a complete pair of keys. Raise SQ2510 to SQ2516."""
    options = bind(statement.options, AwsOptions, owner=OWNER, span=statement.kind_span, secret=planning.secret)
    _check_access(statement)
    _check_role(statement, options)
    endpoint = options.endpoint or None
    if endpoint is not None and not re.match(r"https?://[^/]+", endpoint):
        raise SinkqlError(
            "SQ2516",
            f'invalid ENDPOINT "{endpoint}"',
            _span(statement, "ENDPOINT"),
            hint="Write ENDPOINT = 'https://host:port'.",
        )
    texts = {
        "access_key_id": options.access_key_id,
        "secret_access_key": options.secret_access_key,
        "session_token": options.session_token,
    }
    planned: dict[str, Any] = {name: secret_data(text) for name, text in texts.items() if text is not None}
    plain = {
        "assume_role_arn": options.assume_role_arn,
        "assume_role_session_name": options.assume_role_session_name,
        "assume_role_external_id": options.assume_role_external_id,
        "endpoint": endpoint,
        "region": options.region,
    }
    return planned | {name: text for name, text in plain.items() if text}


def _check_access(statement: ast.CreateConnection) -> None:
    names = {option.name for option in statement.options}
    keys = [name for name in _PAIR if name in names]
    role = "ASSUME ROLE ARN" in names
    if not keys and not role:
        extra = next((name for name in _OF_ROLE if name in names), None)
        if extra is not None:
            raise SinkqlError(
                "SQ2513", f"{extra} requires ASSUME ROLE ARN", _span(statement, extra), hint=f"Add {_ROLE}."
            )
        raise SinkqlError(
            "SQ2510",
            "an AWS connection needs a role or keys",
            statement.kind_span,
            hint=f"Add {_ROLE}, or {_KEYS}.",
        )
    if keys and role:
        raise SinkqlError(
            "SQ2511",
            "an AWS connection has a role or keys, not both",
            _span(statement, keys[0]),
            hint="Leave out the keys: SinkQL assumes the role with the AWS credentials of this machine, "
            "for example AWS_PROFILE or AWS_ACCESS_KEY_ID.",
        )
    if role:
        return
    absent = next((name for name in _PAIR[:2] if name not in keys), None)
    if absent is not None:
        raise SinkqlError(
            "SQ2512",
            f"{keys[0]} requires {absent}",
            _span(statement, keys[0]),
            hint=f"Write both keys: {_KEYS}.",
        )
    extra = next((name for name in _OF_ROLE if name in names), None)
    if extra is not None:
        message = f"{extra} requires ASSUME ROLE ARN"
        hint = "Leave it out, or name a role instead of keys."
        raise SinkqlError("SQ2513", message, _span(statement, extra), hint=hint)


def _check_role(statement: ast.CreateConnection, options: AwsOptions) -> None:
    arn = options.assume_role_arn
    if arn is not None and _ARN.fullmatch(arn) is None:
        span = _span(statement, "ASSUME ROLE ARN")
        raise SinkqlError("SQ2514", f'invalid role "{arn}"', span, hint=f"Write {_ROLE}.")
    name = options.assume_role_session_name
    if name is not None and _SESSION_NAME.fullmatch(name) is None:
        raise SinkqlError(
            "SQ2515",
            f'invalid session name "{name}"',
            _span(statement, "ASSUME ROLE SESSION NAME"),
            hint="Write 2 to 64 letters, digits, or characters of _+=,.@-.",
        )
    external = options.assume_role_external_id
    if external is not None and _EXTERNAL_ID.fullmatch(external) is None:
        raise SinkqlError(
            "SQ2515",
            f'invalid external id "{external}"',
            _span(statement, "ASSUME ROLE EXTERNAL ID"),
            hint="Write 2 to 1224 letters, digits, or characters of _+=,.@:/-.",
        )


def _span(statement: ast.CreateConnection, name: str) -> Span:
    return option_span(statement.options, name, statement.kind_span)
