"""Small files of an append sink → larger ones. Rows keep their values, and mostly their order; others' files stay."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Generator, Iterable
from dataclasses import dataclass, field

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from sinkql.connectors.iceberg.commit.committer import delete_manifests
from sinkql.connectors.iceberg.commit.snapshot import FileChange
from sinkql.connectors.iceberg.compact.compaction import Attempt, Compaction, Footprint, Scope, Steps, readable
from sinkql.connectors.iceberg.compact.selection import ALL, due, target_size
from sinkql.connectors.iceberg.file.data_file import FileEntry, for_tasks, has_rows_of, rewritten_name
from sinkql.connectors.iceberg.file.deletes import read_position_deletes
from sinkql.connectors.iceberg.file.manifest import entries_of, manifests_of, vector_of
from sinkql.connectors.iceberg.file.partition import Partitions, PartitionValue
from sinkql.connectors.iceberg.file.reader import RewrittenRows
from sinkql.connectors.iceberg.file.sort_order import SortedWriter
from sinkql.storage import failpoint

_SORTED = 64 << 20
"""How large a file becomes at most whose rows are sorted: they all wait until the last one is read."""


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A data file that a sink wrote into a table."""

    path: str
    size: int
    place: PartitionValue


@dataclass(slots=True)
class OwnFiles:
    """A sink's files of which no row is deleted, in the order of their commits; true of these delete manifests."""

    files: list[OwnFile] = field(default_factory=list)
    deletes: frozenset[str] = frozenset()


def own_files(table: Table, sink: str, into: OwnFiles) -> Generator[bool, None, None]:
    """Put the sink's files of the current snapshot before those that are there; a manifest or delete file a step."""
    head = table.current_snapshot()
    into.deletes = delete_manifests(table)
    partitions = Partitions(table.metadata)
    found: list[tuple[int, OwnFile]] = []
    deletes: list[DataFile] = []
    for manifest in manifests_of(table, head):
        for entry in entries_of(table.io, manifest):
            file = entry.data_file
            if manifest.content == ManifestContent.DELETES:
                deletes.append(file)
            elif has_rows_of(file.file_path, sink) and file.file_format == FileFormat.PARQUET:
                own = OwnFile(file.file_path, file.file_size_in_bytes, partitions.place_of(file))
                found.append((entry.sequence_number or 0, own))
        yield True
    if any(file.content == DataFileContent.EQUALITY_DELETES for file in deletes):
        return  # which may mean rows of any file
    named: set[str] = set()
    for file in deletes:
        vector = vector_of(file)
        named |= {vector.file} if vector else read_position_deletes(table.io, [file.file_path]).keys()
        yield True
    into.files[:0] = [file for _, file in sorted(found, key=lambda each: each[0]) if file.path not in named]


def own_entries(entries: Iterable[FileEntry]) -> list[OwnFile]:
    """Return what `own_files` will say of files just written."""
    return [OwnFile(entry.path, entry.size, entry.place) for entry in entries]


def chosen(
    files: Iterable[OwnFile], table: Table, failed: Container[str] = (), scope: Scope | None = None
) -> list[OwnFile]:
    """Return the files of one partition that are due, or all small ones of a scope, in the order given.

    Without those on which others `failed`.
    """
    groups: dict[PartitionValue, list[OwnFile]] = defaultdict(list)
    for file in files:
        if file.path not in failed and (scope is None or file.path in scope):
            groups[file.place].append(file)
    target = target_size(table.properties)
    if table.sort_order().fields:
        target = min(target, _SORTED)
    for group in groups.values():
        wanted = set(due(group, lambda file: file.size, target=target, tiers=None if scope is None else ALL))
        if wanted:
            return [file for file in group if file in wanted]
    return []


def rewrite(files: list[OwnFile], attempt: Attempt, deletes: frozenset[str], *, sink: str, epoch: int) -> Steps:
    """Write the rows of files of one partition into a new one, a part a step; of the first ones where it takes long."""
    table = attempt.table()
    moving = RewrittenRows(table, for_tasks(table), {file.path for file in files})
    writer = SortedWriter(moving.table, rewritten_name(sink, epoch, attempt.id, 0), files[0].place)
    read: list[OwnFile] = []
    try:
        for file in files:
            if len(read) > 1 and attempt.late():
                break
            failpoint.point("compaction-read")
            for rows in readable(file.path, moving.rows(file.path)):
                writer.write(rows)
                if not attempt.late():
                    yield True
            read.append(file)
        written = writer.close()
        failpoint.point("compaction-file")
    except BaseException:  # the end of a sink is one
        writer.discard()
        raise
    entries = () if written is None else (written,)
    return Compaction(
        FileChange(entries, frozenset(file.path for file in read), Operation.REPLACE),
        deletes,
        before=Footprint(len(read), sum(file.size for file in read)),
        after=Footprint(len(entries), sum(entry.size for entry in entries)),
    )
