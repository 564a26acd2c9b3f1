"""Open a catalog in a Hive metastore with pyiceberg and the requests of Hive 4.

pyiceberg's commits hold a lock of the metastore, which expires while a process is suspended. The commit then overwrites
commits of other processes. Hive 4 compares: it alters a table only if the table still has the metadata file that the
commit is based on. So SinkQL acquires no lock, and refuses older metastores, which do not compare. Programs of Iceberg,
for example Spark, compare too if a table's properties request it. Otherwise they rely on a lock that SinkQL ignores,
and would undo commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import (
    EnvironmentContext,
    GetTableRequest,
    LockResponse,
    LockState,
    MetaException,
    NoSuchObjectException,
)
from pyiceberg.catalog import ICEBERG, TABLE_TYPE
from pyiceberg.catalog.hive import HiveCatalog, _HiveClient
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.typedef import Identifier
from thrift.protocol import TBinaryProtocol

from sinkql.connectors.iceberg.plan.options import CatalogConnection
from sinkql.connectors.iceberg.storage import CATALOG_NAME, AskingFiles, Stores
from sinkql.connectors.iceberg.table.format_v3 import MetadataFiles
from sinkql.errors import SinkqlError
from sinkql.object_store.store import ObjectStore

_TIMEOUT_MS = 60_000
_LEAST_VERSION = 4
_LOCATION = "metadata_location"
_PREVIOUS = "previous_metadata_location"
_LOCKED = "engine.hive.lock-enabled"
_MOVED = "table has been modified"


def open_hive(name: str, options: CatalogConnection, stores: Stores) -> HiveCatalog:
    """Return the catalog of connection `name`; raises SQ4213 if the metastore is too old."""
    properties = {"uri": options.url or ""}
    if options.warehouse:
        properties["warehouse"] = options.warehouse.rstrip("/")
    catalog = _HiveCatalog(properties, stores.files)
    with catalog._client as client:
        version: str = client.getVersion()
    major = version.partition(".")[0]
    if not major.isdecimal() or int(major) < _LEAST_VERSION:
        raise SinkqlError(
            "SQ4213",
            f'the Hive metastore of connection "{name}" has version {version}, which loses commits of two writers',
            hint=f"Use a metastore of Hive {_LEAST_VERSION} or later.",
            option="URL",
        )
    return catalog


class _HiveCatalog(MetadataFiles, AskingFiles, HiveCatalog):
    def __init__(self, properties: Mapping[str, str], files: ObjectStore | None) -> None:
        self._files = files
        super().__init__(CATALOG_NAME, **properties)

    def _convert_hive_into_iceberg(self, table: Any) -> Table:
        location = table.parameters.get(_LOCATION)
        if not location or table.parameters.get(TABLE_TYPE, "").lower() != ICEBERG:
            return super()._convert_hive_into_iceberg(table)  # raises the error
        return self._open_table((table.dbName, table.tableName), location)

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Mapping[str, Any] = MappingProxyType({}),
    ) -> Table:
        """Create a table with the property that tells other programs not to lock it."""
        properties = {**properties, _LOCKED: "false"}
        return super().create_table(identifier, schema, location, partition_spec, sort_order, properties)

    @staticmethod
    def _create_hive_client(properties: dict[str, str]) -> _HiveClient:
        return _Connection(properties["uri"])


class _Connection(_HiveClient):
    """A connection to a metastore with a timeout: pyiceberg sets none, and would wait forever."""

    def _init_thrift_transport(self) -> Any:
        transport = super()._init_thrift_transport()
        transport._TBufferedTransport__trans.setTimeout(_TIMEOUT_MS)
        return transport

    def _client(self) -> Client:
        return _Client(TBinaryProtocol.TBinaryProtocol(self._transport))


class _Client(Client):  # type: ignore[misc]  # thrift has no types
    def get_table(self, dbname: str, tbl_name: str) -> Any:
        return self.get_table_req(GetTableRequest(dbName=dbname, tblName=tbl_name)).table

    def lock(self, rqst: Any) -> LockResponse:
        return LockResponse(lockid=0, state=LockState.ACQUIRED)

    def unlock(self, rqst: Any) -> None:
        return

    def alter_table_with_environment_context(
        self, dbname: str, tbl_name: str, new_tbl: Any, environment_context: EnvironmentContext
    ) -> None:
        previous = new_tbl.parameters[_PREVIOUS]
        environment_context.properties |= {"expected_parameter_key": _LOCATION, "expected_parameter_value": previous}
        try:
            super().alter_table_with_environment_context(dbname, tbl_name, new_tbl, environment_context)
        except (MetaException, NoSuchObjectException) as error:
            if _MOVED in str(error.message):
                raise CommitFailedException(error.message) from error
            raise
