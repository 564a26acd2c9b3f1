"""What scripts describe, and the catalog's secrets → what connectors may reach the outside with."""

from __future__ import annotations

from sinkql import ast
from sinkql.catalog.catalog import Catalog
from sinkql.catalog.secret.value import given
from sinkql.planner.name import short_name
from sinkql.session.deploy.script_catalog import ScriptCatalog
from sinkql.session.item.connector_access import CatalogAccess


class DescribedAccess(CatalogAccess):
    """Reach the outside as after the deployment: by its connections, and with the values of its secrets."""

    def __init__(self, catalog: Catalog, described: ScriptCatalog) -> None:
        super().__init__(catalog, described.catalog)
        self._described = described

    def secret(self, full_name: str) -> str:
        statement = self._described.statements.get(full_name)
        if not isinstance(statement, ast.CreateSecret) or full_name in self._described.kept:
            return super().secret(full_name)  # the catalog's statement of a secret is without its value
        cipher = self._catalog.cipher
        sealed = cipher.seal("planned", given(statement.value))
        return cipher.open("planned", short_name(full_name), sealed).reveal()
