"""Resolve references to secrets to their current values, in the environment, files, keyrings, Vault and AWS.

HashiCorp Vault and OpenBao are configured by the environment: BAO_ADDR, BAO_TOKEN, BAO_NAMESPACE, BAO_CACERT and
similar variables, or the same with VAULT_. Without a token variable, the token is read from ~/.vault-token, where
`vault login` stores it. AWS Secrets Manager uses the keys, region and endpoint of AWS programs: the environment
(AWS_…), profiles or the instance.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sinkql.errors import SinkqlError
from sinkql.local_path import home_folder, in_project
from sinkql.object_store.s3 import silence_debug_logs

_PATIENCE_S = 5.0


def from_vault(name: str, path: str, field: str) -> str:
    """Return the field's value, as JSON if it is not text. Raises SQ4130 to SQ4139 and ModuleNotFoundError."""
    import hvac  # an extra, which brings requests
    import requests
    from hvac import exceptions

    address, token = _address(name), _token(name)
    client = hvac.Client(
        url=address,
        token=token,
        namespace=_setting("NAMESPACE"),
        verify=_verify(),
        timeout=_PATIENCE_S,
        allow_redirects=False,  # send the token only to the configured server
    )
    try:
        data = _read(client, path.strip("/"))
    except requests.exceptions.SSLError:
        raise SinkqlError(
            "SQ4133",
            f'the certificate of the Vault server of secret "{name}" is not trusted',
            hint="Set VAULT_CACERT to the certificate file of the authority that signed it.",
        ) from None
    except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, requests.exceptions.MissingSchema):
        raise _no_address(name) from None
    except requests.exceptions.InvalidHeader:
        raise _no_token(name) from None
    except (requests.RequestException, exceptions.BadGateway) as error:
        raise SinkqlError(
            "SQ4132",
            f'the Vault server of secret "{name}" does not answer',
            detail=f"{_without_credentials(address)}: {type(error).__name__}",
            hint="Check VAULT_ADDR, and check that the server runs.",
        ) from None
    except exceptions.VaultError as error:
        raise _vault_error(name, path, error) from None
    except (LookupError, TypeError, ValueError, AttributeError):
        raise SinkqlError(
            "SQ4139",
            f'the server for secret "{name}" is not Vault, or has no KV store at "{path}"',
            detail=_without_credentials(address),
            hint="Check that VAULT_ADDR is the root of the active server, for example https://host:8200.",
        ) from None
    return _field(name, path, field, data)


# --- the environment ---------------------------------------------------------------------------------------------


def _setting(name: str) -> str | None:
    return os.environ.get(f"BAO_{name}") or os.environ.get(f"VAULT_{name}") or None


def _address(name: str) -> str:
    address = _setting("ADDR")
    if address is None:
        raise _no_address(name)
    return address


def _no_address(name: str) -> SinkqlError:
    return SinkqlError(
        "SQ4130",
        f'VAULT_ADDR does not name the Vault server of secret "{name}"',
        hint="Set VAULT_ADDR before the job starts: export VAULT_ADDR=https://host:8200.",
    )


def _token(name: str) -> str:
    token = _setting("TOKEN")
    if token is None:
        with suppress(OSError, UnicodeDecodeError):
            home = home_folder()
            token = (home / ".vault-token").read_text() if home is not None else None
    token = (token or "").strip()
    if not token:
        raise _no_token(name)
    return token


def _no_token(name: str) -> SinkqlError:
    return SinkqlError(
        "SQ4131",
        f'the token for the Vault server of secret "{name}" is missing',
        hint="Set VAULT_TOKEN before the job starts, or run vault login.",
    )


def _verify() -> bool | str:
    if (_setting("SKIP_VERIFY") or "").lower() in ("1", "true", "t"):
        return False
    return _setting("CACERT") or _setting("CAPATH") or True


def _without_credentials(address: str) -> str:
    """Return an address without its user and password."""
    scheme, mark, rest = address.rpartition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


# --- the server's answers ----------------------------------------------------------------------------------------


def _read(client: Any, path: str) -> dict[str, Any]:  # hvac has no types
    """Return the fields at a path, for the version of the KV store that is mounted there."""
    mount = client.adapter.get(f"/v1/sys/internal/ui/mounts/{path}")["data"]
    if (mount.get("options") or {}).get("version") != "2":
        fields = client.adapter.get(f"/v1/{path}")["data"]
    else:
        root = mount["path"]
        fields = client.adapter.get(f"/v1/{root}data/{path.removeprefix(root)}")["data"]["data"]
    return dict(fields)


