"""A file of queries, each below a comment with its name → the queries by name."""

from __future__ import annotations

import re
from pathlib import Path

_NAMED = re.compile(r"^-- (\w+)[^\n]*\n(.*?);$", re.MULTILINE | re.DOTALL)


def queries(file: str) -> dict[str, str]:
    """Return the queries of a file that lies beside this one."""
    return dict(_NAMED.findall((Path(__file__).parent / file).read_text()))
