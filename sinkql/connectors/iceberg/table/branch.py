"""A table on one of its branches, where reads and commits of main mean the branch.

So a sink claims, commits, compacts and expires on its branch as other sinks do on main. The first claim creates the
branch at main's head. While the branch descends from main's head, main appears as a tag, which keeps its snapshot and
files.

An expiry may remove the snapshots between the branch and main. So each commit stores in a property the snapshot of main
that it descends from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from sinkql.errors import SinkqlError
from sinkql.keywords import qualified_name


class BranchTable(Table):
    """A table seen from a branch; `whole` is the table in the catalog."""

    def __init__(self, whole: Table, branch: str) -> None:
        metadata = whole.metadata
        ref = metadata.refs.get(branch)
        if ref is not None and ref.snapshot_ref_type != SnapshotRefType.BRANCH:
            raise SinkqlError(
                "SQ3521",
                f'table "{qualified_name(*whole.name())}" has a tag "{branch}" and cannot have a branch of that name',
                hint="Set a different BRANCH.",
            )
        self.whole = whole
        self.branch = branch
        metadata = _metadata_on(metadata, branch)
        super().__init__(whole.name(), metadata, whole.metadata_location, whole.io, whole.catalog, whole.config)

    def requirements(self, requirements: Iterable[TableRequirement]) -> tuple[TableRequirement, ...]:
        """Translate requirements of a commit on the branch into requirements of the table in the catalog."""
        return tuple(translated for requirement in requirements for translated in self._translate(requirement))

    def _translate(self, requirement: TableRequirement) -> Iterator[TableRequirement]:
        if not isinstance(requirement, AssertRefSnapshotId) or requirement.ref not in (MAIN_BRANCH, self.branch):
            yield requirement
        elif self.branch in self.whole.metadata.refs:
            ref = MAIN_BRANCH if requirement.ref == self.branch else self.branch
            yield _require_head(ref, requirement.snapshot_id)
        else:  # the branch begins at main's head, which must not have moved
            yield _require_head(MAIN_BRANCH, requirement.snapshot_id)
            yield _require_head(self.branch, None)

    def updates(self, updates: Iterable[TableUpdate]) -> tuple[TableUpdate, ...]:
        """Translate updates of a commit on the branch into updates of the table in the catalog."""
        return tuple(translated for update in updates for translated in self._translate_update(update))

    def _translate_update(self, update: TableUpdate) -> Iterator[TableUpdate]:
        if not isinstance(update, SetSnapshotRefUpdate) or update.ref_name != MAIN_BRANCH:
            yield update
            return
        metadata = self.whole.metadata
        yield head_update(metadata, self.branch, update.snapshot_id)
        main = _main_below(metadata, self.branch)
        if main is not None:
            base = json.dumps({"main": main, "below": update.snapshot_id})
            yield SetPropertiesUpdate(updates={_property(self.branch): base})


class _AssertRef(AssertRefSnapshotId):
    """Accepts every branch of a table without snapshots; pyiceberg's class accepts only main."""

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as there
        if base_metadata is None or base_metadata.snapshots or self.snapshot_id is not None:
            super().validate(base_metadata)


def is_on_top(metadata: TableMetadata, branch: str) -> bool:
    """Return whether main's head is the head of a branch or an ancestor of it, so that main can move there."""
    main = metadata.refs.get(MAIN_BRANCH)
    return main is None or branch not in metadata.refs or _main_below(metadata, branch) == main.snapshot_id


def is_reachable(metadata: TableMetadata, ref: str, snapshot: int) -> bool:
    """Return whether a snapshot is the head of a ref or one of its ancestors that have not expired."""
    head = metadata.refs.get(ref)
    return head is not None and snapshot in _ancestors(metadata, head.snapshot_id)


def head_update(metadata: TableMetadata, ref: str, snapshot: int) -> SetSnapshotRefUpdate:
    """Return the update that sets the head of a branch and keeps the branch's settings."""
    present = metadata.refs.get(ref)
    settings = present.model_dump(by_alias=True, exclude_none=True) if present is not None else {}
    return SetSnapshotRefUpdate.model_validate(
        {**settings, "ref-name": ref, "type": SnapshotRefType.BRANCH, "snapshot-id": snapshot}
    )


def branch_text(table: Table) -> str:
    """Return the name of a table's branch for messages."""
    return f'branch "{table.branch}"' if isinstance(table, BranchTable) else MAIN_BRANCH


def _main_below(metadata: TableMetadata, branch: str) -> int | None:
    """Return the snapshot of main that a branch descends from; for a branch that does not exist yet, main's head.

    If that is no longer main's head, return the snapshot in the property: main may move back to it after all snapshots
    between it and the branch have expired.
    """
    main, ref = metadata.refs.get(MAIN_BRANCH), metadata.refs.get(branch)
    ancestors = set(_ancestors(metadata, ref.snapshot_id)) if ref is not None else set()
    if main is not None and (ref is None or main.snapshot_id in ancestors):
        return main.snapshot_id
    try:
        base = json.loads(metadata.properties.get(_property(branch), "null")) or {}
    except json.JSONDecodeError:
        return None
    snapshot: int | None = base.get("main") if base.get("below") in ancestors else None
    return snapshot


def _metadata_on(metadata: TableMetadata, branch: str) -> TableMetadata:
    """Return the metadata with the branch as main, and main under the name of the branch."""
    refs = dict(metadata.refs)
    ref = refs.pop(branch, None)
    if ref is None:
        return metadata
    main = refs.get(MAIN_BRANCH)
    refs[MAIN_BRANCH] = ref
    if main is not None:
        kind = SnapshotRefType.TAG if is_on_top(metadata, branch) else SnapshotRefType.BRANCH
        refs[branch] = main.model_copy(update={"snapshot_ref_type": kind})
    return metadata.model_copy(update={"current_snapshot_id": ref.snapshot_id, "refs": refs})


def _ancestors(metadata: TableMetadata, head: int) -> Iterator[int]:
    """Yield a snapshot and its ancestors that have not expired."""
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in metadata.snapshots}
    current: int | None = head
    while current is not None and current in parents:
        yield current
        current = parents[current]


def _require_head(ref: str, snapshot: int | None) -> TableRequirement:
    return _AssertRef.model_validate({"ref": ref, "snapshot-id": snapshot})


def _property(branch: str) -> str:
    return f"sinkql.branch.{branch}"
