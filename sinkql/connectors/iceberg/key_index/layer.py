"""The changes of commits to a table's files, in layers: each layer changes the older ones.

A layer is as large as the changes of its commits. Layers are merged in tiers, as runs are. So a commit writes only its
changes, and a start reads few layers, whatever the size of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
from msgspec import structs

from sinkql.connectors.iceberg.file.partition import WHOLE, PartitionValue
from sinkql.storage.sorted_run import MergePolicy

TIERS = MergePolicy(fan=8, small=64)


class IndexLocation(msgspec.Struct, frozen=True, array_like=True):
    """The place of a file's keys: one bucket of `buckets` under `bucketing`."""

    bucket: int
    buckets: int
    bucketing: str


class FileRecord(msgspec.Struct, frozen=True, array_like=True):
    """A data file if `path` is set; otherwise changes to a data file of an older layer.

    `rows` counts all its rows, in `size` bytes. `dead` counts dead rows, and `deletes` holds the numbers of the delete
    files that name it; both are added up over layers. Without `home`, its keys are of any bucket. `place` is its
    partition, which its delete files share. If `again` is set, the record replaces older ones.
    """

    path: str
    rows: int
    dead: int = 0
    deletes: tuple[int, ...] = ()
    size: int = 0
    home: IndexLocation | None = None
    place: PartitionValue = WHOLE
    again: bool = False

    def __add__(self, newer: FileRecord) -> FileRecord:
        """Return two records of one file as one."""
        return structs.replace(self, dead=self.dead + newer.dead, deletes=self.deletes + newer.deletes)


class DeleteRecord(msgspec.Struct, frozen=True, array_like=True):
    """A delete file if `path` is set; otherwise a change of `targets`, the number of live data files it names.

    `rows` is its number of positions.
    """

    path: str
    targets: int
    rows: int = 0

    def __add__(self, newer: DeleteRecord) -> DeleteRecord:
        """Return two records of one file as one."""
        return DeleteRecord(self.path, self.targets + newer.targets, self.rows)


Record = TypeVar("Record", FileRecord, DeleteRecord)


class Layer(msgspec.Struct, frozen=True):
    """Records of data and delete files by number; None for a file that left the table."""

    files: dict[int, FileRecord | None] = {}
    deletes: dict[int, DeleteRecord | None] = {}

    @property
    def size(self) -> int:
        """Return the number of records."""
        return len(self.files) + len(self.deletes)


def file_of(layers: Iterable[Layer], number: int) -> FileRecord | None:
    """Return the record of a data file, combined over layers, newest first; None if it left the table."""
    return _combine((layer.files for layer in layers), number)


def delete_of(layers: Iterable[Layer], number: int) -> DeleteRecord | None:
    """Return the record of a delete file, combined over layers, newest first; None if it left the table."""
    return _combine((layer.deletes for layer in layers), number)


def _combine(layers: Iterable[Mapping[int, Record | None]], number: int) -> Record | None:
    combined: Record | None = None
    for layer in layers:
        if number not in layer:
            continue
        record = layer[number]
        if record is None:
            return None
        combined = record if combined is None else record + combined
        if record.path:
            break
    return combined


def merged(layers: Iterable[Layer], *, whole: bool) -> Layer:
    """Return layers, newest first, as one; with `whole` they are the lowest ones."""
    files: dict[int, FileRecord | None] = {}
    deletes: dict[int, DeleteRecord | None] = {}
    for layer in reversed(tuple(layers)):
        for number, file in layer.files.items():
            _put(files, number, file)
        for number, delete in layer.deletes.items():
            _put(deletes, number, delete)
    if whole:
        files = {number: file for number, file in files.items() if file is not None}
        deletes = {number: delete for number, delete in deletes.items() if delete is not None}
    return Layer(files, deletes)


def _put(records: dict[int, Record | None], number: int, record: Record | None) -> None:
    """Add a newer record to an older one; a file that was added and removed leaves no record."""
    older = records.get(number)
    if isinstance(record, FileRecord) and record.again and isinstance(older, FileRecord):
        records[number] = structs.replace(record, again=older.again or not older.path)
    elif record is not None:
        records[number] = record if older is None else older + record
    elif older is not None and older.path and not (isinstance(older, FileRecord) and older.again):
        del records[number]
    else:
        records[number] = None
