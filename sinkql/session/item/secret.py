"""A name and a value → the secret with that value, made or rotated without being SQL text; what secrets there are."""

from __future__ import annotations

from sinkql import ast
from sinkql.catalog.catalog import Catalog, ChangedError
from sinkql.catalog.operation import rotating
from sinkql.catalog.secret.value import Given, SecretValue
from sinkql.errors import SinkqlError
from sinkql.planner.name import as_name, find, short_name
from sinkql.printer import clause
from sinkql.session.item.create import create


def set_secret(name: str, value: SecretValue, catalog: Catalog, *, create_new: bool = True) -> str | None:
    """Create a secret, or give it a new value; return "created" or "rotated".

    Returns None for a secret that is not there and that `create_new` does not allow. Raises SQ2002 where another kind
    of item has the name, and SQ4124 for a value of nothing.
    """
    if not value.reveal():
        raise SinkqlError("SQ4124", f'the value of secret "{name}" is empty', hint="Type it, or pipe it in.")
    written = as_name(name)
    while True:
        catalog.refresh()
        full_name = catalog.plans.resolve(written)
        stored = catalog.stored(full_name)
        try:
            if stored is None:
                if not create_new:
                    return None
                create(ast.CreateSecret(written, ast.Text(value.reveal())), catalog)
                return "created"
            if stored.kind != "SECRET":
                kind = stored.kind
                raise SinkqlError(
                    "SQ2002", f'{kind.lower()} "{name}" already exists', hint="Choose another name for the secret."
                )
            catalog.change(rotating(full_name, Given("literal", value)))
            return "rotated"
        except ChangedError:
            continue


def secrets(catalog: Catalog) -> list[tuple[str, str]]:
    """Return the secrets' full names, and where each has its value: the catalog, or what it refers to."""
    catalog.refresh()
    found = []
    for name in catalog.plans.names("SECRET"):
        entry = catalog.plans.entry(name)
        assert entry is not None
        assert isinstance(entry.statement, ast.CreateSecret)
        value = entry.statement.value
        found.append((name, clause.secret(value) if isinstance(value, ast.Call) and value.refers else "catalog"))
    return found


def check_secret(name: str, catalog: Catalog) -> str:
    """Read a secret as a job would, show nothing of it and return its short name; raises SQ2001 and SQ41xx."""
    catalog.refresh()
    full_name = find(catalog.plans, as_name(name), "SECRET").name
    catalog.secret(full_name)
    return short_name(full_name)
