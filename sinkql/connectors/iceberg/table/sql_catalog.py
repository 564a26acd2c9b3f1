"""A variant of pyiceberg's SQL catalog whose cost does not grow with a table's history."""

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
"""One more than the number of tables: another process may create each one just before."""
_ADDING = AddSnapshotUpdate, SetSnapshotRefUpdate, SetPropertiesUpdate
"""Updates that read only snapshots that refs name."""


class CachingCatalog(MetadataFiles, SqlCatalog):
    """A SQL catalog that caches the metadata of each table: metadata files never change.

    Each load asks the database for the location of the table's metadata. pyiceberg's class reads the file twice for
    each commit, and makes a deep copy of all snapshots.
    """

    def __init__(self, name: str, **properties: str) -> None:
        self._cache: dict[Identifier, tuple[str, TableMetadata]] = {}
        super().__init__(name, **properties)

    def create_tables(self) -> None:
        """Create the catalog's tables; another process may create them at the same time, one by one."""
        for _ in range(_TRIES - 1):
            with suppress(IntegrityError, OperationalError, ProgrammingError):
                super().create_tables()
                return
        super().create_tables()

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        """Create a namespace; raises NamespaceAlreadyExistsError, even if another process creates it first."""
        try:
            super().create_namespace(namespace, properties)
        except IntegrityError as error:
            raise NamespaceAlreadyExistsError(f"Namespace {namespace} already exists") from error

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit, and cache the new metadata."""
        reply = super().commit_table(table, requirements, updates)
        self._cache[table.name()] = reply.metadata_location, reply.metadata
        return reply

    def drop_unchanged(self, table: Table) -> None:
        """Drop a table if it has not changed since it was loaded; else raise CommitFailedException."""
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
        self._cache.pop(table.name(), None)

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        name = (*self.identifier_to_tuple(orm_table.table_namespace), orm_table.table_name)
        cached = self._cache.get(name)
        if cached is not None and cached[0] == orm_table.metadata_location:
            location, metadata = cached
            io = self._load_file_io(metadata.properties, location)
            if io.new_input(location).exists():
                return Table(name, metadata, location, io, self)
        if not orm_table.metadata_location:
            return super()._convert_orm_to_iceberg(orm_table)  # raises the error
        table = self._open_table(name, orm_table.metadata_location)
        with damage_as_error(table.metadata_location):
            _check_version(table.metadata_location, table.metadata)
        self._cache[name] = table.metadata_location, table.metadata
        return table

    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        if current_table is None or not all(isinstance(update, _ADDING) for update in updates):
            return super()._update_and_stage_table(current_table, table_identifier, requirements, updates)
        before = current_table.metadata
        heads = {ref.snapshot_id for ref in before.refs.values()}
        few = [snapshot for snapshot in before.snapshots if snapshot.snapshot_id in heads]
        small = before.model_copy(update={"snapshots": few, "snapshot_log": []})
        base = Table(
            current_table.name(), small, current_table.metadata_location, current_table.io, current_table.catalog
        )
        staged = super()._update_and_stage_table(base, table_identifier, requirements, updates)
        after = staged.metadata
        history = {
            "snapshots": [*before.snapshots, *after.snapshots[len(few) :]],
            "snapshot_log": [*before.snapshot_log, *after.snapshot_log],
        }
        metadata = after.model_copy(update=history)
        return StagedTable(table_identifier, metadata, staged.metadata_location, staged.io, self)


def _check_version(location: str, metadata: TableMetadata) -> None:
    """Raise ValueError if a file has the metadata of another version, if the names of files have versions."""
    version = _version(location)
    before = _version(metadata.metadata_log[-1].metadata_file) if metadata.metadata_log else -1
    if version is None or before is None or (before < 0 and metadata.snapshots) or version == before + 1:
        return
    raise ValueError(f"the file has version {before + 1} of the table's metadata")


def _version(location: str) -> int | None:
    match = re.match(r"(\d+)-[0-9a-f-]{36}\.", location.rpartition("/")[2])
    return int(match[1]) if match is not None else None


class FileCatalog(CachingCatalog):
    """A catalog in an SQLite file. pyiceberg's class creates an engine and checks the tables three times to open it."""

    def __init__(self, engine: Engine, properties: Mapping[str, str]) -> None:
        super(SqlCatalog, self).__init__(CATALOG_NAME, **properties)
        self._cache = {}
        self.engine = engine
        self._init_catalog()

    def _init_catalog(self) -> None:
        try:
            self._check_tables()
        except OperationalError:  # the tables do not exist, or are of an older version
            super()._init_catalog()

    def _check_tables(self) -> None:
        """Raise OperationalError if the present tables do not exist."""
        with self.engine.connect() as connection:
            connection.exec_driver_sql(_TABLES)
        self._schema_version = "v1"


class MemoryCatalog(CachingCatalog, InMemoryCatalog):
    """A catalog in memory that stays open as long as the process: closing it would delete its tables."""

    def __init__(self, name: str, **properties: Any) -> None:
        super().__init__(name, **properties)

    def close(self) -> None:
        """Do nothing."""
