"""A secret's reference → its value now, from where it is kept: environment, file, keyring, vault, AWS."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

from sinkql.errors import SinkqlError

_PATIENCE_S = 10.0


def resolve(name: str, kind: str, arguments: Sequence[str]) -> str:
    """Return the value of the secret called `name`.

    Raises SQ4110 (variable), SQ4111 (file), SQ4120 (a package is missing), SQ4121 to SQ4123 (keyring), SQ4130 to SQ4139
    (vault), SQ4140 to SQ4147 (AWS). No error shows a value, a token or a key, or leads to a frame that holds one.
    """
    try:
        return _resolve(name, kind, arguments)
    except SinkqlError as error:
        failed = error.with_traceback(None)
    failed.__context__ = None
    raise failed


def _resolve(name: str, kind: str, arguments: Sequence[str]) -> str:
    match kind:
        case "env_var":
            return _from_environment(name, *arguments)
        case "file":
            return _from_file(name, *arguments)
        case "keyring":
            return _from_keyring(name, *arguments)
        case "vault":
            from sinkql.catalog.reference_vault import from_vault

            return from_vault(name, *arguments)
        case "aws_secret":
            from sinkql.catalog.reference_aws import from_aws

            return from_aws(name, *arguments)
    raise AssertionError(kind)


def missing_package(name: str, package: str, extra: str) -> SinkqlError:
    """Return the error for a secret whose kind needs a package that is not installed."""
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


def _from_file(name: str, path: str) -> str:
    try:
        return Path(path).expanduser().read_text().removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SinkqlError(
            "SQ4111",
            f'file "{path}" of secret "{name}" cannot be read',
            detail=reason,
            hint="Check its path and permissions; a relative path starts at the working folder.",
        ) from None


# --- the system's keyring --------------------------------------------------------------------------------------------


def _from_keyring(name: str, service: str, entry: str) -> str:
    try:
        import keyring
        from keyring.errors import KeyringLocked, NoKeyringError
    except ImportError:
        raise missing_package(name, "keyring", "keyring") from None
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
            f'the keyring is locked, so secret "{name}" stays closed',
            hint="Unlock it, and start the job again; without a desktop use AS env_var('NAME') or AS file('path').",
        )
    none = isinstance(failed[0], NoKeyringError)
    raise SinkqlError(
        "SQ4121",
        f'there is no keyring to read secret "{name}" from' if none else f'the keyring of secret "{name}" fails',
        detail=type(failed[0]).__name__,
        hint="Run keyring diagnose; without a desktop use AS env_var('NAME') or AS file('path').",
    )