def _vault_error(name: str, path: str, error: Any) -> SinkqlError:
    """Return the error for a refusal of the server, without its message, which may quote secrets."""
    from hvac import exceptions

    match error:
        case exceptions.Forbidden() | exceptions.Unauthorized():
            return SinkqlError(
                "SQ4134",
                f'the Vault server denies access to secret "{name}"',
                hint=f'Set VAULT_TOKEN to a valid token whose policy allows it to read "{path}".',
            )
        case exceptions.InvalidPath():
            return SinkqlError(
                "SQ4135",
                f'the Vault server has nothing at "{path}" for secret "{name}"',
                hint="Write the path as for vault kv get, without /data/.",
            )
        case exceptions.VaultDown() | exceptions.VaultNotInitialized():
            return SinkqlError(
                "SQ4137",
                f'the Vault server of secret "{name}" is sealed',
                hint="Unseal the server, and start the job again.",
            )
        case _:
            return SinkqlError(
                "SQ4138",
                f'the Vault server of secret "{name}" failed',
                detail=type(error).__name__,
                hint="Check the server's log.",
            )


def _field(name: str, path: str, field: str, data: dict[str, Any]) -> str:
    value = data.get(field)
    if value is None:
        field_names = ", ".join(sorted(data)) or "none"
        raise SinkqlError(
            "SQ4136",
            f'"{path}" of the Vault server has no field "{field}", for secret "{name}"',
            hint=f"Its fields are: {field_names}.",
        )
    return value if isinstance(value, str) else json.dumps(value)


_AWS_PATIENCE_S = 5.0
_REFUSED = ("denied", "unrecognizedclient", "invalidclient", "signature", "expired", "notauthorized")


def from_aws(name: str, id_: str, field: str | None = None) -> str:
    """Return the secret's text, or a field of its JSON. Raises SQ4140 to SQ4147 and ModuleNotFoundError."""
    import boto3  # an extra
    from botocore import exceptions
    from botocore.config import Config

    patience = Config(
        connect_timeout=_AWS_PATIENCE_S,
        read_timeout=_AWS_PATIENCE_S,
        retries={"total_max_attempts": 2, "mode": "standard"},
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
            f'AWS credentials to read secret "{name}" are missing',
            hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY before the job starts, or AWS_PROFILE.",
        ) from None
    except exceptions.ClientError as error:
        raise _aws_error(name, id_, error.response) from None
    except (exceptions.HTTPClientError, exceptions.ConnectionError, ValueError) as error:
        raise SinkqlError(
            "SQ4142",
            f'AWS Secrets Manager does not answer, for secret "{name}"',
            detail=type(error).__name__,
            hint="Check AWS_REGION, AWS_ENDPOINT_URL and the network.",
        ) from None
    except exceptions.BotoCoreError as error:
        raise _aws_failure(name, type(error).__name__) from None
    return _text_of(name, id_, field, answer)


def _region(id_: str) -> str | None:
    """Return the region of an ARN, or else of AWS_REGION; with None, boto3 decides."""
    parts = id_.split(":")
    return parts[3] if parts[0] == "arn" and len(parts) > 3 else os.environ.get("AWS_REGION")


def _aws_error(name: str, id_: str, answer: Mapping[str, Any]) -> SinkqlError:
    # Without the message: for a wrong signature, it contains the request's session token.
    code: str = answer.get("Error", {}).get("Code", "")
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if code == "ResourceNotFoundException":
        return SinkqlError(
            "SQ4144",
            f'AWS Secrets Manager has no secret "{id_}", for secret "{name}"',
            hint="Check the id and AWS_REGION. A secret that is scheduled for deletion cannot be read.",
        )
    if status in (401, 403) or any(word in code.lower() for word in _REFUSED):
        return SinkqlError(
            "SQ4143",
            f'AWS denies access to secret "{name}"',
            detail=code,
            hint=f'Use valid keys, and allow them secretsmanager:GetSecretValue on "{id_}".',
        )
    return _aws_failure(name, code)


def _aws_failure(name: str, detail: str) -> SinkqlError:
    return SinkqlError(
        "SQ4147",
        f'AWS Secrets Manager failed for secret "{name}"',
        detail=detail,
        hint="Try again. If the error persists, check the secret with aws secretsmanager describe-secret.",
    )


