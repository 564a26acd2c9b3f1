"""pyiceberg's SQL catalog, at a cost that does not grow with a table's history."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from sqlalchemy import Engine, delete
from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError

from sinkql.connectors.iceberg.file_damage import damage_as_error
from sinkql.connectors.iceberg.storage import CATALOG_NAME
from sinkql.connectors.iceberg.table.format_v3 import MetadataFiles

_TABLES = "SELECT iceberg_type FROM iceberg_tables, iceberg_namespace_properties LIMIT 0"
_TRIES = 3
"""One more than there are tables: each may be made by another process just before."""
_ADDING = AddSnapshotUpdate, SetSnapshotRefUpdate, SetPropertiesUpdate
"""What looks at no snapshots but those that refs name."""


class KnowingCatalog(MetadataFiles, SqlCatalog):
    """Keep the metadata of each table: a metadata file never changes, so one is read again only for another one.

    Where the database says the table is, is asked each time. pyiceberg's own reads the file twice a commit, and copies
    all snapshots, each of them deeply.
    """

    def __init__(self, name: str, **properties: str) -> None:
        self._known: dict[Identifier, tuple[str, TableMetadata]] = {}
        super().__init__(name, **properties)

    def create_tables(self) -> None:
        """Make the catalog's tables, which another process may be making, one by one, at the same time."""
        for _ in range(_TRIES - 1):
            with suppress(IntegrityError, OperationalError, ProgrammingError):
                super().create_tables()
                return
        super().create_tables()

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        """Make a namespace; raises NamespaceAlreadyExistsError, also where another process makes it meanwhile."""
        try:
            super().create_namespace(namespace, properties)
        except IntegrityError as error:
            raise NamespaceAlreadyExistsError(f"Namespace {namespace} already exists") from error

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit, and keep what the table is then."""
        reply = super().commit_table(table, requirements, updates)
        self._known[table.name()] = reply.metadata_location, reply.metadata
        return reply

    def drop_unchanged(self, table: Table) -> None:
        """Drop a table if nobody has changed it since it was loaded; raises CommitFailedException otherwise."""
        namespace = self.namespace_to_string(table.name()[:-1])
        of_table = delete(IcebergTables).where(
            IcebergTables.catalog_name == self.name,
            IcebergTables.table_namespace == namespace,
            IcebergTables.table_name == table.name()[-1],
            IcebergTables.metadata_location == table.metadata_location,
        )
        with self.engine.begin() as connection:
            if connection.execute(of_table).rowcount < 1:
                raise CommitFailedException(f"table {table.name()} was changed")
        self._known.pop(table.name(), None)

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        name = (*self.identifier_to_tuple(orm_table.table_namespace), orm_table.table_name)
        known = self._known.get(name)
        if known is not None and known[0] == orm_table.metadata_location:
            location, metadata = known
            io = self._load_file_io(metadata.properties, location)
            if io.new_input(location).exists():
                return Table(name, metadata, location, io, self)
        if not orm_table.metadata_location:
            return super()._convert_orm_to_iceberg(orm_table)  # says so
        table = self._opened(name, orm_table.metadata_location)
        with damage_as_error(table.metadata_location):
            _check_version(table.metadata_location, table.metadata)
        self._known[name] = table.metadata_location, table.metadata
        return table

    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        if current_table is None or not all(isinstance(each, _ADDING) for each in updates):
            return super()._update_and_stage_table(current_table, table_identifier, requirements, updates)
        before = current_table.metadata
        heads = {ref.snapshot_id for ref in before.refs.values()}
        few = [each for each in before.snapshots if each.snapshot_id in heads]
        without = before.model_copy(update={"snapshots": few, "snapshot_log": []})
        base = Table(
            current_table.name(), without, current_table.metadata_location, current_table.io, current_table.catalog
        )
        staged = super()._update_and_stage_table(base, table_identifier, requirements, updates)
        after = staged.metadata
        whole = {
            "snapshots": [*before.snapshots, *after.snapshots[len(few) :]],
            "snapshot_log": [*before.snapshot_log, *after.snapshot_log],
        }
        metadata = after.model_copy(update=whole)
        return StagedTable(table_identifier, metadata, staged.metadata_location, staged.io, self)


def _check_version(location: str, metadata: TableMetadata) -> None:
    """Raise ValueError for the metadata of a version in the file of another one, as far as names of files say it."""
    own = _version(location)
    before = _version(metadata.metadata_log[-1].metadata_file) if metadata.metadata_log else -1
    if own is None or before is None or (before < 0 and metadata.snapshots) or own == before + 1:
        return
    raise ValueError(f"it has version {before + 1} of the table's metadata")


def _version(location: str) -> int | None:
    found = re.match(r"(\d+)-[0-9a-f-]{36}\.", location.rpartition("/")[2])
    return int(found[1]) if found is not None else None


class FileCatalog(KnowingCatalog):
    """A catalog in an SQLite file; pyiceberg's own makes an engine and looks for its tables three times to open it."""

    def __init__(self, engine: Engine, properties: Mapping[str, str]) -> None:
        super(SqlCatalog, self).__init__(CATALOG_NAME, **properties)
        self._known = {}
        self.engine = engine
        self._init_catalog()

    def _init_catalog(self) -> None:
        try:
            self._look()
        except OperationalError:  # they are not there, or older ones are
            super()._init_catalog()

    def _look(self) -> None:
        """See that the present tables are there; raises OperationalError."""
        with self.engine.connect() as connection:
            connection.exec_driver_sql(_TABLES)
        self._schema_version = "v1"


class MemoryCatalog(KnowingCatalog, InMemoryCatalog):
    """A catalog that lives as long as the process: what it holds would be gone once it is closed."""

    def __init__(self, name: str, **properties: Any) -> None:
        super().__init__(name, **properties)

    def close(self) -> None:
        """Stay open."""
