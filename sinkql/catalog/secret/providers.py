"""A path and a field of a HashiCorp Vault or OpenBao server → the value that its KV store has now.

Address, token and namespace come from the environment: BAO_ADDR, BAO_TOKEN, BAO_NAMESPACE, BAO_CACERT and the like, or
the same with VAULT_; without a token variable from ~/.vault-token, where `vault login` puts it.

An id of AWS Secrets Manager → the value that it has now, or one field of it.

Keys, region and endpoint come from where all AWS programs have them: the environment (AWS_…), profiles, the instance.

A secret's reference → its value now, from where it is kept: environment, file, keyring, vault, AWS.
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
    """Return the field's value, JSON for one that is not text. Raises SQ4130 to SQ4139, ModuleNotFoundError."""
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
        allow_redirects=False,  # the token goes to the server that was named, and to no other
    )
    try:
        data = _read(client, path.strip("/"))
    except requests.exceptions.SSLError:
        raise SinkqlError(
            "SQ4133",
            f'the certificate of the Vault server of secret "{name}" is not trusted',
            hint="Set VAULT_CACERT to the file of the authority that signed it.",
        ) from None
    except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, requests.exceptions.MissingSchema):
        raise _no_address(name) from None
    except requests.exceptions.InvalidHeader:
        raise _no_token(name) from None
    except (requests.RequestException, exceptions.BadGateway) as error:
        raise SinkqlError(
            "SQ4132",
            f'the Vault server of secret "{name}" does not answer',
            detail=f"{_shown(address)}: {type(error).__name__}",
            hint="Check VAULT_ADDR, and that the server runs.",
        ) from None
    except exceptions.VaultError as error:
        raise _answered(name, path, error) from None
    except (LookupError, TypeError, ValueError, AttributeError):
        raise SinkqlError(
            "SQ4139",
            f'the server for secret "{name}" is not Vault, or has no KV store at "{path}"',
            detail=_shown(address),
            hint="Check that VAULT_ADDR is the root of the active server, such as https://host:8200.",
        ) from None
    return _field(name, path, field, data)


# --- what the environment says -----------------------------------------------------------------------------------


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
        hint="Set it before the job starts: export VAULT_ADDR=https://host:8200.",
    )


def _token(name: str) -> str:
    token = _setting("TOKEN")
    if token is None:
        with suppress(OSError, UnicodeDecodeError):
            own = home_folder()
            token = (own / ".vault-token").read_text() if own is not None else None
    token = (token or "").strip()
    if not token:
        raise _no_token(name)
    return token


def _no_token(name: str) -> SinkqlError:
    return SinkqlError(
        "SQ4131",
        f'there is no token for the Vault server of secret "{name}"',
        hint="Set VAULT_TOKEN before the job starts, or run vault login.",
    )


def _verify() -> bool | str:
    if (_setting("SKIP_VERIFY") or "").lower() in ("1", "true", "t"):
        return False
    return _setting("CACERT") or _setting("CAPATH") or True


def _shown(address: str) -> str:
    """Return an address without the user and password that it may hold."""
    scheme, mark, rest = address.rpartition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


# --- what the server says ----------------------------------------------------------------------------------------


def _read(client: Any, path: str) -> dict[str, Any]:  # hvac has no types
    """Return the fields at a path, of the version of KV that is mounted there."""
    mount = client.adapter.get(f"/v1/sys/internal/ui/mounts/{path}")["data"]
    if (mount.get("options") or {}).get("version") != "2":
        found = client.adapter.get(f"/v1/{path}")["data"]
    else:
        root = mount["path"]
        found = client.adapter.get(f"/v1/{root}data/{path.removeprefix(root)}")["data"]["data"]
    return dict(found)


