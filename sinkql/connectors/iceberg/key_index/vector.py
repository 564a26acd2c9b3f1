"""Rows that die → delete files, or in a table that takes them deletion vectors.

Each data file has one vector at most, with all its dead rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import structs

from sinkql.connectors.iceberg.file.data_file import FileEntry, TaskTable
from sinkql.connectors.iceberg.file.deletes import read_dead_of, write_position_deletes
from sinkql.connectors.iceberg.file.manifest import VECTORS
from sinkql.connectors.iceberg.file.partition import PartitionValue
from sinkql.connectors.iceberg.file.vector import Positions, read_vector, united, write_vectors
from sinkql.connectors.iceberg.key_index.index import Index, IndexChange
from sinkql.connectors.iceberg.key_index.layer import FileRecord
from sinkql.connectors.iceberg.storage.failure import missing

Named = tuple[tuple[FileEntry, tuple[int, ...]], ...]
"""Entries, each with the ids of the data files that it names."""


def write_dead(table: TaskTable, index: Index, dead: Mapping[int, Positions], name: str) -> Named:
    """Write what names rows that die, by the ids of their files; the files' names begin with `name`.

    A data file of which nothing is left is not named: it leaves the table.
    """
    notes = ((id_, index.file(id_)) for id_ in dead)
    known = {id_: note for id_, note in notes if note.dead + len(dead[id_]) < note.rows}
    if table.version >= VECTORS:
        return _write_whole(table, index, known, dead, f"{name}-deletes")
    return _write_files(table, known, dead, name)


def _write_files(table: TaskTable, known: Mapping[int, FileRecord], dead: Mapping[int, Positions], name: str) -> Named:
    """Write delete files, which name files of one partition each, the one of the old rows wherever new ones go."""
    by_file = table.properties.get("write.delete.granularity") == "file"
    groups: dict[tuple[PartitionValue, int], list[int]] = defaultdict(list)
    for id_, note in known.items():
        groups[note.place, id_ if by_file else 0].append(id_)
    return tuple(
        (
            write_position_deletes(
                table, f"{name}-{number}-deletes.parquet", {known[id_].path: dead[id_] for id_ in group}, place
            ),
            tuple(group),
        )
        for number, ((place, _), group) in enumerate(groups.items())
    )


def _write_whole(
    table: TaskTable, index: Index, known: Mapping[int, FileRecord], dead: Mapping[int, Positions], name: str
) -> Named:
    """Write a file of deletion vectors of known data files: of the rows that die, and of those dead before.

    Raises SQ3556 where an older vector is missing, SQ3555 where it is damaged.
    """
    if not known:
        return ()
    io = table.io()

    def whole_of(id_: int, note: FileRecord) -> Positions:
        older = (read_dead_of(io, index.delete(each).path, note.path) for each in note.deletes)
        return united(dead[id_], *older)

    try:
        whole = {note.path: whole_of(id_, note) for id_, note in known.items()}
    except FileNotFoundError as error:
        raise missing(table.name, error) from error
    ids = {note.path: id_ for id_, note in known.items()}
    written = write_vectors(table, name, whole, {note.path: note.place for note in known.values()})
    return tuple((entry, (ids[entry.vector.file],)) for entry in written if entry.vector)


def one_each(
    changes: Sequence[IndexChange], entries: Sequence[FileEntry], index: Index, table: TaskTable, name: str
) -> tuple[Sequence[IndexChange], Sequence[FileEntry]]:
    """Return what tasks did with one vector in place of two of the same data file, which two buckets' tasks wrote.

    Only a data file with keys of several buckets has two, such as one of another program. One of which both together
    leave nothing leaves the table, and has none.
    """
    vectors: dict[str, list[FileEntry]] = defaultdict(list)
    for entry in entries:
        if entry.vector is not None:
            vectors[entry.vector.file].append(entry)
    twins = {path: found for path, found in vectors.items() if len(found) > 1}
    if not twins:
        return changes, entries
    dropped = {entry.name for found in twins.values() for entry in found}
    ids = {each: target for change in changes for each, (target,) in change.deletes.items()}
    dead: dict[str, Positions] = {}
    for path, found in twins.items():
        positions = united(*(read_vector(table.io(), entry.name) for entry in found))
        if len(positions) < index.file(ids[found[0].name]).rows:
            dead[path] = positions
    written = write_vectors(table, name, dead, {path: twins[path][0].place for path in dead}) if dead else ()
    named = {entry.name: (ids[twins[entry.vector.file][0].name],) for entry in written if entry.vector}
    kept = [
        structs.replace(
            change,
            deletes={each: targets for each, targets in change.deletes.items() if each not in dropped}
            | (named if not number else {}),
        )
        for number, change in enumerate(changes)
    ]
    return kept, (*(entry for entry in entries if entry.name not in dropped), *written)
