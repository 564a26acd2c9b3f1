"""Read and write dead rows as position-delete files or deletion vectors, and list a table's current files.

A data file has at most one deletion vector, with all its dead rows. A vector is a 64-bit Roaring bitmap in portable
form, between its length and magic number in front and a checksum behind. A Puffin file has several vectors and a footer
that lists them.
"""

from __future__ import annotations

import json
import zlib
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO, OutputFile
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent
from pyiceberg.table import Table
from pyroaring import BitMap64

from sinkql.connectors.iceberg.file.data_file import FileEntry, TaskTable
from sinkql.connectors.iceberg.file.manifest import Vector, entries_of, manifests_of, name_of, vector_of, vector_place
from sinkql.connectors.iceberg.file.partition import PartitionValue
from sinkql.connectors.iceberg.file_damage import check_parquet, damage_as_error, damaged_file_error, seal_parquet
from sinkql.connectors.iceberg.storage import storage_errors
from sinkql.errors import SinkqlError
from sinkql.keywords import qualified_name


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """The files of a table's current snapshot: data files by path, delete files and deletion vectors by name."""

    data: Mapping[str, DataFile]
    deletes: Mapping[str, DataFile]


def live_files(table: Table) -> LiveFiles:
    """List the data files, position-delete files and deletion vectors of the current snapshot.

    Raises SQ3506 for equality deletes, SQ3554 for a format other than Parquet.
    """
    data: dict[str, DataFile] = {}
    deletes: dict[str, DataFile] = {}
    for manifest in manifests_of(table, table.current_snapshot()):
        files = data if manifest.content == ManifestContent.DATA else deletes
        for entry in entries_of(table.io, manifest):
            _check(table, entry.data_file)
            files[name_of(entry.data_file)] = entry.data_file
    return LiveFiles(data, deletes)


def all_files(table: Table) -> frozenset[str]:
    """Return the names of the data and delete files of the current snapshot, of any format."""
    manifests = (entries_of(table.io, manifest) for manifest in manifests_of(table, table.current_snapshot()))
    return frozenset(name_of(entry.data_file) for entries in manifests for entry in entries)


def _check(table: Table, file: DataFile) -> None:
    name = qualified_name(*table.name())
    if file.content == DataFileContent.EQUALITY_DELETES:
        raise SinkqlError(
            "SQ3506",
            f'table "{name}" has equality deletes, which an upsert sink cannot apply',
            detail=f"{file.file_path} was written by another program.",
            hint="Rewrite the data files with the program that wrote them, or create the sink with a new table.",
        )
    if file.file_format != FileFormat.PARQUET and vector_of(file) is None:
        raise SinkqlError(
            "SQ3554",
            f'table "{name}" has a file in format {file.file_format}, expected PARQUET',
            detail=file.file_path,
            hint="Rewrite the file as Parquet, or create the sink with a new table.",
        )


def read_dead(io: FileIO, name: str, file: DataFile) -> dict[str, Positions]:
    """Return the dead positions of each data file that a delete file or deletion vector names."""
    vector = vector_of(file)
    if vector is None:
        dead = read_position_deletes(io, [file.file_path])
        if sum(map(len, dead.values())) > file.record_count:
            raise damaged_file_error(file.file_path, f"more rows than the {file.record_count} expected")
        return dead
    return {vector.file: read_vector(io, name)}


def read_dead_of(io: FileIO, name: str, path: str) -> Positions:
    """Return the dead positions of one data file in the delete file or vector of that name."""
    if vector_place(name) is not None:
        return read_vector(io, name)
    return read_position_deletes(io, [name]).get(path, np.empty(0, np.int64))


def read_position_deletes(io: FileIO, paths: Iterable[str]) -> dict[str, Positions]:
    """Return the dead positions of each data file that the delete files name, sorted and distinct."""
    dead: dict[str, list[Positions]] = defaultdict(list)
    for path in paths:
        with damage_as_error(path):
            with io.new_input(path).open() as stream:
                data = stream.read()
            check_parquet(data, path)
            rows = pq.ParquetFile(pa.BufferReader(data), read_dictionary=["file_path"]).read(["file_path", "pos"])
        rows = rows.unify_dictionaries().combine_chunks()
        for column, pos in zip(rows.column(0).chunks, rows.column(1).chunks, strict=True):
            codes, positions = column.indices.to_numpy(), pos.to_numpy()
            order = np.argsort(codes, kind="stable")
            cuts = np.flatnonzero(np.diff(codes[order])) + 1
            for group in np.split(order, cuts):
                if len(group):
                    dead[column.dictionary[int(codes[group[0]])].as_py()].append(positions[group])
    return {path: np.unique(np.concatenate(parts)) for path, parts in dead.items()}


