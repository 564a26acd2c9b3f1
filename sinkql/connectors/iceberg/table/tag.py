"""A sink's last commit has a tag of the sink's own: no expiry takes it, though main may have been rolled back."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyiceberg.exceptions import BadRequestError, ValidationException
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import SetSnapshotRefUpdate


def tag_name(sink: str) -> str:
    """Return the name of the tag of a sink with this id."""
    return f"sinkql_{re.sub(r'[^A-Za-z0-9_]', '_', sink)}"


def set_tag(sink: str, snapshot: int) -> SetSnapshotRefUpdate:
    """Return what moves a sink's tag to a snapshot."""
    return SetSnapshotRefUpdate.model_validate(
        {"ref-name": tag_name(sink), "type": SnapshotRefType.TAG, "snapshot-id": snapshot}
    )


@dataclass(slots=True)
class TagState:
    """Whether a catalog takes tags, as far as is known: one that refuses a commit gets the next try without."""

    taken: bool = True
    _doubted: bool = False

    @property
    def now(self) -> bool:
        """Whether the next try is made with a tag."""
        return self.taken and not self._doubted

    def failed(self, error: Exception) -> None:
        """Take note of a try with a tag that failed."""
        self._doubted |= isinstance(error, BadRequestError | NotImplementedError | ValidationException)

    def done(self, *, landed: bool) -> None:
        """Take note of the end of a commit: one that got through without a tag alone tells that there are none."""
        self.taken = self.taken and not (landed and self._doubted)
        self._doubted = False
