"""Write metadata files of tables with a seal and durably, also in version 3, which pyiceberg only reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO, InputFile
from pyiceberg.serializers import Compressor, ToOutputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV3
from pyiceberg.typedef import EMPTY_DICT, IcebergBaseModel, Identifier, Properties

from sinkql.connectors.iceberg.file_damage import check_json, damage_as_error, seal_json
from sinkql.connectors.iceberg.storage import sync


class _WritableV3(TableMetadataV3):
    def model_dump_json(self, **options: Any) -> str:  # type: ignore[override]  # as pyiceberg calls it
        return IcebergBaseModel.model_dump_json(self, **options)


@dataclass(frozen=True, slots=True)
class _Sealed:
    """Metadata in pyiceberg's form with a seal."""

    metadata: TableMetadata
    path: str

    def model_dump_json(self, **options: Any) -> str:
        return seal_json(self.metadata.model_dump_json(**options), self.path)


def read_metadata(file: InputFile) -> TableMetadata:
    """Read a metadata file; raises SQ3530 if it is torn, changed, or belongs to another table."""
    with damage_as_error(file.location):
        with file.open() as stream, Compressor.get_compressor(file.location).stream_decompressor(stream) as opened:
            data = opened.read()
        check_json(data, file.location)
        return TableMetadataUtil.parse_raw(data.decode())


class MetadataFiles:
    """A base of catalogs whose clients write the metadata files; it comes before pyiceberg's class."""

    if TYPE_CHECKING:

        def _load_file_io(self, properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO: ...

    def _open_table(self, name: Identifier, location: str) -> Table:
        """Return the table of the metadata file at a location."""
        metadata = read_metadata(self._load_file_io(location=location).new_input(location))
        io = self._load_file_io(metadata.properties, location)
        return Table(name, metadata, location, io, cast("Catalog", self))

    @staticmethod
    def _write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        if isinstance(metadata, TableMetadataV3):
            defaults = {"next_row_id": 0} if metadata.next_row_id is None else {}
            metadata = _WritableV3.model_construct(**(dict(metadata) | defaults))
        sealed = cast("TableMetadata", _Sealed(metadata, metadata_path))
        ToOutputFile.table_metadata(sealed, io.new_output(metadata_path))
        sync([metadata_path])
