"""The environment of a process with armed failpoints."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from sinkql.storage import failpoint, files


def armed(rules: str) -> dict[str, str]:
    """Return the variables that arm these rules; write the file that confirms them, deleted when this process ends."""
    path = Path(_folder().name) / hashlib.sha256(rules.encode()).hexdigest()[:16]
    files.write_atomic(path, rules.encode(), sync=False)
    return {failpoint.RULES: rules, failpoint.CONFIRMED_BY: str(path)}


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="sinkql-faults-")
