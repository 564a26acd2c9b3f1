"""Write the manifests of one snapshot, and build the requirements and updates to post."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotSummaryCollector, Summary, update_snapshot_summaries
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from sinkql.connectors.iceberg.commit.manifest_cache import ManifestCache
from sinkql.connectors.iceberg.commit.removal import Removal, encode
from sinkql.connectors.iceberg.file.data_file import FileEntry
from sinkql.connectors.iceberg.file.manifest import (
    ManifestWriter,
    manifests_of,
    name_of,
    number_manifests,
    pieces,
    vector_of,
    write_list,
)
from sinkql.connectors.iceberg.file.partition import Partitions, parted_schema
from sinkql.connectors.iceberg.table.branch import head_update
from sinkql.machine import clock
from sinkql.machine.randomness import new_number, new_uuid
from sinkql.storage.sorted_run import MergePolicy

MAIN = "main"
_BASE = 500
_TIERS = MergePolicy(fan=6, small=8, base=_BASE)
"""When to merge manifests, by the files they name; each entry is rewritten only a few times."""
_MOST = 1000
"""The most entries of a manifest of new files, and so of a rewrite when one of the files is removed."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """The change of one snapshot: entries of files to add, and names of files to remove.

    If `operation` is None, it is append, or overwrite if the change has deletes or removals.
    """

    add: tuple[FileEntry, ...] = ()
    remove: frozenset[str] = field(default=frozenset())
    operation: Operation | None = None


@dataclass(frozen=True, slots=True)
class Notes:
    """Properties that go with a snapshot: summary properties and table properties."""

    summary: Mapping[str, str]
    table: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A snapshot whose manifests are written: the updates to post, and their requirements.

    `files` are the locations written for the snapshot, which must be durable first. `tag` is posted with it if the
    catalog accepts tags.
    """

    snapshot: int
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    files: frozenset[str] = field(default=frozenset())
    tag: SetSnapshotRefUpdate | None = None


def prepare(
    table: Table,
    change: FileChange,
    notes: Callable[[int, int], Notes],
    *,
    by: str = "",
    schema: Schema | None = None,
) -> Prepared:
    """Write the manifests of `change` on top of main, in files whose names begin with `by`.

    `notes` gets the snapshot's id and sequence number. If `schema` is set, the same commit gives it to the table.
    """
    builder = _Builder(table, by)
    carried = builder.carry_over(change.remove)  # first, so that a missing file leaves no orphan files
    manifests = [*builder.write_added(change.add), *carried]
    properties = notes(builder.snapshot, builder.sequence)
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": builder.snapshot,
            "parent-snapshot-id": builder.parent.snapshot_id if builder.parent else None,
            **builder.write_list(manifests, builder.removal(change, manifests)),
            "sequence-number": builder.sequence,
            "timestamp-ms": max(clock.time_ms(), table.metadata.last_updated_ms),
            "summary": builder.summary(change, properties.summary),
            "schema-id": table.metadata.current_schema_id if schema is None else schema.schema_id,
        }
    )
    needed, updates = requirements(table), _schema_updates(table.metadata, schema) if schema is not None else []
    if schema is not None:
        last = {"last-assigned-field-id": table.metadata.last_column_id}
        needed = (*needed, AssertLastAssignedFieldId.model_validate(last))
    updates += [AddSnapshotUpdate(snapshot=snapshot), head_update(table.metadata, MAIN, builder.snapshot)]
    if properties.table:
        updates.append(SetPropertiesUpdate(updates=dict(properties.table)))
    files = frozenset(builder.written_paths).union(entry.path for entry in change.add)
    return Prepared(builder.snapshot, needed, tuple(updates), files)


def _schema_updates(metadata: TableMetadata, schema: Schema) -> list[TableUpdate]:
    exists = any(known_schema.schema_id == schema.schema_id for known_schema in metadata.schemas)
    current = SetCurrentSchemaUpdate.model_validate({"schema-id": schema.schema_id})
    return [current] if exists else [AddSchemaUpdate.model_validate({"schema": schema}), current]


def requirements(table: Table) -> tuple[TableRequirement, ...]:
    """Return the conditions that must still hold when a commit arrives.

    Schema and spec get conditions too, as their changes do not move main.
    """
    metadata = table.metadata
    parent = metadata.current_snapshot()
    head = {"ref": MAIN, "snapshot-id": parent.snapshot_id if parent else None}
    return (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId.model_validate(head),
        AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
        AssertDefaultSpecId.model_validate({"default-spec-id": metadata.default_spec_id}),
    )


