"""Read and write manifests and manifest lists of format version 3, for which pyiceberg has no complete support.

Version 3 gives each row an id. A snapshot takes ids from the table's next row id. Its list gives a first id to each
data manifest that has none. A file's first id is counted from its manifest's, unless its entry has one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from types import MappingProxyType, TracebackType
from typing import Any, Literal, cast

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.file import (
    _SCHEMA_KEY,
    MAGIC,
    META_SCHEMA,
    SYNC_SIZE,
    AvroFile,
    AvroFileHeader,
    AvroOutputFile,
)
from pyiceberg.avro.reader import Reader
from pyiceberg.avro.resolver import construct_writer, resolve_reader, resolve_writer
from pyiceberg.avro.writer import Writer
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
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import TableVersion
from pyiceberg.types import StructType
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from sinkql.connectors.iceberg.file_damage import SEAL, UNSEALED, SealedOutput, check_avro, damage_as_error
from sinkql.machine import randomness

VECTORS = 3
"""The format version from which on tables have deletion vectors and row ids."""
_LIST_FIRST_ROW = 15
_FIRST_ROW, _REFERENCED, _OFFSET, _LENGTH = 16, 17, 18, 19
"""The positions of version 3's fields in records."""
_BLOCK = 64
"""Entries in a block."""
_SCHEMAS = 64
"""Avro schemas of which the readers are kept; tables of the same partitions have the same ones."""
_CODEC: Literal["deflate"] = "deflate"
_MAGIC = b"Obj\x01"


@dataclass(frozen=True, slots=True)
class Vector:
    """The place of a deletion vector in its file, and the path of the data file whose dead rows it holds."""

    file: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Origin:
    """Values that rows of a data file inherit: the id of the first row, and the number of the commit."""

    first_row: int | None
    sequence: int | None


def manifests_of(table: Table, snapshot: Snapshot | None) -> list[ManifestFile]:
    """Return the manifests of a snapshot, with first row ids from its list; raise SQ3530 if it is damaged."""
    if snapshot is None:
        return []
    with damage_as_error(snapshot.manifest_list):
        return list(_open(table.io, snapshot.manifest_list, _list_reader))


def list_header(table: Table, snapshot: Snapshot) -> dict[str, str]:
    """Return the header of a snapshot's manifest list, whose manifests are not read; raise SQ3530 if it is damaged."""
    with damage_as_error(snapshot.manifest_list):
        return _read_header(_read_sealed(table.io, snapshot.manifest_list))


