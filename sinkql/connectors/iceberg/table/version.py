"""Metadata files of tables: durable before a catalog names them; also of version 3, which pyiceberg only reads."""

from __future__ import annotations

from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.typedef import IcebergBaseModel

from sinkql.connectors.iceberg.storage.local import settle


class _Written(TableMetadataV3):
    def model_dump_json(self, **options: Any) -> str:  # type: ignore[override]  # as pyiceberg calls it
        return IcebergBaseModel.model_dump_json(self, **options)


class WritingVersion3:
    """Mix into a catalog that writes the metadata files of its tables itself; comes before pyiceberg's class."""

    @staticmethod
    def _write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        if isinstance(metadata, TableMetadataV3):
            known = {"next_row_id": 0} if metadata.next_row_id is None else {}
            metadata = _Written.model_construct(**(dict(metadata) | known))
        ToOutputFile.table_metadata(metadata, io.new_output(metadata_path))
        settle([metadata_path])
