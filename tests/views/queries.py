"""Read named queries from a file, in which a comment with the name precedes each query."""

from __future__ import annotations

import re
from pathlib import Path

_NAMED = re.compile(r"^-- (\w+)[^\n]*\n(.*?);$", re.MULTILINE | re.DOTALL)


def queries(file: str) -> dict[str, str]:
    """Return the queries of a file in this folder by name."""
    return dict(_NAMED.findall((Path(__file__).parent / file).read_text()))
