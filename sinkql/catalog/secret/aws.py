"""An id of AWS Secrets Manager → the value that it has now, or one field of it.

Keys, region and endpoint come from where all AWS programs have them: the environment (AWS_…), profiles, the instance.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from sinkql.errors import SinkqlError
from sinkql.object_store.boto import silence_debug_logs

_PATIENCE_S = 5.0
_REFUSED = ("denied", "unrecognizedclient", "invalidclient", "signature", "expired", "notauthorized")


def from_aws(name: str, id_: str, field: str | None = None) -> str:
    """Return the secret's text, or that of a field of its JSON. Raises SQ4140 to SQ4147, ModuleNotFoundError."""
    import boto3  # an extra
    from botocore import exceptions
    from botocore.config import Config

    patience = Config(
        connect_timeout=_PATIENCE_S, read_timeout=_PATIENCE_S, retries={"total_max_attempts": 2, "mode": "standard"}
    )
    try:
        silence_debug_logs()
        client = boto3.session.Session().client("secretsmanager", region_name=_region(id_), config=patience)
        answer = client.get_secret_value(SecretId=id_)
    except exceptions.NoRegionError:
        raise SinkqlError(
            "SQ4141",
            f'the region of AWS secret "{id_}" is not set, for secret "{name}"',
            hint="Set AWS_REGION before the job starts, or name the secret by its ARN.",
        ) from None
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError, exceptions.CredentialRetrievalError):
        raise SinkqlError(
            "SQ4140",
            f'there are no AWS credentials to read secret "{name}" with',
            hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY before the job starts, or AWS_PROFILE.",
        ) from None
    except exceptions.ClientError as error:
        raise _answered(name, id_, error.response) from None
    except (exceptions.HTTPClientError, exceptions.ConnectionError, ValueError) as error:
        raise SinkqlError(
            "SQ4142",
            f'AWS Secrets Manager does not answer, for secret "{name}"',
            detail=type(error).__name__,
            hint="Check AWS_REGION, AWS_ENDPOINT_URL and the network.",
        ) from None
    except exceptions.BotoCoreError as error:
        raise _fails(name, type(error).__name__) from None
    return _value(name, id_, field, answer)


def _region(id_: str) -> str | None:
    """Return the region that an ARN names, else that of AWS_REGION; None leaves it to boto3."""
    parts = id_.split(":")
    return parts[3] if parts[0] == "arn" and len(parts) > 3 else os.environ.get("AWS_REGION")


def _answered(name: str, id_: str, answer: Mapping[str, Any]) -> SinkqlError:
    # not its message: that of a wrong signature holds the request's session token
    code: str = answer.get("Error", {}).get("Code", "")
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if code == "ResourceNotFoundException":
        return SinkqlError(
            "SQ4144",
            f'AWS Secrets Manager has no secret "{id_}", for secret "{name}"',
            hint="Check the id and AWS_REGION; a secret that is scheduled for deletion cannot be read.",
        )
    if status in (401, 403) or any(word in code.lower() for word in _REFUSED):
        return SinkqlError(
            "SQ4143",
            f'AWS denies access to secret "{name}"',
            detail=code,
            hint=f'Use keys that are valid, and allow them secretsmanager:GetSecretValue on "{id_}".',
        )
    return _fails(name, code)


def _fails(name: str, detail: str) -> SinkqlError:
    return SinkqlError(
        "SQ4147",
        f'AWS Secrets Manager fails, for secret "{name}"',
        detail=detail,
        hint="Try again; if the error stays, look it up with aws secretsmanager describe-secret.",
    )


def _value(name: str, id_: str, field: str | None, answer: dict[str, Any]) -> str:
    text = answer.get("SecretString")
    if text is None:
        try:
            text = answer["SecretBinary"].decode()
        except (KeyError, UnicodeDecodeError):
            raise SinkqlError(
                "SQ4146", f'AWS secret "{id_}" of secret "{name}" is not UTF-8 text', hint="Store it as text."
            ) from None
    if field is None:
        return str(text)
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict) or fields.get(field) is None:
        raise SinkqlError(
            "SQ4145",
            f'AWS secret "{id_}" has no field "{field}", for secret "{name}"',
            hint=f"Its fields are: {', '.join(sorted(fields))}."
            if isinstance(fields, dict)
            else "Leave the field out: the secret is not a JSON object.",
        )
    value = fields[field]
    return value if isinstance(value, str) else json.dumps(value)
