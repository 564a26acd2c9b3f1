"""Find out whether a query reads system relations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from sinkql import ast, logical
from sinkql.catalog.system import ON_PATH, RELATIONS
from sinkql.errors import SinkqlError
from sinkql.planner.name import RELATION_KINDS, SYSTEM_SCHEMAS, find

_CLIENT = re.compile(
    r"\b(current_(database|catalog|schema|user)|session_user|(mz_)?version|format_type|(sh)?obj_description|"
    r"col_description|(pg|has)_\w+)\b",
    re.IGNORECASE,
)
"""Functions of clients, which need no relation."""
_SYSTEM = re.compile(rf"\b({'|'.join(SYSTEM_SCHEMAS)})\b|\b(mz|pg)_", re.IGNORECASE)


class System(Enum):
    """The role of system relations in a query."""

    NONE = "none"
    ALONE = "alone"
    BESIDE = "beside items"


def over_system(query: ast.Query, plans: logical.CatalogReader) -> System:
    """Return whether a query reads no system relations, only system relations, or both kinds."""
    from sinkql.planner.query.rename import relations  # loads sqlglot, which only queries need

    try:
        names = relations(query)
    except SinkqlError:
        if _SYSTEM.search(query.text):
            return System.ALONE  # the system catalog has the better error
        raise
    if not names:
        return System.ALONE if _CLIENT.search(query.text) is not None else System.NONE
    system = [name for name in names if _is_system_name(name, plans)]
    if not system:
        return System.NONE
    return System.ALONE if len(system) == len(names) else System.BESIDE


def check_items(names: Iterable[ast.Name], plans: logical.CatalogReader) -> None:
    """Raise SQ2001 or SQ2003 for the first name that is neither a system relation nor an item of the user."""
    for name in names:
        if not _is_system_name(name, plans):
            find(plans, name, *RELATION_KINDS)


def _is_system_name(name: ast.Name, plans: logical.CatalogReader) -> bool:
    item = name.parts[-1].value
    if len(name.parts) > 1:
        return name.parts[-2].value in SYSTEM_SCHEMAS
    if plans.entry(plans.resolve(name)) is not None:
        return False
    return any((schema, item) in RELATIONS for schema in ON_PATH) or item.startswith(("mz_", "pg_"))