def as_data_file(entry: FileEntry, partitions: Partitions) -> DataFile:
    """Return pyiceberg's form of an entry of a file of the table."""
    deletes = entry.content == "deletes"
    vector = entry.vector
    file = DataFile.from_args(
        3,
        content=DataFileContent.POSITION_DELETES if deletes else DataFileContent.DATA,
        file_path=entry.path,
        file_format=FileFormat.PARQUET if vector is None else FileFormat.PUFFIN,
        partition=partitions.record(entry.place),
        record_count=entry.rows,
        file_size_in_bytes=entry.size,
        column_sizes=entry.column_sizes,
        value_counts=entry.value_counts,
        null_value_counts=entry.null_value_counts,
        nan_value_counts=entry.nan_value_counts,
        lower_bounds=entry.lower_bounds,
        upper_bounds=entry.upper_bounds,
        key_metadata=None,
        split_offsets=list(entry.split_offsets) if entry.split_offsets else None,
        equality_ids=None,
        sort_order_id=entry.order_id,
        referenced_data_file=vector.file if vector else None,
        content_offset=vector.offset if vector else None,
        content_size_in_bytes=vector.length if vector else None,
    )
    file.spec_id = entry.place.spec
    return file


class _Collector(SnapshotSummaryCollector):
    """Counts of a snapshot's changes.

    Partitions are keyed by number, as pyiceberg's names of partitions cannot show years after 9999.
    """

    def update_partition_metrics(
        self, partition_spec: PartitionSpec, file: DataFile, is_add_file: bool, schema: Schema
    ) -> None:
        metrics = self.partition_metrics[f"{file.spec_id} {file.partition}"]
        (metrics.add_file if is_add_file else metrics.remove_file)(file)


class _Builder:
    """The snapshot under construction: its manifests, and the counts of its summary."""

    def __init__(self, table: Table, by: str) -> None:
        self._table = table
        self._metadata = table.metadata
        self._name = f"{by}{new_uuid()}"
        self._written = 0
        self._cache = ManifestCache(table)
        self._parents: list[ManifestFile] = []
        self._removed: list[DataFile] = []
        self._collector = _Collector()
        self._partitions = Partitions(table.metadata)
        self.written_paths: set[str] = set()
        self.parent = table.current_snapshot()
        self.snapshot = _new_snapshot_id(table.metadata)
        self.sequence = table.metadata.next_sequence_number()

    def write_added(self, entries: Iterable[FileEntry]) -> list[ManifestFile]:
        """Write the manifests of new files, each of one content and spec."""
        groups: dict[tuple[bool, int], list[FileEntry]] = defaultdict(list)
        for entry in entries:
            groups[entry.content == "deletes", entry.place.spec].append(entry)
        return [
            self._write_manifest(group[start : start + _MOST], deletes, spec_id)
            for (deletes, spec_id), group in groups.items()
            for start in range(0, len(group), _MOST)
        ]

    def _write_manifest(self, entries: list[FileEntry], deletes: bool, spec_id: int) -> ManifestFile:
        files = [as_data_file(entry, self._partitions) for entry in entries]
        spec, schema = self._metadata.specs()[spec_id], self._metadata.schema()
        with self._writer(deletes, spec_id) as writer:
            for file in files:
                writer.add_entry(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self.snapshot,
                        sequence_number=None,
                        file_sequence_number=None,
                        data_file=file,
                    )
                )
                self._collector.add_file(file, schema=schema, partition_spec=spec)
        manifest = writer.to_manifest_file()
        self._cache.wrote_new(manifest.manifest_path, files, self._added_entry)
        return manifest

    def carry_over(self, removed: frozenset[str]) -> list[ManifestFile]:
        """Return the parent's manifests, rewritten without the removed files, and merged in tiers if small."""
        if self.parent is None:
            return []
        self._parents = manifests_of(self._table, self.parent)
        old = [manifest for manifest in self._parents if manifest.has_added_files() or manifest.has_existing_files()]
        self._cache.only(old)
        touched = self._cache.having(old, removed)
        missing = removed.difference(*touched.values())
        if missing:
            raise FileNotFoundError(f"{len(missing)} files to remove are not in the table, the first is {min(missing)}")
        rewritten = touched.keys() | _manifests_to_merge(old)
        groups: dict[tuple[bool, int, int], list[ManifestEntry]] = defaultdict(list)
        for number, manifest in enumerate(old, 1):
            if manifest.manifest_path in rewritten:
                alone = number if _count_entries(manifest) >= _BASE else 0
                group = manifest.content == ManifestContent.DELETES, manifest.partition_spec_id, alone
                groups[group].extend(self._cache.entries(manifest))
        untouched = [manifest for manifest in old if manifest.manifest_path not in rewritten]
        return [self._rewrite(*group[:2], entries, removed) for group, entries in groups.items()] + untouched

    def removal(self, change: FileChange, manifests: list[ManifestFile]) -> Removal:
        """Return what the snapshot with these manifests removes."""
        files = frozenset(file.file_path for file in self._removed)
        vectors = frozenset(file.file_path for file in self._removed if vector_of(file) is not None)
        deletes = [manifest for manifest in self._parents if manifest.content == ManifestContent.DELETES]
        live = self._cache.live_files(deletes, vectors, without=change.remove)
        dropped = {manifest.manifest_path for manifest in self._parents}
        dropped.difference_update(manifest.manifest_path for manifest in manifests)
        return Removal(frozenset(dropped), files - live - {entry.path for entry in change.add})

    def write_list(self, manifests: list[ManifestFile], removal: Removal) -> dict[str, Any]:
        """Write the manifest list; return the snapshot's fields for it, with row ids from version 3 on."""
        provider = self._table.location_provider()
        path = provider.new_metadata_location(f"snap-{self.snapshot}-0-{self._name}.avro")
        self.written_paths.add(path)
        output = self._table.io.new_output(path)
        parent = self.parent.snapshot_id if self.parent else None
        fields: dict[str, Any] = {"manifest-list": path}
        first = None
        if isinstance(self._metadata, TableMetadataV3):
            first = self._metadata.next_row_id or 0
            manifests, added = number_manifests(manifests, first)
            fields |= {"first-row-id": first, "added-rows": added}
        write_list(
            output,
            manifests,
            snapshot=self.snapshot,
            parent=parent,
            sequence=self.sequence,
            first_row=first,
            header=encode(removal),
        )
        return fields

    def summary(self, change: FileChange, properties: Mapping[str, str]) -> Summary:
        """Return the summary: counts of added and removed files, new totals, and the sink's properties."""
        # pyiceberg computes totals only for some operations, among them overwrite.
        counted = Summary(Operation.OVERWRITE, **self._collector.build(), **properties)
        totals = update_snapshot_summaries(counted, self.parent.summary if self.parent else None)
        plain = not change.remove and all(entry.content == "data" for entry in change.add)
        operation = change.operation or (Operation.APPEND if plain else Operation.OVERWRITE)
        return Summary(operation, **totals.additional_properties)

    def _added_entry(self, file: DataFile) -> ManifestEntry:
        """Return the entry of a file that this snapshot adds, in the form in which it is read back."""
        return ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED,
            snapshot_id=self.snapshot,
            sequence_number=self.sequence,
            file_sequence_number=self.sequence,
            data_file=file,
        )

    def _rewrite(
        self, deletes: bool, spec_id: int, entries: list[ManifestEntry], removed: frozenset[str]
    ) -> ManifestFile:
        spec = self._metadata.specs()[spec_id]
        with self._writer(deletes, spec_id) as writer:
            for entry in entries:
                if name_of(entry.data_file) in removed:
                    writer.delete(entry)
                    self._removed.append(entry.data_file)
                    self._collector.remove_file(entry.data_file, schema=self._metadata.schema(), partition_spec=spec)
                else:
                    writer.existing(entry)
        written = writer.to_manifest_file()
        remaining = [entry for entry in entries if name_of(entry.data_file) not in removed]
        self._cache.add(written.manifest_path, remaining)
        return written

    def _writer(self, deletes: bool, spec_id: int) -> ManifestWriter:
        name = f"{self._name}-m{self._written}.avro"
        self._written += 1
        path = self._table.location_provider().new_metadata_location(name)
        output = self._table.io.new_output(path)
        self.written_paths.add(path)
        spec, schema = self._metadata.specs()[spec_id], parted_schema(self._metadata, spec_id)
        version = self._metadata.format_version
        return ManifestWriter(spec, schema, output, self.snapshot, version=version, deletes=deletes)


