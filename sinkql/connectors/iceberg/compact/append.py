"""Rewrite small files of an append sink into larger ones.

Rows keep their values, and mostly their order. Files of other writers stay.
"""

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
"""The greatest size of a file with sorted rows, which are all buffered until the last one is read."""


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A data file of a sink."""

    path: str
    size: int
    place: PartitionValue


@dataclass(slots=True)
class OwnFiles:
    """A sink's files without deleted rows, in the order of their commits, as of the delete manifests `deletes`."""

    files: list[OwnFile] = field(default_factory=list)
    deletes: frozenset[str] = frozenset()


def own_files(table: Table, sink: str, into: OwnFiles) -> Generator[bool, None, None]:
    """Add the sink's files of the present snapshot before the files in `into`; one manifest or delete file a step."""
    head = table.current_snapshot()
    into.deletes = delete_manifests(table)
    partitions = Partitions(table.metadata)
    numbered: list[tuple[int, OwnFile]] = []
    deletes: list[DataFile] = []
    for manifest in manifests_of(table, head):
        for entry in entries_of(table.io, manifest):
            file = entry.data_file
            if manifest.content == ManifestContent.DELETES:
                deletes.append(file)
            elif has_rows_of(file.file_path, sink) and file.file_format == FileFormat.PARQUET:
                own_file = OwnFile(file.file_path, file.file_size_in_bytes, partitions.place_of(file))
                numbered.append((entry.sequence_number or 0, own_file))
        yield True
    if any(file.content == DataFileContent.EQUALITY_DELETES for file in deletes):
        return  # they may delete rows of any file
    with_deletes: set[str] = set()
    for file in deletes:
        vector = vector_of(file)
        with_deletes |= {vector.file} if vector else read_position_deletes(table.io, [file.file_path]).keys()
        yield True
    in_order = sorted(numbered, key=lambda file: file[0])
    into.files[:0] = [file for _, file in in_order if file.path not in with_deletes]


def own_entries(entries: Iterable[FileEntry]) -> list[OwnFile]:
    """Return files just written as `own_files` returns them."""
    return [OwnFile(entry.path, entry.size, entry.place) for entry in entries]


def choose_files(
    files: Iterable[OwnFile], table: Table, failed: Container[str] = (), scope: Scope | None = None
) -> list[OwnFile]:
    """Return the due files of one partition, or all its small files in a scope, in the given order.

    Files in `failed` are skipped.
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
    """Write the rows of files of one partition to a new file, a part a step; if it takes long, only the first files."""
    table = attempt.table()
    source = RewrittenRows(table, for_tasks(table), {file.path for file in files})
    writer = SortedWriter(source.table, rewritten_name(sink, epoch, attempt.id, 0), files[0].place)
    read: list[OwnFile] = []
    try:
        for file in files:
            if len(read) > 1 and attempt.late():
                break
            failpoint.point("compaction-read")
            for rows in readable(file.path, source.rows(file.path)):
                writer.write(rows)
                if not attempt.late():
                    yield True
            read.append(file)
        written = writer.close()
        failpoint.point("compaction-file")
    except BaseException:  # also if the sink ends
        writer.discard()
        raise
    entries = () if written is None else (written,)
    return Compaction(
        FileChange(entries, frozenset(file.path for file in read), Operation.REPLACE),
        deletes,
        before=Footprint(len(read), sum(file.size for file in read)),
        after=Footprint(len(entries), sum(entry.size for entry in entries)),
    )
