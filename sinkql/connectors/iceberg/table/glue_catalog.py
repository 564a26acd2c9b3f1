"""Options of a catalog in AWS Glue → pyiceberg's, with keys that are asked for at each request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import boto3
from botocore.config import Config
from pyiceberg.catalog import ICEBERG, METADATA_LOCATION, TABLE_TYPE
from pyiceberg.catalog.glue import GlueCatalog
from pyiceberg.table import Table

from sinkql.connectors.iceberg.storage import AskingFiles, Stores
from sinkql.connectors.iceberg.table.format_v3 import MetadataFiles
from sinkql.object_store.s3 import signing_session
from sinkql.object_store.store import ObjectStore

_ANY_REGION = "us-east-1"
_PATIENCE = Config(connect_timeout=5.0, read_timeout=60.0, retries={"mode": "standard", "total_max_attempts": 5})


def open_glue(options: Mapping[str, Any], stores: Stores) -> GlueCatalog:
    """Return the catalog; reaches nothing yet."""
    assert stores.signer is not None
    assert stores.files is not None
    region = stores.signer.properties().get("s3.region", _ANY_REGION)
    session = boto3.session.Session(botocore_session=signing_session(stores.signer, region))
    client = session.client("glue", endpoint_url=options.get("url"), config=_PATIENCE)
    properties = {"s3.region": region}
    if options.get("warehouse"):
        properties["warehouse"] = options["warehouse"]
    return _GlueCatalog(client, properties, stores.files)


class _GlueCatalog(MetadataFiles, AskingFiles, GlueCatalog):
    def __init__(self, client: Any, properties: Mapping[str, str], files: ObjectStore) -> None:
        self._files = files
        super().__init__("default", client, **properties)

    def _convert_glue_to_iceberg(self, glue_table: Any) -> Table:
        told = glue_table.get("Parameters", {})
        location = told.get(METADATA_LOCATION)
        if not location or told.get(TABLE_TYPE, "").lower() != ICEBERG:
            return super()._convert_glue_to_iceberg(glue_table)  # says so
        return self._opened((glue_table["DatabaseName"], glue_table["Name"]), location)
