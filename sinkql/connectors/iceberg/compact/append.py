"""Small files of an append sink → larger ones. Rows keep their values, and mostly their order; others' files stay."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation

from sinkql import faults
from sinkql.connectors.iceberg.commit.conflict import delete_manifests
from sinkql.connectors.iceberg.commit.snapshot import FileChange
from sinkql.connectors.iceberg.compact.choose import due, target_size
from sinkql.connectors.iceberg.compact.job import Compaction, Footprint, Steps
from sinkql.connectors.iceberg.file.data import DataFileWriter, FileEntry, for_tasks
from sinkql.connectors.iceberg.file.delete import read_position_deletes
from sinkql.connectors.iceberg.file.name import has_rows_of, rewritten_name
from sinkql.connectors.iceberg.file.read import read_rows


@dataclass(frozen=True, slots=True)
class OwnFile:
    """A data file that a sink wrote into a table."""

    path: str
    size: int
    spec_id: int
    partition: tuple[Any, ...]


@dataclass(slots=True)
class OwnFiles:
    """A sink's files of which no row is deleted, in the order of their commits; true of these delete manifests."""

    files: list[OwnFile]
    deletes: frozenset[str]


def own_files(table: Table, sink: str) -> OwnFiles:
    """Return the sink's files of the current snapshot."""
    head = table.current_snapshot()
    manifests = head.manifests(table.io) if head is not None else []
    found: list[tuple[int, OwnFile]] = []
    deletes: list[DataFile] = []
    for manifest in manifests:
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file = entry.data_file
            if manifest.content == ManifestContent.DELETES:
                deletes.append(file)
            elif has_rows_of(file.file_path, sink) and file.file_format == FileFormat.PARQUET:
                partition = tuple(file.partition[place] for place in range(len(file.partition)))
                own = OwnFile(file.file_path, file.file_size_in_bytes, file.spec_id, partition)
                found.append((entry.sequence_number or 0, own))
    if any(file.content == DataFileContent.EQUALITY_DELETES for file in deletes):
        return OwnFiles([], frozenset())  # which may mean rows of any file
    named = read_position_deletes(table.io, [file.file_path for file in deletes])
    whole = [file for _, file in sorted(found, key=lambda each: each[0]) if file.path not in named]
    return OwnFiles(whole, delete_manifests(table))


def own_entries(entries: Iterable[FileEntry]) -> list[OwnFile]:
    """Return what `own_files` will say of files just written."""
    return [OwnFile(entry.path, entry.size, entry.spec_id, entry.partition) for entry in entries]


def chosen(files: Iterable[OwnFile], table: Table) -> list[OwnFile]:
    """Return the files of one partition that are due, in the order given."""
    groups: dict[tuple[int, tuple[Any, ...]], list[OwnFile]] = defaultdict(list)
    for file in files:
        groups[file.spec_id, file.partition].append(file)
    target = target_size(table.properties)
    for group in groups.values():
        wanted = set(due(group, lambda file: file.size, target=target))
        if wanted:
            return [file for file in group if file in wanted]
    return []


def rewrite(
    files: list[OwnFile], table: Table, deletes: frozenset[str], *, sink: str, epoch: int, attempt: str
) -> Steps:
    """Write the rows of the files into a new one, a part a step."""
    task_table = for_tasks(table)
    writer = DataFileWriter(task_table, rewritten_name(sink, epoch, attempt, 0))
    try:
        for file in files:
            faults.point("compaction-read")
            for rows in read_rows(task_table, file.path):
                writer.write(rows)
                yield
        written = writer.close()
        faults.point("compaction-file")
    except BaseException:  # the end of a sink is one
        writer.discard()
        raise
    entries = () if written is None else (_placed(written, files[0]),)
    return Compaction(
        FileChange(entries, frozenset(file.path for file in files), Operation.REPLACE),
        deletes,
        before=Footprint(len(files), sum(file.size for file in files)),
        after=Footprint(len(entries), sum(entry.size for entry in entries)),
    )


def _placed(entry: FileEntry, like: OwnFile) -> FileEntry:
    return replace(entry, spec_id=like.spec_id, partition=like.partition)
