"""A catalog file → names of its items, at once: read as they stand there, nothing is planned or checked.

For what must answer while a user types in another program: it imports nothing that parses or plans.
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
    """Return the names of items of some kinds; none where there is no catalog that can be read."""
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
    """Return names as they are typed, of rows of a database, a schema and a name."""
    return [
        _spelled(name) if (database, schema) in _DEFAULT else f"{_spelled(schema)}.{_spelled(name)}"
        for database, schema, name in rows
    ]


def _spelled(part: str) -> str:
    return quoted(part) if '"' in part or "." in part else part
