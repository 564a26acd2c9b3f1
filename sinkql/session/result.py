"""What a statement did, as a value: a tag, notices, and a table where it gives one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sinkql.errors import Notice


@dataclass(frozen=True, slots=True)
class Result:
    """Hold a statement's outcome: `columns` is empty where it gives no table; `tag` is such as `CREATE SINK`.

    `names` are the full names of what was created (or was there already) or dropped; `skipped` says that nothing was
    done, and a notice why: then the tag is not shown.
    """

    tag: str
    notices: tuple[Notice, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    names: tuple[str, ...] = ()
    skipped: bool = False

    @property
    def sink(self) -> str | None:
        """Return the full name of the sink that a CREATE SINK made or found."""
        return self.names[0] if self.tag == "CREATE SINK" else None