def _answered(name: str, path: str, error: Any) -> SinkqlError:
    """Return the error for what the server refused; its own words are left out where they may quote anything."""
    from hvac import exceptions

    match error:
        case exceptions.Forbidden() | exceptions.Unauthorized():
            return SinkqlError(
                "SQ4134",
                f'the Vault server denies access to secret "{name}"',
                hint=f'Set VAULT_TOKEN to a token that is valid, and whose policy may read "{path}".',
            )
        case exceptions.InvalidPath():
            return SinkqlError(
                "SQ4135",
                f'the Vault server has nothing at "{path}" for secret "{name}"',
                hint="Write the path as vault kv get takes it, without /data/.",
            )
        case exceptions.VaultDown() | exceptions.VaultNotInitialized():
            return SinkqlError(
                "SQ4137",
                f'the Vault server of secret "{name}" is sealed',
                hint="Unseal it, and start the job again.",
            )
        case _:
            return SinkqlError(
                "SQ4138",
                f'the Vault server of secret "{name}" fails',
                detail=type(error).__name__,
                hint="Look into the server's log.",
            )


def _field(name: str, path: str, field: str, data: dict[str, Any]) -> str:
    value = data.get(field)
    if value is None:
        known = ", ".join(sorted(data)) or "none"
        raise SinkqlError(
            "SQ4136",
            f'"{path}" of the Vault server has no field "{field}", for secret "{name}"',
            hint=f"Its fields are: {known}.",
        )
    return value if isinstance(value, str) else json.dumps(value)


_AWS_PATIENCE_S = 5.0
_REFUSED = ("denied", "unrecognizedclient", "invalidclient", "signature", "expired", "notauthorized")


def from_aws(name: str, id_: str, field: str | None = None) -> str:
    """Return the secret's text, or that of a field of its JSON. Raises SQ4140 to SQ4147, ModuleNotFoundError."""
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
            f'there are no AWS credentials to read secret "{name}" with',
            hint="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY before the job starts, or AWS_PROFILE.",
        ) from None
    except exceptions.ClientError as error:
        raise _aws_answered(name, id_, error.response) from None
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


def _aws_answered(name: str, id_: str, answer: Mapping[str, Any]) -> SinkqlError:
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


_REFERENCE_PATIENCE_S = 10.0
_PACKAGES = {"keyring": ("keyring", "keyring"), "vault": ("hvac", "vault"), "aws_secret": ("boto3", "aws")}
"""The package that a kind of reference needs, and the extra of SinkQL that installs it."""


def resolve(name: str, kind: str, arguments: Sequence[str], project: Path) -> str:
    """Return the value of the secret called `name`; a relative path of a file begins in `project`.

    Raises SQ4110 (variable), SQ4111 (file), SQ4120 (a package is missing), SQ4121 to SQ4123 (keyring), SQ4130 to SQ4139
    (vault), SQ4140 to SQ4147 (AWS). No error shows a value, a token or a key, or leads to a frame that holds one.
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
    """Return the error for a secret whose kind needs a package that is not installed; any other is raised again."""
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
            hint="Check its path and permissions; a relative path begins in the project's folder.",
        ) from None


# --- the system's keyring --------------------------------------------------------------------------------------------


def _from_keyring(name: str, service: str, entry: str) -> str:
    import keyring  # an extra, as below
    from keyring.errors import KeyringLocked, NoKeyringError

    found: list[str | None] = []
    failed: list[Exception] = []

    def ask() -> None:
        try:
            found.append(keyring.get_password(service, entry))
        except Exception as error:
            failed.append(error)

    # One that is locked may ask for its password in a window, and wait.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_REFERENCE_PATIENCE_S)
    if found:
        if found[0] is None:
            raise SinkqlError(
                "SQ4123",
                f'the keyring has no password of "{entry}" in service "{service}", for secret "{name}"',
                hint=f"Run keyring set {service} {entry}, as the user who runs the job.",
            )
        return found[0]
    if not failed or isinstance(failed[0], KeyringLocked):
        raise SinkqlError(
            "SQ4122",
            f'cannot read secret "{name}": the keyring is locked',
            hint="Unlock it, and start the job again; without a desktop use AS env_var('NAME') or AS file('path').",
        )
    none = isinstance(failed[0], NoKeyringError)
    raise SinkqlError(
        "SQ4121",
        f'there is no keyring to read secret "{name}" from' if none else f'the keyring fails to return secret "{name}"',
        detail=type(failed[0]).__name__,
        hint="Run keyring diagnose; without a desktop use AS env_var('NAME') or AS file('path').",
    )
