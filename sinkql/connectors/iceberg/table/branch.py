"""A table as it is on one of its branches: what is asked of main there is told of the branch, and goes to the branch.

So a sink claims, commits, compacts and expires on its branch as others do on main. The first claim begins the branch
where main is. Main is seen as a tag, which keeps its snapshot and files, as long as the branch is on top of it.

An expiry may cut the way from the branch down to main. So each commit notes in a property which snapshot of main it is
on top of.
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
    """A table as it is on a branch; `whole` is the table itself."""

    def __init__(self, whole: Table, branch: str) -> None:
        metadata = whole.metadata
        ref = metadata.refs.get(branch)
        if ref is not None and ref.snapshot_ref_type != SnapshotRefType.BRANCH:
            raise SinkqlError(
                "SQ3521",
                f'table "{qualified_name(*whole.name())}" has a tag "{branch}", and so no branch of that name',
                hint="Write another BRANCH.",
            )
        self.whole = whole
        self.branch = branch
        seen = _seen(metadata, branch)
        super().__init__(whole.name(), seen, whole.metadata_location, whole.io, whole.catalog, whole.config)

    def requirements(self, asked: Iterable[TableRequirement]) -> tuple[TableRequirement, ...]:
        """Return what the table itself must be for a commit that requires this of the table as it is seen."""
        return tuple(found for each in asked for found in self._required(each))

    def _required(self, asked: TableRequirement) -> Iterator[TableRequirement]:
        if not isinstance(asked, AssertRefSnapshotId) or asked.ref not in (MAIN_BRANCH, self.branch):
            yield asked
        elif self.branch in self.whole.metadata.refs:
            yield _head(MAIN_BRANCH if asked.ref == self.branch else self.branch, asked.snapshot_id)
        else:  # it is to begin where main still is
            yield _head(MAIN_BRANCH, asked.snapshot_id)
            yield _head(self.branch, None)

    def updates(self, wanted: Iterable[TableUpdate]) -> tuple[TableUpdate, ...]:
        """Return what changes the table itself as these change the table as it is seen."""
        return tuple(found for each in wanted for found in self._updated(each))

    def _updated(self, wanted: TableUpdate) -> Iterator[TableUpdate]:
        if not isinstance(wanted, SetSnapshotRefUpdate) or wanted.ref_name != MAIN_BRANCH:
            yield wanted
            return
        metadata = self.whole.metadata
        yield moved(metadata, self.branch, wanted.snapshot_id)
        main = _below(metadata, self.branch)
        if main is not None:
            told = json.dumps({"main": main, "below": wanted.snapshot_id})
            yield SetPropertiesUpdate(updates={_property(self.branch): told})


class _AssertRef(AssertRefSnapshotId):
    """pyiceberg's own refuses all branches but main of a table that has no snapshot."""

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]  # as there
        if base_metadata is None or base_metadata.snapshots or self.snapshot_id is not None:
            super().validate(base_metadata)


def on_top(metadata: TableMetadata, branch: str) -> bool:
    """Tell whether main's head is the head of a branch, or an ancestor of it, so that main can go to there."""
    main = metadata.refs.get(MAIN_BRANCH)
    return main is None or branch not in metadata.refs or _below(metadata, branch) == main.snapshot_id


def reaches(metadata: TableMetadata, ref: str, snapshot: int) -> bool:
    """Tell whether a snapshot is the head of a ref or, as far as snapshots have not expired, an ancestor of it."""
    head = metadata.refs.get(ref)
    return head is not None and snapshot in _line(metadata, head.snapshot_id)


def moved(metadata: TableMetadata, ref: str, snapshot: int) -> SetSnapshotRefUpdate:
    """Return what sets the head of a branch, and leaves the branch's settings as they are."""
    present = metadata.refs.get(ref)
    kept = present.model_dump(by_alias=True, exclude_none=True) if present is not None else {}
    return SetSnapshotRefUpdate.model_validate(
        {**kept, "ref-name": ref, "type": SnapshotRefType.BRANCH, "snapshot-id": snapshot}
    )


def called(table: Table) -> str:
    """Return what messages call the branch that a table is seen on."""
    return f'branch "{table.branch}"' if isinstance(table, BranchTable) else MAIN_BRANCH


def _below(metadata: TableMetadata, branch: str) -> int | None:
    """Return the snapshot of main that a branch, or one that begins now, is on top of: main's head if it is that.

    Else the one that was noted: main may come back to it, when all between it and the branch has expired.
    """
    main, own = metadata.refs.get(MAIN_BRANCH), metadata.refs.get(branch)
    line = set(_line(metadata, own.snapshot_id)) if own is not None else set()
    if main is not None and (own is None or main.snapshot_id in line):
        return main.snapshot_id
    try:
        told = json.loads(metadata.properties.get(_property(branch), "null")) or {}
    except json.JSONDecodeError:
        return None
    found: int | None = told.get("main") if told.get("below") in line else None
    return found


def _seen(metadata: TableMetadata, branch: str) -> TableMetadata:
    refs = dict(metadata.refs)
    own = refs.pop(branch, None)
    if own is None:
        return metadata
    main = refs.get(MAIN_BRANCH)
    refs[MAIN_BRANCH] = own
    if main is not None:
        kind = SnapshotRefType.TAG if on_top(metadata, branch) else SnapshotRefType.BRANCH
        refs[branch] = main.model_copy(update={"snapshot_ref_type": kind})
    return metadata.model_copy(update={"current_snapshot_id": own.snapshot_id, "refs": refs})


def _line(metadata: TableMetadata, head: int) -> Iterator[int]:
    """Yield a snapshot and its ancestors, as far as they have not expired."""
    parents = {each.snapshot_id: each.parent_snapshot_id for each in metadata.snapshots}
    current: int | None = head
    while current is not None and current in parents:
        yield current
        current = parents[current]


def _head(ref: str, snapshot: int | None) -> TableRequirement:
    return _AssertRef.model_validate({"ref": ref, "snapshot-id": snapshot})


def _property(branch: str) -> str:
    return f"sinkql.branch.{branch}"