def _manifests_to_merge(manifests: list[ManifestFile]) -> set[str]:
    """Return the manifests to merge now: the smallest of a content and spec, once many have a similar size."""
    groups: dict[tuple[ManifestContent, int], list[ManifestFile]] = defaultdict(list)
    for manifest in manifests:
        groups[manifest.content, manifest.partition_spec_id].append(manifest)
    due = set()
    for group in groups.values():
        group.sort(key=_count_entries)
        due |= {manifest.manifest_path for manifest in group[: _TIERS.due(map(_count_entries, group))]}
    return due


def _count_entries(manifest: ManifestFile) -> int:
    """Return how many files a manifest names; a large number if it does not say."""
    counts = manifest.added_files_count, manifest.existing_files_count
    return sum(count if count is not None else _BASE for count in counts)


def _new_snapshot_id(metadata: TableMetadata) -> int:
    in_use = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    return next(number for number in iter(new_number, None) if number not in in_use)


def selfcheck() -> None:
    """Check the private parts of pyiceberg that this module uses; raise RuntimeError if one has changed."""
    needs = {
        **pieces(),
        "SnapshotSummaryCollector.build": callable(getattr(SnapshotSummaryCollector, "build", None)),
        "SnapshotSummaryCollector.update_partition_metrics": callable(
            getattr(SnapshotSummaryCollector, "update_partition_metrics", None)
        ),
    }
    missing = [name for name, exists in needs.items() if not exists]
    if missing:
        raise RuntimeError(f"this version of pyiceberg lacks {', '.join(missing)}: install pyiceberg 0.12")
