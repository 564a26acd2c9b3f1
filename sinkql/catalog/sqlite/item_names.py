"""Read the names of items from a catalog file quickly, without planning or checking them.

It serves completion in a user's shell, so it imports nothing that parses or plans.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sinkql.keywords import quoted

_DEFAULT = (("materialize", "public"), (None, None))
_QUERY = "SELECT database_name, schema_name, name FROM items WHERE kind = ? ORDER BY name"


def item_names(path: Path, *kinds: str) -> list[str]:
    """Return the names of items of some kinds; an empty list if no catalog can be read."""
    if not path.is_file():
        return []
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0)
        try:
            rows = [row for kind in kinds for row in connection.execute(_QUERY, (kind,))]
        finally:
            connection.close()
    except sqlite3.Error:
        return []
    return as_typed(rows)


def as_typed(rows: Iterable[tuple[Any, ...]]) -> list[str]:
    """Return names as users type them, from rows of database, schema and name."""
    return [
        _spelled(name) if (database, schema) in _DEFAULT else f"{_spelled(schema)}.{_spelled(name)}"
        for database, schema, name in rows
    ]


def _spelled(part: str) -> str:
    return quoted(part) if '"' in part or "." in part else part
