"""Open a catalog in AWS Glue with pyiceberg. Each request uses the present keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.config import Config
from pyiceberg.catalog import ICEBERG, METADATA_LOCATION, TABLE_TYPE
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.table import Table

from sinkql.connectors.iceberg.plan.options import CatalogConnection
from sinkql.connectors.iceberg.storage import AskingFiles, Stores
from sinkql.connectors.iceberg.table.format_v3 import MetadataFiles
from sinkql.object_store.s3 import signing_session
from sinkql.object_store.store import ObjectStore

_ANY_REGION = "us-east-1"
_PATIENCE = Config(connect_timeout=5.0, read_timeout=60.0, retries={"mode": "standard", "total_max_attempts": 5})


def open_glue(options: CatalogConnection, stores: Stores) -> GlueCatalog:
    """Return the catalog without a request to it."""
    signer = stores.for_requests()
    region = signer.properties().get("s3.region", _ANY_REGION)
    client = signing_session(signer, region).create_client("glue", region, endpoint_url=options.url, config=_PATIENCE)
    properties = {"s3.region": region}
    if options.warehouse:
        properties["warehouse"] = options.warehouse
    return _GlueCatalog(client, properties, stores.for_files())


class _GlueCatalog(MetadataFiles, AskingFiles, GlueCatalog):
    def __init__(self, client: Any, properties: Mapping[str, str], files: ObjectStore) -> None:
        self._files = files
        super().__init__("default", client, **properties)

    def _convert_glue_to_iceberg(self, glue_table: Any) -> Table:
        parameters = glue_table.get("Parameters", {})
        location = parameters.get(METADATA_LOCATION)
        if not location or parameters.get(TABLE_TYPE, "").lower() != ICEBERG:
            return super()._convert_glue_to_iceberg(glue_table)  # raises the error
        return self._open_table((glue_table["DatabaseName"], glue_table["Name"]), location)
