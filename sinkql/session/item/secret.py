"""Create, rotate, list and check secrets without SQL text that contains their values."""

from __future__ import annotations

from sinkql import ast, logical
from sinkql.catalog.catalog import Catalog, ChangedError
from sinkql.catalog.operation import rotating
from sinkql.catalog.secret.value import SecretInput, SecretValue
from sinkql.errors import SinkqlError
from sinkql.planner.name import as_name, find, short_name
from sinkql.printer import clause
from sinkql.session.item.create import create
from sinkql.statement.operation import CreateItem


def set_secret(name: str, value: SecretValue, catalog: Catalog, *, create_new: bool = True) -> str | None:
    """Create a secret or replace its value. Return "created" or "rotated".

    Return None if the secret does not exist and `create_new` is false. Raise SQ2002 if another kind of item has the
    name, and SQ4124 if the value is empty.
    """
    if not value.reveal():
        raise SinkqlError("SQ4124", f'the value of secret "{name}" is empty', hint="Type it, or pipe it in.")
    parsed = as_name(name)
    while True:
        catalog.refresh()
        full_name = catalog.plans.resolve(parsed)
        stored = catalog.stored(full_name)
        try:
            if stored is None:
                if not create_new:
                    return None
                create(CreateItem(ast.CreateSecret(parsed, ast.Text(value.reveal())), full_name), catalog)
                return "created"
            if stored.kind != "SECRET":
                kind = stored.kind
                raise SinkqlError(
                    "SQ2002", f'{kind.lower()} "{name}" already exists', hint="Choose another name for the secret."
                )
            catalog.change(rotating(full_name, SecretInput("literal", value)))
            return "rotated"
        except ChangedError:
            continue


def secrets(catalog: Catalog) -> list[tuple[str, str]]:
    """Return the full name of each secret with the location of its value: "catalog" or its reference."""
    catalog.refresh()
    locations = []
    for name in catalog.plans.names("SECRET"):
        value = logical.get_statement(catalog.plans, name, ast.CreateSecret).value
        locations.append((name, clause.secret(value) if isinstance(value, ast.Call) and value.refers else "catalog"))
    return locations


def check_secret(name: str, catalog: Catalog) -> str:
    """Read a secret as a job does and return its short name. Raise SQ2001 or SQ41xx."""
    catalog.refresh()
    full_name = find(catalog.plans, as_name(name), "SECRET").name
    catalog.secret(full_name)
    return short_name(full_name)