def write_position_deletes(
    table: TaskTable, name: str, dead: Mapping[str, Positions], place: PartitionValue
) -> FileEntry:
    """Write one delete file with sorted positions of data files of one partition.

    Readers disagree about a delete file in a partition other than its data file's.

    The bounds hold the complete paths, because readers find a data file's deletes by them. The file has no Arrow
    schema, because some readers refuse its dictionary type.
    """
    paths = sorted(dead)
    codes = np.repeat(np.arange(len(paths), dtype=np.int32), [len(dead[path]) for path in paths])
    positions = np.concatenate([dead[path] for path in paths]).astype(np.int64)
    column = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(paths, pa.string()))
    fields = [_field("file_path", column.type, PATH), _field("pos", pa.int64(), POS)]
    rows = pa.Table.from_arrays([column, pa.array(positions)], schema=pa.schema(fields))
    path = table.path(name)
    with storage_errors(table.name):
        size = _write(table.io().new_output(path), path, rows)
    return FileEntry(
        content="deletes",
        path=path,
        rows=len(positions),
        size=size,
        place=place,
        value_counts={PATH: len(positions), POS: len(positions)},
        null_value_counts={PATH: 0, POS: 0},
        lower_bounds={PATH: paths[0].encode(), POS: _long(positions.min())},
        upper_bounds={PATH: paths[-1].encode(), POS: _long(positions.max())},
    )


def _write(output: OutputFile, path: str, rows: pa.Table) -> int:
    """Write the rows, and return the file's size in bytes."""
    waiting = pa.BufferOutputStream()
    with pq.ParquetWriter(
        waiting,
        rows.schema,
        compression="zstd",
        compression_level=1,
        store_schema=False,
        use_dictionary=["file_path"],
        column_encoding={"pos": "DELTA_BINARY_PACKED"},
    ) as writer:
        writer.write_table(rows)
    data = seal_parquet(waiting.getvalue().to_pybytes(), path)
    with output.create(overwrite=True) as stream:
        stream.write(data)
    return len(data)


def _field(name: str, type_: pa.DataType, id_: int) -> pa.Field:
    return pa.field(name, type_, nullable=False, metadata={"PARQUET:field_id": str(id_)})


def _long(value: np.int64) -> bytes:
    return int(value).to_bytes(8, "little", signed=True)


Positions = npt.NDArray[np.int64]

PATH, POS = 2147483546, 2147483545
_PUFFIN = b"PFA1"
_MAGIC = bytes.fromhex("d1d33964")


def write_vectors(
    table: TaskTable, name: str, dead: Mapping[str, Positions], places: Mapping[str, PartitionValue]
) -> tuple[FileEntry, ...]:
    """Write one Puffin file with a vector for each data file, and return the entries of the vectors.

    `name` has no suffix. The file has the folder and the suffix of statistics files, because some stores accept no
    other Puffin files in a table's folder. `dead` holds all dead positions of each file, because its vector
    replaces an older one.
    """
    data = bytearray(_PUFFIN)
    blobs, vectors = [], {}
    for path in sorted(dead):
        blob = _blob(dead[path])
        vectors[path] = Vector(path, len(data), len(blob))
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [POS],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(data),
                "length": len(blob),
                "properties": {"referenced-data-file": path, "cardinality": str(len(dead[path]))},
            }
        )
        data += blob
    footer = json.dumps({"blobs": blobs, "properties": {"created-by": "SinkQL"}}).encode()
    data += _PUFFIN + footer + len(footer).to_bytes(4, "little") + bytes(4) + _PUFFIN
    location = table.metadata_path(f"{name}.stats")
    with storage_errors(table.name), table.io().new_output(location).create(overwrite=True) as stream:
        stream.write(bytes(data))
    return tuple(
        FileEntry(
            content="deletes",
            path=location,
            rows=len(dead[path]),
            size=len(data),
            place=places[path],
            lower_bounds={PATH: path.encode()},
            upper_bounds={PATH: path.encode()},
            vector=vector,
        )
        for path, vector in vectors.items()
    )


def read_vector(io: FileIO, name: str) -> Positions:
    """Return the dead positions in the deletion vector of that name, sorted; raise SQ3555 if it is damaged."""
    place = vector_place(name)
    if place is None:
        raise ValueError(f'"{name}" is not the name of a deletion vector')
    path, offset, length = place
    with io.new_input(path).open() as stream:
        stream.seek(offset)
        blob = stream.read(length)
    length_bytes, body, checksum = blob[:4], blob[4:-4], blob[-4:]
    if int.from_bytes(length_bytes) != len(body) or body[:4] != _MAGIC or int.from_bytes(checksum) != zlib.crc32(body):
        raise SinkqlError(
            "SQ3555",
            f'deletion vector "{name}" is damaged',
            detail=f"{len(blob)} bytes were read",
            hint="Restore the file from a backup, or drop the table and create the sink again.",
        )
    with damage_as_error(path):
        return np.asarray(BitMap64.deserialize(body[4:]).to_array()).astype(np.int64)


def unite(*parts: Positions) -> Positions:
    """Return all positions, sorted and distinct."""
    positions: Positions = np.unique(np.concatenate(parts))
    return positions


def _blob(positions: Positions) -> bytes:
    body = _MAGIC + BitMap64(array("Q", positions.astype(np.uint64).tobytes())).serialize()
    return len(body).to_bytes(4) + body + zlib.crc32(body).to_bytes(4)
