"""Write metadata files of tables with a seal and durably, also in version 3, which pyiceberg only reads.

The JSON of a snapshot is made once: a table may have hundreds of them, and each commit writes them all again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO, InputFile
from pyiceberg.serializers import Compressor, ToOutputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV3
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import EMPTY_DICT, IcebergBaseModel, Identifier, Properties

from sinkql.connectors.iceberg.file_damage import check_json, damage_as_error, seal_json
from sinkql.connectors.iceberg.storage import sync


class _WritableV3(TableMetadataV3):
    def model_dump_json(self, **options: Any) -> str:  # type: ignore[override]  # as pyiceberg calls it
        return IcebergBaseModel.model_dump_json(self, **options)


_NO_SNAPSHOTS = '"snapshots":[]'
"""The member of metadata without snapshots. In no text of the metadata can a quote follow a letter like this."""


class SnapshotTexts:
    """The JSON of the snapshots of tables, as they were last written, by the table's UUID and the snapshot's id.

    A process writes all metadata with the same options.
    """

    def __init__(self) -> None:
        self._texts: dict[UUID, dict[int, tuple[Snapshot, str]]] = {}

    def dump(self, metadata: TableMetadata, **options: Any) -> str:
        """Return the JSON of the metadata, as pyiceberg makes it with these options."""
        texts = self._of(metadata, **options)
        rest = metadata.model_copy(update={"snapshots": []}).model_dump_json(**options)
        begin, member, end = rest.partition(_NO_SNAPSHOTS)
        if not member:
            raise ValueError("the metadata has no member for snapshots")
        return f"{begin}{member[:-1]}{','.join(texts)}]{end}"

    def _of(self, metadata: TableMetadata, **options: Any) -> list[str]:
        earlier = self._texts.get(metadata.table_uuid, {})
        texts = {}
        for snapshot in metadata.snapshots:
            written, text = earlier.get(snapshot.snapshot_id, (None, ""))
            if written is not snapshot and written != snapshot:
                text = snapshot.model_dump_json(**options)
            texts[snapshot.snapshot_id] = snapshot, text
        self._texts[metadata.table_uuid] = texts
        return [text for _, text in texts.values()]


@dataclass(frozen=True, slots=True)
class _Sealed:
    """Metadata in pyiceberg's form with a seal."""

    metadata: TableMetadata
    path: str
    texts: SnapshotTexts

    def model_dump_json(self, **options: Any) -> str:
        return seal_json(self.texts.dump(self.metadata, **options), self.path)


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

    @cached_property
    def _snapshot_texts(self) -> SnapshotTexts:
        return SnapshotTexts()

    def _write_metadata(self, metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:
        if isinstance(metadata, TableMetadataV3):
            defaults = {"next_row_id": 0} if metadata.next_row_id is None else {}
            metadata = _WritableV3.model_construct(**(dict(metadata) | defaults))
        sealed = cast("TableMetadata", _Sealed(metadata, metadata_path, self._snapshot_texts))
        ToOutputFile.table_metadata(sealed, io.new_output(metadata_path))
        sync([metadata_path])
