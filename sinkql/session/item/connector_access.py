"""Provide connectors, also for running sinks, with access to secrets, connections and object stores."""

from __future__ import annotations

from pathlib import Path

from sinkql import logical, physical
from sinkql.catalog.catalog import Catalog
from sinkql.connector_api.stream import Context
from sinkql.errors import MissingError
from sinkql.local_path import in_project
from sinkql.object_store.store import ObjectStore


class CatalogAccess:
    """The access of connectors to the values of secrets, planned connections and object stores.

    It implements `sinkql.connector_api.planning.OutsideAccess`. Connections come from `plans`, by default from the
    catalog.
    """

    def __init__(self, catalog: Catalog, plans: logical.CatalogReader | None = None) -> None:
        self._catalog = catalog
        self._plans = plans

    def secret(self, full_name: str) -> str:
        """Return the value of a secret. Raise SQ41xx if it cannot be read now.

        For a connection, return its stored secret. The first read adds the identity of its server, if the kind has one.
        """
        value = self._catalog.secret(full_name).reveal()
        item = self._catalog.plans.item(full_name)
        if not isinstance(item, logical.Connection):
            return value
        pin = self._catalog.registry.connections[item.kind].pin
        pinned = pin(item.options, value) if pin is not None else None
        return value if pinned is None else self._catalog.pin(full_name, value, pinned)

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
        """Return the path of an option. A relative path starts in the catalog's project folder."""
        return in_project(option, self._catalog.project)

    def context(self, name: str, sink_id: str, folder: Path) -> Context:
        """Return the context for readers and writers outside a run."""
        return Context(name, sink_id, folder, self.secret, self.job_store, project=self._catalog.project)

    def job_store(self, connection: physical.Connection) -> ObjectStore:
        """Return the object store of a connection in a job."""
        return self._catalog.registry.store(connection.kind, connection.options, self.secret)
