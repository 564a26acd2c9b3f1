"""Manifests and their lists, read and written with all that format version 3 has; pyiceberg knows those of version 2.

Version 3 gives each row an id. A snapshot takes the ids from the table's next one on; its list gives each data manifest
that has none a first id, and a file's first id is counted from its manifest's, unless its entry says it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from types import TracebackType
from typing import Any, Literal, cast

from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestListWriterV2,
    ManifestWriterV2,
    PartitionFieldSummary,
    _inherit_from_manifest,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import TableVersion

from sinkql.connectors.iceberg.file_damage import SEAL, UNSEALED, SealedOutput, check_avro, damage_as_error

VECTORS = 3
"""The format version from which on dead rows are told by deletion vectors, and rows have ids."""
_LIST_FIRST_ROW = 15
_FIRST_ROW, _REFERENCED, _OFFSET, _LENGTH = 16, 17, 18, 19
"""Where records have what version 3 adds to them."""
_BLOCK = 64
"""Entries of a block."""
_CODEC: Literal["deflate"] = "deflate"


@dataclass(frozen=True, slots=True)
class Vector:
    """Where a deletion vector lies in its file, and the path of the data file whose dead rows it has."""

    file: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Origin:
    """What rows of a data file are where they do not say it: the first one's id, and the commit that wrote them."""

    first_row: int | None
    sequence: int | None


def manifests_of(table: Table, snapshot: Snapshot | None) -> list[ManifestFile]:
    """Return the manifests of a snapshot, with the first row ids that its list gives them; SQ3530 if it is damaged."""
    if snapshot is None:
        return []
    with damage_as_error(snapshot.manifest_list):
        reader = _opened(
            table.io,
            snapshot.manifest_list,
            MANIFEST_LIST_FILE_SCHEMAS[3],
            {-1: ManifestFile, 508: PartitionFieldSummary},
            {517: ManifestContent},
        )
        return list(reader)


