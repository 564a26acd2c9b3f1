"""Rules of fault points → the environment of a process in which they are armed."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from sinkql.storage import failpoint, files


def armed(rules: str) -> dict[str, str]:
    """Return the variables that arm these rules, and write the file that confirms them; it goes with this process."""
    path = Path(_folder().name) / hashlib.sha256(rules.encode()).hexdigest()[:16]
    files.write_atomic(path, rules.encode(), sync=False)
    return {failpoint.RULES: rules, failpoint.CONFIRMED_BY: str(path)}


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="sinkql-faults-")