def entries_of(io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
    """Return the live entries of a manifest, with first row ids of data files."""
    return numbered(said_of(io, manifest), first_row_of(manifest))


def said_of(io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
    """Return the live entries of a manifest without the first row ids that a list gives.

    In an upgraded table, the lists of two branches may give it different first row ids.
    """
    return [entry for entry in all_said_of(io, manifest) if entry.status != ManifestEntryStatus.DELETED]


def all_said_of(io: FileIO, manifest: ManifestFile) -> list[ManifestEntry]:
    """Return all entries of a manifest, including deleted ones; raise SQ3530 if it is damaged."""
    with damage_as_error(manifest.manifest_path):
        reader = _open(io, manifest.manifest_path, _entry_reader)
        entries = [_inherit_from_manifest(entry, manifest) for entry in reader]
        counts = manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count
        if None not in counts and sum(count or 0 for count in counts) != len(entries):
            raise ValueError(f"{len(entries)} entries, expected {sum(count or 0 for count in counts)}")
    return entries


@lru_cache(_SCHEMAS)
def _list_reader(schema: str) -> Reader:
    """Return the reader of the records of manifest lists with this Avro schema."""
    types = {-1: ManifestFile, 508: PartitionFieldSummary}
    return _resolve(schema, MANIFEST_LIST_FILE_SCHEMAS[3], types, {517: ManifestContent})


@lru_cache(_SCHEMAS)
def _entry_reader(schema: str) -> Reader:
    """Return the reader of the entries of manifests with this Avro schema."""
    types, enums = {-1: ManifestEntry, 2: DataFile}, {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent}
    return _resolve(schema, MANIFEST_ENTRY_SCHEMAS[3], types, enums)


def _resolve(written: str, schema: Schema, types: dict[int, Any], enums: dict[int, Any]) -> Reader:
    return resolve_reader(AvroSchemaConversion().avro_to_iceberg(json.loads(written)), schema, types, enums)


class _Records(AvroFile[Any]):
    """The records of a file. `reader_of` returns the reader for an Avro schema, which pyiceberg resolves for each file.

    To resolve one takes longer than to read most files.
    """

    __slots__ = ("_reader_of",)

    def __init__(self, data: bytes, reader_of: Callable[[str], Reader]) -> None:
        super().__init__(cast("InputFile", _InputBytes(data)))
        self._reader_of = reader_of

    def __enter__(self) -> _Records:
        with self.input_file.open() as stream:
            self.decoder = new_decoder(stream.read())
        self.header = self._read_header()
        self.reader = self._reader_of(self.header.meta[_SCHEMA_KEY])
        return self


def _open(io: FileIO, path: str, reader_of: Callable[[str], Reader]) -> _Records:
    """Read a file and check that it is complete; pyiceberg does not notice a truncated file."""
    data = _read_sealed(io, path)
    reader = _Records(data, reader_of)
    reader.__enter__()
    _check_blocks(data, reader.decoder.tell(), reader.header.sync)
    return reader


def _read_sealed(io: FileIO, path: str) -> bytes:
    """Return the bytes of a file; raise ValueError if it has a wrong seal."""
    with io.new_input(path).open() as stream:
        data = stream.read()
    check_avro(data, path)
    return data


class _InputBytes:
    """The bytes of a file, with the interface of pyiceberg's input files."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def open(self) -> BytesIO:
        return BytesIO(self._data)


def _check_blocks(data: bytes, position: int, sync: bytes) -> None:
    """Raise ValueError if the blocks of an Avro file do not reach to its end."""
    while position < len(data):
        _, position = _read_number(data, position)
        size, position = _read_number(data, position)
        end = position + size
        if size < 0 or data[end : end + len(sync)] != sync:
            raise ValueError(
                f"it is truncated or changed near byte {min(max(position, end), len(data))} of {len(data)}"
            )
        position = end + len(sync)


def _read_header(data: bytes) -> dict[str, str]:
    """Return the entries of an Avro file's header: blocks of keys and values, of which the last one is empty."""
    if not data.startswith(_MAGIC):
        raise ValueError("it is not an Avro file")
    header: dict[str, str] = {}
    count, position = _read_number(data, len(_MAGIC))
    while count:
        if count < 0:  # the size of the block follows
            _, position = _read_number(data, position)
        for _ in range(abs(count)):
            key, position = _read_text(data, position)
            header[key], position = _read_text(data, position)
        count, position = _read_number(data, position)
    return header


def _read_text(data: bytes, position: int) -> tuple[str, int]:
    size, position = _read_number(data, position)
    return data[position : position + size].decode(), position + size


def _read_number(data: bytes, position: int) -> tuple[int, int]:
    """Return the Avro number at a position, and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        if shift > 63:
            raise ValueError(f"a number at byte {position} is too long")


def first_row_of(manifest: ManifestFile) -> int | None:
    """Return the first row id that a list gives a manifest."""
    first: int | None = manifest[_LIST_FIRST_ROW] if len(manifest) > _LIST_FIRST_ROW else None
    return first


def numbered(entries: Sequence[ManifestEntry], first: int | None) -> list[ManifestEntry]:
    """Return a manifest's entries; an entry without a first row id gets the next one, counted from `first`."""
    if first is None:
        return list(entries)
    numbered_entries = []
    for entry in entries:
        file = entry.data_file
        if file.content == DataFileContent.DATA and file[_FIRST_ROW] is None:
            values = [file[place] for place in range(len(file))]
            values[_FIRST_ROW] = first
            first += file.record_count
            copied = DataFile(*values)
            copied.spec_id = file.spec_id
            file = copied
        numbered_entries.append(
            ManifestEntry(entry.status, entry.snapshot_id, entry.sequence_number, entry.file_sequence_number, file)
        )
    return numbered_entries


def vector_of(file: DataFile) -> Vector | None:
    """Return the deletion vector of an entry; None for an entry of another kind."""
    if file.file_format != FileFormat.PUFFIN or len(file) <= _LENGTH:
        return None
    return Vector(file[_REFERENCED], file[_OFFSET], file[_LENGTH])


def name_of(file: DataFile) -> str:
    """Return the name that identifies an entry's content in its table.

    The name is the path; for a deletion vector, also its place in the file. A file has several deletion vectors, and a
    table may have only some of them.
    """
    vector = vector_of(file)
    return file.file_path if vector is None else vector_name(file.file_path, vector)


def vector_name(path: str, vector: Vector) -> str:
    """Return the name of a deletion vector in a file."""
    return f"{path}#{vector.offset}+{vector.length}"


def vector_place(name: str) -> tuple[str, int, int] | None:
    """Return path, offset and length of a deletion vector by its name; None for a delete file's name."""
    path, _, place = name.rpartition("#")
    offset, _, length = place.partition("+")
    return (path, int(offset), int(length)) if path and offset.isdecimal() and length.isdecimal() else None


def origins(table: Table, paths: Collection[str]) -> dict[str, Origin]:
    """Return the values that the rows of these data files inherit, by path."""
    origins_by_path: dict[str, Origin] = {}
    for manifest in manifests_of(table, table.current_snapshot()):
        if manifest.content != ManifestContent.DATA or len(origins_by_path) == len(paths):
            continue
        for entry in entries_of(table.io, manifest):
            if entry.data_file.file_path in paths:
                origins_by_path[entry.data_file.file_path] = Origin(entry.data_file[_FIRST_ROW], entry.sequence_number)
    return origins_by_path


@dataclass(frozen=True, slots=True)
class _Encoding:
    """How the records of a file are written, and its Avro schema."""

    writer: Writer
    schema: str


@lru_cache(_SCHEMAS)
def _entry_encoding(partition: StructType, version: TableVersion) -> _Encoding:
    """Return the encoding of entries, whose records have version 3's fields for both versions."""
    file = _entry_schema(partition, version)
    return _Encoding(resolve_writer(_entry_schema(partition, 3), file), _avro(file, "manifest_entry"))


def _entry_schema(partition: StructType, version: TableVersion) -> Schema:
    return manifest_entry_schema_with_data_file(version, data_file_with_partition(partition, version))


@lru_cache(_SCHEMAS)
def _list_encoding(version: TableVersion) -> _Encoding:
    """Return the encoding of the records of a list."""
    schema = MANIFEST_LIST_FILE_SCHEMAS[version]
    return _Encoding(construct_writer(schema), _avro(schema, "manifest_file"))


def _avro(schema: Schema, name: str) -> str:
    return json.dumps(AvroSchemaConversion().iceberg_to_avro(schema, schema_name=name))


class _Output(AvroOutputFile[Any]):
    """An Avro file of an encoding, which pyiceberg derives from schemas for each file."""

    def __init__(self, output: OutputFile, encoding: _Encoding, metadata: dict[str, str]) -> None:
        self.output_file, self.metadata = output, metadata
        self.writer, self._avro_schema = encoding.writer, encoding.schema
        self.sync_bytes = randomness.new_bytes(SYNC_SIZE)

    def _write_header(self) -> None:
        meta = {**self.metadata, _SCHEMA_KEY: self._avro_schema}
        construct_writer(META_SCHEMA).write(self.encoder, AvroFileHeader(MAGIC, meta, self.sync_bytes))


class _Blocks(_Output):
    """An Avro writer of large blocks, which compress better."""

    _waiting: list[ManifestEntry]

    def __enter__(self) -> _Blocks:
        self._waiting = []
        super().__enter__()
        return self

    def write_block(self, objects: list[ManifestEntry]) -> None:
        """Add entries to the current block."""
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
    """A writer of a manifest of version 2 or 3; unlike pyiceberg's, it also writes manifests of `deletes`."""

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
        """Return the content of the manifest's files."""
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
        """Return a writer of entries."""
        encoding = _entry_encoding(self._spec.partition_type(self._schema), self.version)
        return _Blocks(self._output_file, encoding, self._meta)


class _ListWriter(ManifestListWriterV2):
    def __enter__(self) -> _ListWriter:
        self._writer = _Output(self._output_file, _list_encoding(self._format_version), self._meta)
        self._writer.__enter__()
        return self


class _ListWriterV3(_ListWriter):
    def __init__(self, output: OutputFile, snapshot: int, parent: int | None, sequence: int, first_row: int) -> None:
        super().__init__(output, snapshot, parent, sequence, _CODEC)
        self._format_version = 3
        self._meta |= {"format-version": "3", "first-row-id": str(first_row)}


def write_list(
    output: OutputFile,
    manifests: Sequence[ManifestFile],
    *,
    snapshot: int,
    parent: int | None,
    sequence: int,
    first_row: int | None,
    header: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write a manifest list; with a first row id, a version 3 list of the manifests from `number_manifests`.

    `header` is added to the entries of the file's header.
    """
    sealed = SealedOutput(output)
    if first_row is None:
        kind = _ListWriter(sealed, snapshot, parent, sequence, _CODEC)
    else:
        kind = _ListWriterV3(sealed, snapshot, parent, sequence, first_row)
    kind._meta |= {SEAL: UNSEALED, **header}  # the seal first, as a value of another entry may contain its name
    with kind as writer:
        writer.add_manifests(list(manifests))


def number_manifests(manifests: Iterable[ManifestFile], first_row: int) -> tuple[list[ManifestFile], int]:
    """Assign first row ids to data manifests without one; return all manifests and the count of ids used."""
    numbered_manifests: list[ManifestFile] = []
    following = first_row
    for manifest in manifests:
        values: list[Any] = [manifest[place] for place in range(_LIST_FIRST_ROW)]
        first = first_row_of(manifest)
        if manifest.content == ManifestContent.DATA and first is None:
            first = following
            following += (manifest.added_rows_count or 0) + (manifest.existing_rows_count or 0)
        numbered_manifests.append(ManifestFile(*values, first))
    return numbered_manifests, following - first_row


def pieces() -> dict[str, bool]:
    """Return the private parts of pyiceberg that this module uses, with whether each exists."""
    names = [field.name for field in DATA_FILE_TYPE[3].fields]
    lists = [field.name for field in MANIFEST_LIST_FILE_SCHEMAS[3].fields]
    return {
        "ManifestWriterV2._meta": isinstance(getattr(ManifestWriterV2, "_meta", None), property),
        "ManifestWriterV2.existing": callable(getattr(ManifestWriterV2, "existing", None)),
        "AvroOutputFile._write_header": callable(getattr(AvroOutputFile, "_write_header", None)),
        "AvroFile._read_header": callable(getattr(AvroFile, "_read_header", None)),
        "DataFile.spec_id": isinstance(getattr(DataFile, "spec_id", None), property),
        "DATA_FILE_TYPE[3]": names[_FIRST_ROW:]
        == ["first_row_id", "referenced_data_file", "content_offset", "content_size_in_bytes"],
        "MANIFEST_LIST_FILE_SCHEMAS[3]": lists[_LIST_FIRST_ROW:] == ["first_row_id"],
    }