def entries_of(io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
    """Return the entries of a manifest that are in the table, data files with their first row ids."""
    return numbered(said_of(io, manifest), first_row_of(manifest))


def said_of(io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
    """Return the entries of a manifest that are in the table as it says them itself, whatever list names it.

    In an upgraded table the lists of two branches may give it different first row ids.
    """
    return [each for each in all_said_of(io, manifest) if each.status != ManifestEntryStatus.DELETED]


def all_said_of(io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
    """Return the entries of a manifest, also of files that left the table with it; raises SQ3530 if it is damaged."""
    with damage_as_error(manifest.manifest_path):
        reader = _opened(
            io,
            manifest.manifest_path,
            MANIFEST_ENTRY_SCHEMAS[3],
            {-1: ManifestEntry, 2: DataFile},
            {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
        )
        entries = [_inherit_from_manifest(entry, manifest) for entry in reader]
        counts = manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count
        if None not in counts and sum(each or 0 for each in counts) != len(entries):
            raise ValueError(f"{len(entries)} entries, expected {sum(each or 0 for each in counts)}")
    return entries


def _opened(
    io: FileIO, path: str, schema: Schema, types: dict[int, Callable[..., Any]], enums: dict[int, Callable[..., Any]]
) -> AvroFile[Any]:
    """Read a file and check that it is whole; pyiceberg takes one that was cut off for one that ends there."""
    with io.new_input(path).open() as stream:
        data = stream.read()
    check_avro(data, path)
    reader = AvroFile[Any](cast("InputFile", _Read(data)), schema, read_types=types, read_enums=enums)
    reader.__enter__()
    _check_blocks(data, reader.decoder.tell(), reader.header.sync)
    return reader


class _Read:
    """The bytes of a file, as pyiceberg opens one."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def open(self) -> BytesIO:
        return BytesIO(self._data)


def _check_blocks(data: bytes, at: int, sync: bytes) -> None:
    """Raise ValueError where blocks of an Avro file do not follow each other up to its end."""
    while at < len(data):
        _, at = _number(data, at)
        size, at = _number(data, at)
        end = at + size
        if size < 0 or data[end : end + len(sync)] != sync:
            raise ValueError(f"it ends, or is changed, near byte {min(max(at, end), len(data))} of {len(data)}")
        at = end + len(sync)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of Avro's at a place, and the place after it."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        if shift > 63:
            raise ValueError(f"a number at byte {at} has no end")


def first_row_of(manifest: ManifestFile) -> int | None:
    """Return the first row id that a list gives a manifest."""
    first: int | None = manifest[_LIST_FIRST_ROW] if len(manifest) > _LIST_FIRST_ROW else None
    return first


def numbered(entries: Sequence[ManifestEntry], first: int | None) -> list[ManifestEntry]:
    """Return a manifest's entries, those that do not say a first row id with the one that follows from `first`."""
    if first is None:
        return list(entries)
    found = []
    for entry in entries:
        file = entry.data_file
        if file.content == DataFileContent.DATA and file[_FIRST_ROW] is None:
            values = [file[place] for place in range(len(file))]
            values[_FIRST_ROW] = first
            first += file.record_count
            copied = DataFile(*values)
            copied.spec_id = file.spec_id
            file = copied
        found.append(
            ManifestEntry(entry.status, entry.snapshot_id, entry.sequence_number, entry.file_sequence_number, file)
        )
    return found


def vector_of(file: DataFile) -> Vector | None:
    """Return where the deletion vector of an entry is; None for an entry of another kind."""
    if file.file_format != FileFormat.PUFFIN or len(file) <= _LENGTH:
        return None
    return Vector(file[_REFERENCED], file[_OFFSET], file[_LENGTH])


def name_of(file: DataFile) -> str:
    """Return what tells an entry's content from all others of the table: the path, and of a deletion vector its place.

    Several deletion vectors lie in one file, and each of them is in the table or not.
    """
    vector = vector_of(file)
    return file.file_path if vector is None else vector_name(file.file_path, vector)


def vector_name(path: str, vector: Vector) -> str:
    """Return the name of a deletion vector in a file."""
    return f"{path}#{vector.offset}+{vector.length}"


def vector_place(name: str) -> tuple[str, int, int] | None:
    """Return path, offset and length of a deletion vector by its name; None for the name of a delete file."""
    path, _, place = name.rpartition("#")
    offset, _, length = place.partition("+")
    return (path, int(offset), int(length)) if path and offset.isdecimal() and length.isdecimal() else None


def origins(table: Table, paths: Collection[str]) -> dict[str, Origin]:
    """Return what data files of the table that have these paths say of all their rows."""
    found: dict[str, Origin] = {}
    for manifest in manifests_of(table, table.current_snapshot()):
        if manifest.content != ManifestContent.DATA or len(found) == len(paths):
            continue
        for entry in entries_of(table.io, manifest):
            if entry.data_file.file_path in paths:
                found[entry.data_file.file_path] = Origin(entry.data_file[_FIRST_ROW], entry.sequence_number)
    return found


class _Blocks(AvroOutputFile[ManifestEntry]):
    """Write entries in blocks of many, whose compression gains from what they have in common."""

    _waiting: list[ManifestEntry]

    def __enter__(self) -> _Blocks:
        self._waiting = []
        super().__enter__()
        return self

    def write_block(self, objects: list[ManifestEntry]) -> None:
        """Add entries to the block."""
        self._waiting += objects
        if len(self._waiting) >= _BLOCK:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            super().write_block(self._waiting)
            self._waiting = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._flush()
        super().__exit__(kind, error, trace)


class ManifestWriter(ManifestWriterV2):
    """Write a manifest of data files or of `deletes`, for which pyiceberg has no writer, of version 2 or 3."""

    def __init__(
        self,
        spec: PartitionSpec,
        schema: Schema,
        output: OutputFile,
        snapshot: int,
        *,
        version: TableVersion,
        deletes: bool,
    ) -> None:
        super().__init__(spec, schema, SealedOutput(output), snapshot, _CODEC)
        self._format, self._deletes = version, deletes

    @property
    def version(self) -> TableVersion:
        """Return the format version of the manifest."""
        return self._format

    def content(self) -> ManifestContent:
        """Return what the files are."""
        return ManifestContent.DELETES if self._deletes else ManifestContent.DATA

    @property
    def _meta(self) -> dict[str, str]:
        return {
            **super()._meta,
            "schema-id": str(self._schema.schema_id),
            "content": "deletes" if self._deletes else "data",
            SEAL: UNSEALED,
        }

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        """Return a writer of entries, which have the fields of version 3 whatever is written."""
        return _Blocks(
            output_file=self._output_file,
            file_schema=self._with_partition(self.version),
            record_schema=self._with_partition(3),
            schema_name="manifest_entry",
            metadata=self._meta,
        )


class _ListWriterV3(ManifestListWriterV2):
    def __init__(self, output: OutputFile, snapshot: int, parent: int | None, sequence: int, first_row: int) -> None:
        super().__init__(output, snapshot, parent, sequence, _CODEC)
        self._format_version = 3
        self._meta |= {"format-version": "3", "first-row-id": str(first_row)}

    def __enter__(self) -> _ListWriterV3:
        schema = MANIFEST_LIST_FILE_SCHEMAS[3]
        self._writer = AvroOutputFile[ManifestFile](
            output_file=self._output_file,
            record_schema=schema,
            file_schema=schema,
            schema_name="manifest_file",
            metadata=self._meta,
        )
        self._writer.__enter__()
        return self


def write_list(
    output: OutputFile,
    manifests: Sequence[ManifestFile],
    *,
    snapshot: int,
    parent: int | None,
    sequence: int,
    first_row: int | None,
) -> None:
    """Write a manifest list: with a first row id one of version 3, of manifests that `number_manifests` returned."""
    sealed = SealedOutput(output)
    if first_row is None:
        kind = ManifestListWriterV2(sealed, snapshot, parent, sequence, _CODEC)
    else:
        kind = _ListWriterV3(sealed, snapshot, parent, sequence, first_row)
    kind._meta |= {SEAL: UNSEALED}
    with kind as writer:
        writer.add_manifests(list(manifests))


def number_manifests(manifests: Iterable[ManifestFile], first_row: int) -> tuple[list[ManifestFile], int]:
    """Give each data manifest that has none its first row id; return them all, and how many ids are taken."""
    found: list[ManifestFile] = []
    following = first_row
    for each in manifests:
        values: list[Any] = [each[place] for place in range(_LIST_FIRST_ROW)]
        first = first_row_of(each)
        if each.content == ManifestContent.DATA and first is None:
            first = following
            following += (each.added_rows_count or 0) + (each.existing_rows_count or 0)
        found.append(ManifestFile(*values, first))
    return found, following - first_row


def pieces() -> dict[str, bool]:
    """Return which private pieces of pyiceberg that this module builds on are there."""
    names = [field.name for field in DATA_FILE_TYPE[3].fields]
    lists = [field.name for field in MANIFEST_LIST_FILE_SCHEMAS[3].fields]
    return {
        "ManifestWriterV2._meta": isinstance(getattr(ManifestWriterV2, "_meta", None), property),
        "ManifestWriterV2.existing": callable(getattr(ManifestWriterV2, "existing", None)),
        "ManifestWriterV2._with_partition": callable(getattr(ManifestWriterV2, "_with_partition", None)),
        "DataFile.spec_id": isinstance(getattr(DataFile, "spec_id", None), property),
        "DATA_FILE_TYPE[3]": names[_FIRST_ROW:]
        == ["first_row_id", "referenced_data_file", "content_offset", "content_size_in_bytes"],
        "MANIFEST_LIST_FILE_SCHEMAS[3]": lists[_LIST_FIRST_ROW:] == ["first_row_id"],
    }
