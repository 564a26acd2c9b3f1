"""What statements use of the session that runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sinkql import physical
from sinkql.catalog.catalog import Catalog
from sinkql.connector_api.stream import Context

if TYPE_CHECKING:
    from sinkql.runtime.spark.adhoc import AdhocSpark


class Workspace(Protocol):
    """A session, for the statements that need more of it than its catalog."""

    @property
    def catalog(self) -> Catalog:
        """Return the catalog as statements see it: while a transaction is open, its draft."""

    @property
    def spark(self) -> AdhocSpark:
        """Return what runs queries; it starts Spark at the first one."""

    def tell(self, text: str) -> None:
        """Say how far a statement is that takes long."""

    def context(self, job: physical.Job) -> Context:
        """Return what the parts of a job may use: its folder, secrets' values, object stores."""