def _text_of(name: str, id_: str, field: str | None, answer: dict[str, Any]) -> str:
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
            else "Leave out the field: the secret is not a JSON object.",
        )
    value = fields[field]
    return value if isinstance(value, str) else json.dumps(value)


_REFERENCE_PATIENCE_S = 10.0
_PACKAGES = {"keyring": ("keyring", "keyring"), "vault": ("hvac", "vault"), "aws_secret": ("boto3", "aws")}
"""The package that a kind of reference needs, and SinkQL's extra that installs it."""


def resolve(name: str, kind: str, arguments: Sequence[str], project: Path) -> str:
    """Return the value of the secret called `name`; a relative path of a file starts from `project`.

    Raises SQ4110 (variable), SQ4111 (file), SQ4120 (missing package), SQ4121 to SQ4123 (keyring), SQ4130 to SQ4139
    (Vault), SQ4140 to SQ4147 (AWS). No error shows a value, a token or a key, or refers to a frame with one.
    """
    try:
        return _resolve(name, kind, arguments, project)
    except SinkqlError as error:
        failed = error.with_traceback(None)
    except ModuleNotFoundError as error:
        failed = _missing_package(error, name, kind)
    failed.__context__ = None
    raise failed


def _resolve(name: str, kind: str, arguments: Sequence[str], project: Path) -> str:
    match kind:
        case "env_var":
            return _from_environment(name, *arguments)
        case "file":
            return _from_file(name, project, *arguments)
        case "keyring":
            return _from_keyring(name, *arguments)
        case "vault":
            return from_vault(name, *arguments)
        case "aws_secret":
            return from_aws(name, *arguments)
    raise AssertionError(kind)


def _missing_package(error: ModuleNotFoundError, name: str, kind: str) -> SinkqlError:
    """Return the error for a package that the secret's kind needs; raise other errors again."""
    package, extra = _PACKAGES.get(kind, ("", ""))
    if not package or (error.name or "").partition(".")[0] != package:
        raise error
    return SinkqlError(
        "SQ4120", f'secret "{name}" needs the Python package {package}', hint=f"Run pip install 'sinkql[{extra}]'."
    )


def _from_environment(name: str, variable: str) -> str:
    value = os.environ.get(variable)
    if value is None:
        raise SinkqlError(
            "SQ4110",
            f'environment variable {variable} of secret "{name}" is not set',
            hint=f"Set it before the job starts: export {variable}=….",
        )
    return value


def _from_file(name: str, project: Path, path: str) -> str:
    file = in_project(path, project)
    try:
        return file.read_text().removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SinkqlError(
            "SQ4111",
            f'file "{file}" of secret "{name}" cannot be read',
            detail=reason,
            hint="Check its path and permissions. A relative path starts from the project's folder.",
        ) from None


# --- the system's keyring --------------------------------------------------------------------------------------------


def _from_keyring(name: str, service: str, entry: str) -> str:
    import keyring  # an extra, as below
    from keyring.errors import KeyringLocked, NoKeyringError

    passwords: list[str | None] = []
    failures: list[Exception] = []

    def ask() -> None:
        try:
            passwords.append(keyring.get_password(service, entry))
        except Exception as error:
            failures.append(error)

    # A locked keyring may open a window for its password, and wait.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_REFERENCE_PATIENCE_S)
    if passwords:
        if passwords[0] is None:
            raise SinkqlError(
                "SQ4123",
                f'the keyring has no password of "{entry}" in service "{service}", for secret "{name}"',
                hint=f"Run keyring set {service} {entry}, as the user who runs the job.",
            )
        return passwords[0]
    if not failures or isinstance(failures[0], KeyringLocked):
        raise SinkqlError(
            "SQ4122",
            f'cannot read secret "{name}": the keyring is locked',
            hint="Unlock it, and start the job again. Without a desktop, use AS env_var('NAME') or AS file('path').",
        )
    is_missing = isinstance(failures[0], NoKeyringError)
    raise SinkqlError(
        "SQ4121",
        f'this machine has no keyring to read secret "{name}"'
        if is_missing
        else f'the keyring could not return secret "{name}"',
        detail=type(failures[0]).__name__,
        hint="Run keyring diagnose. Without a desktop, use AS env_var('NAME') or AS file('path').",
    )
