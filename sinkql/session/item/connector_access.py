"""The catalog and its secrets → what connectors may reach the outside with."""

from __future__ import annotations

from pathlib import Path

from sinkql import logical, physical
from sinkql.catalog.catalog import Catalog
from sinkql.connector_api.stream import Context
from sinkql.errors import MissingError
from sinkql.local_path import in_project
from sinkql.object_store.store import ObjectStore


class CatalogAccess:
    """Give connectors secrets' values, planned connections and object stores. See
    `sinkql.connector_api.planning.OutsideAccess`.

    Connections are those of `plans`, of the catalog as it is now without them.
    """

    def __init__(self, catalog: Catalog, plans: logical.CatalogReader | None = None) -> None:
        self._catalog = catalog
        self._plans = plans

    def secret(self, full_name: str) -> str:
        """Return a secret's value; raises SQ41xx where it cannot be had now.

        That of a connection is what it keeps: with what identifies its server, from the first time on.
        """
        value = self._catalog.secret(full_name).reveal()
        item = self._catalog.plans.item(full_name)
        if not isinstance(item, logical.Connection):
            return value
        pin = self._catalog.registry.connections[item.kind].pin
        found = pin(item.options, value) if pin is not None else None
        return value if found is None else self._catalog.pin(full_name, value, found)

    def connection(self, full_name: str) -> logical.Connection:
        """Return a planned connection."""
        item = (self._plans or self._catalog.plans).item(full_name)
        if not isinstance(item, logical.Connection):
            raise MissingError("SQ2001", f'connection "{full_name}" does not exist', name=full_name)
        return item

    def store(self, full_name: str) -> ObjectStore:
        """Return the object store that a connection opens."""
        connection = self.connection(full_name)
        return self._catalog.registry.store(connection.kind, connection.options, self.secret)

    def path(self, option: str) -> Path:
        """Return where the path is that an option has: a relative one begins in the catalog's project."""
        return in_project(option, self._catalog.project)

    def context(self, name: str, sink_id: str, folder: Path) -> Context:
        """Return what readers and writers may use outside of a run."""
        return Context(name, sink_id, folder, self.secret, self.job_store, project=self._catalog.project)

    def job_store(self, connection: physical.Connection) -> ObjectStore:
        """Return the object store of a connection as a job carries it."""
        return self._catalog.registry.store(connection.kind, connection.options, self.secret)
