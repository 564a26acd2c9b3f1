"""What commits changed about a table's files, as layers: each says what is new on top of the older ones.

A layer is as large as what its commits touched. Layers add up, and are merged in tiers as runs are, so that a commit
writes what it changed, and a start reads few of them, whatever the table holds.
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
    """Where the keys of a file belong: one bucket of `buckets` under `bucketing`."""

    bucket: int
    buckets: int
    bucketing: str


class FileRecord(msgspec.Struct, frozen=True, array_like=True):
    """A data file where its path is given, else more about one of an older layer.

    `rows` are all that it has, in `size` bytes; `dead` rows and `deletes`, the numbers of the delete files that name
    it, add up. Without `home` its keys are of any bucket. `place` is its partition, which the delete files share. A
    note that says all `again` takes the place of older ones.
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
        """Return both notes of one file as one."""
        return structs.replace(self, dead=self.dead + newer.dead, deletes=self.deletes + newer.deletes)


class DeleteRecord(msgspec.Struct, frozen=True, array_like=True):
    """A delete file where its path is given, else a change of `targets`: how many data files in the table it names.

    `rows` are the positions in it.
    """

    path: str
    targets: int
    rows: int = 0

    def __add__(self, newer: DeleteRecord) -> DeleteRecord:
        """Return both notes of one file as one."""
        return DeleteRecord(self.path, self.targets + newer.targets, self.rows)


Note = TypeVar("Note", FileRecord, DeleteRecord)


class Layer(msgspec.Struct, frozen=True):
    """Notes of data and delete files by number; None for a file that is no longer in the table."""

    files: dict[int, FileRecord | None] = {}
    deletes: dict[int, DeleteRecord | None] = {}

    @property
    def size(self) -> int:
        """Return how many notes there are."""
        return len(self.files) + len(self.deletes)


def file_of(layers: Iterable[Layer], number: int) -> FileRecord | None:
    """Return what the layers, newest first, say together of a data file; None for one that is gone."""
    return _whole((layer.files for layer in layers), number)


def delete_of(layers: Iterable[Layer], number: int) -> DeleteRecord | None:
    """Return what the layers, newest first, say together of a delete file; None for one that is gone."""
    return _whole((layer.deletes for layer in layers), number)


def _whole(notes: Iterable[Mapping[int, Note | None]], number: int) -> Note | None:
    found: Note | None = None
    for each in notes:
        if number not in each:
            continue
        note = each[number]
        if note is None:
            return None
        found = note if found is None else note + found
        if note.path:
            break
    return found


def merged(layers: Iterable[Layer], *, whole: bool) -> Layer:
    """Return layers, newest first, as one; with `whole` there is none below them."""
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


def _put(notes: dict[int, Note | None], number: int, note: Note | None) -> None:
    """Put a newer note on what is there; a file that came and went leaves no trace."""
    known = notes.get(number)
    if isinstance(note, FileRecord) and note.again and isinstance(known, FileRecord):
        notes[number] = structs.replace(note, again=known.again or not known.path)
    elif note is not None:
        notes[number] = note if known is None else known + note
    elif known is not None and known.path and not (isinstance(known, FileRecord) and known.again):
        del notes[number]
    else:
        notes[number] = None
