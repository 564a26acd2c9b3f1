"""The tag of a sink at its last commit, which no expiry deletes, even after main was rolled back."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyiceberg.exceptions import BadRequestError, ValidationException
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import SetSnapshotRefUpdate


def tag_name(sink: str) -> str:
    """Return the name of a sink's tag, by the sink's id."""
    return f"sinkql_{re.sub(r'[^A-Za-z0-9_]', '_', sink)}"


def set_tag(sink: str, snapshot: int) -> SetSnapshotRefUpdate:
    """Return the update that moves a sink's tag to a snapshot."""
    return SetSnapshotRefUpdate.model_validate(
        {"ref-name": tag_name(sink), "type": SnapshotRefType.TAG, "snapshot-id": snapshot}
    )


@dataclass(slots=True)
class TagState:
    """Whether a catalog accepts tags. After a refused commit with a tag, the next attempt has no tag.

    `is_accepted` is false once an attempt without a tag has succeeded after that.
    """

    is_accepted: bool = True
    _doubted: bool = False

    @property
    def is_used(self) -> bool:
        """Return whether the next attempt has a tag."""
        return self.is_accepted and not self._doubted

    def record_failure(self, error: Exception) -> None:
        """Record a failed attempt with a tag."""
        self._doubted |= isinstance(error, BadRequestError | NotImplementedError | ValidationException)

    def record_end(self, *, landed: bool) -> None:
        """Record the end of a commit, and whether it succeeded."""
        self.is_accepted = self.is_accepted and not (landed and self._doubted)
        self._doubted = False
