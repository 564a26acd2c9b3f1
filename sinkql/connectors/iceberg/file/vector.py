"""Positions of dead rows ↔ deletion vectors in Puffin files: those of a data file are in one vector, whole.

The bitmap is Roaring's for 64 bits in its portable form. Before it stand its length and a magic number, behind it a
checksum; a Puffin file has several such blobs and a footer that lists them.
"""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from pyiceberg.io import FileIO
from pyroaring import BitMap64

from sinkql.connectors.iceberg.file.data_file import FileEntry, TaskTable
from sinkql.connectors.iceberg.file.manifest import Vector, vector_place
from sinkql.connectors.iceberg.file.partition import PartitionValue
from sinkql.connectors.iceberg.file_damage import damage_as_error
from sinkql.connectors.iceberg.storage.failure import storing
from sinkql.errors import SinkqlError

Positions = npt.NDArray[np.int64]

PATH, POS = 2147483546, 2147483545
_PUFFIN = b"PFA1"
_MAGIC = bytes.fromhex("d1d33964")


def write_vectors(
    table: TaskTable, name: str, dead: Mapping[str, Positions], places: Mapping[str, PartitionValue]
) -> tuple[FileEntry, ...]:
    """Write one Puffin file with a vector for each data file's path, and return their entries; `name` has no ending.

    It lies and is called as Puffin files of statistics are: some stores take no other ones into a table's folder.
    `dead` are all dead positions of each file, those that an older vector has too: the new one takes its place.
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
    with storing(table.name), table.io().new_output(location).create(overwrite=True) as stream:
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
    """Return the dead positions in the deletion vector of that name, sorted; SQ3555 where it is damaged."""
    place = vector_place(name)
    assert place is not None, "no deletion vector"
    path, offset, length = place
    with io.new_input(path).open() as stream:
        stream.seek(offset)
        blob = stream.read(length)
    told, body, checksum = blob[:4], blob[4:-4], blob[-4:]
    if int.from_bytes(told) != len(body) or body[:4] != _MAGIC or int.from_bytes(checksum) != zlib.crc32(body):
        raise SinkqlError(
            "SQ3555",
            f'deletion vector "{name}" is damaged',
            detail=f"{len(blob)} bytes were read",
            hint="Put the file back from a copy, or drop the table and create the sink again.",
        )
    with damage_as_error(path):
        return np.asarray(BitMap64.deserialize(body[4:]).to_array()).astype(np.int64)


def united(*parts: Positions) -> Positions:
    """Return all positions in order, each once."""
    found: Positions = np.unique(np.concatenate(parts))
    return found


def _blob(positions: Positions) -> bytes:
    body = _MAGIC + BitMap64(array("Q", positions.astype(np.uint64).tobytes())).serialize()
    return len(body).to_bytes(4) + body + zlib.crc32(body).to_bytes(4)
