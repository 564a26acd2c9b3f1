"""A secret's reference → its value now, from where it is kept."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sinkql.errors import SinkqlError


def resolve(name: str, kind: str, arguments: Sequence[str]) -> str:
    """Return the value of the secret called `name`; raises SQ4110 and SQ4111 where it is not there."""
    match kind:
        case "env_var":
            return _from_environment(name, *arguments)
        case "file":
            return _from_file(name, *arguments)
    raise SinkqlError("SQ4120", f"secrets from {kind} cannot be read yet", hint="Use env_var('NAME') or file('path').")


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
