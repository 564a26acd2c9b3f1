"""A secret's reference → its value now, from where it is kept: environment, file, keyring, vault, AWS."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

from sinkql.errors import SinkqlError
from sinkql.local_path import in_project

_PATIENCE_S = 10.0
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
            from sinkql.catalog.secret.providers import from_vault

            return from_vault(name, *arguments)
        case "aws_secret":
            from sinkql.catalog.secret.aws import from_aws

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
    asking.join(_PATIENCE_S)
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
