"""The planned options of catalog connections and sinks, as jobs store them.

`connection` and `sink` write these options as JSON; each user converts them here once. The field names are the keys in
jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sinkql.connector_api.options import PlannedOptions, PlannedSecret


@dataclass(frozen=True, slots=True)
class NamedConnection:
    """A connection that another one uses."""

    connection: str


@dataclass(frozen=True, slots=True)
class CatalogConnection(PlannedOptions):
    """The options of a catalog connection; `catalog_type` is in lower case."""

    catalog_type: str
    url: str | None = None
    warehouse: str | None = None
    credential: PlannedSecret | None = field(default=None, repr=False)
    scope: str | None = None
    oauth2_server_url: str | None = None
    storage_provider: str | None = None
    access_delegation: str | None = None
    aws_connection: NamedConnection | None = None
    gcp_connection: NamedConnection | None = None

    @property
    def has_hint_file(self) -> bool:
        """Return whether a file beside the table's metadata names the newest metadata file."""
        return self.catalog_type == "sql"


@dataclass(frozen=True, slots=True)
class IcebergSink(PlannedOptions):
    """The options of a sink; `column_types` are Iceberg's, in the table's order, with the changelog's columns.

    If `existing_rows` is None, the sink refuses a table with rows. If `branch` is None, it commits to main. `layout`
    describes the terms of `partition_by` and `sort_by`. `letters` marks the sink of a dead letter table.
    """

    namespace: str
    table: str
    column_types: Mapping[str, str] = field(default_factory=dict)
    format_version: int = 2
    maintenance: bool = True
    existing_rows: Literal["keep", "replace"] | None = None
    retain_snapshots: int | None = None
    maintenance_share: float | None = None
    partition_by: tuple[Mapping[str, Any], ...] = ()
    sort_by: tuple[Mapping[str, Any], ...] = ()
    branch: str | None = None
    letters: bool = False
