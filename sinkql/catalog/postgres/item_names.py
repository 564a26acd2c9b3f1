"""Read the names of items from a catalog in Postgres, for shell completion; nothing is planned."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from sinkql.catalog.address import ServerUrl
from sinkql.catalog.postgres.schema import quoted
from sinkql.catalog.sqlite.item_names import as_typed

_PATIENCE_SECONDS = 2
_BEGIN = f"BEGIN READ ONLY; SET LOCAL statement_timeout = '{_PATIENCE_SECONDS}s'; SET LOCAL search_path = "
_QUERY = """
SELECT database_name, schema_name, name FROM items WHERE kind = ANY(%s) ORDER BY array_position(%s, kind), name
"""


def item_names(url: ServerUrl, *kinds: str) -> list[str]:
    """Return the names of items of some kinds; an empty list if no server with a catalog answers soon."""
    wanted = [*kinds]
    try:
        parameters: dict[str, Any] = {**conninfo_to_dict(url.libpq), "connect_timeout": _PATIENCE_SECONDS}
        with psycopg.connect(**parameters, autocommit=True, prepare_threshold=None) as link:
            link.execute(_BEGIN + quoted(url.schema))
            return as_typed(link.execute(_QUERY, (wanted, wanted)).fetchall())
    except psycopg.Error:
        return []
