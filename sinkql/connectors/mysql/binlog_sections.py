"""The sections of a block of the binary log: rows by table, ends of transactions, emptied and altered tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sinkql.connectors.mysql.table_map import AlteredTable, TableMap


@dataclass(slots=True)
class RowsPart:
    """Rows events of one table with one layout, in order: the places of their images, and their kinds.

    `at` has the commit time of each event in microseconds since 1970, and `ids` its transaction. `commits` has the
    transaction as in a section's `ids`, None before its end was read.
    """

    table: str
    layout: TableMap
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    commits: list[str | None] = field(default_factory=list)


@dataclass(slots=True)
class TransactionPart:
    """A section of changes that no log entry divides; `open` is whether its last transaction has not ended."""

    parts: dict[str, list[RowsPart]] = field(default_factory=dict)
    ends: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    emptied: set[str] = field(default_factory=set)
    to: str = ""
    open: bool = False


@dataclass(slots=True)
class RowsEvent:
    """A rows event of the present transaction."""

    table: str
    layout: TableMap
    kind: int
    start: int
    end: int


class Sections:
    """The sections of one block, in order."""

    def __init__(self) -> None:
        self._parts: list[TransactionPart | AlteredTable] = [TransactionPart()]

    @property
    def parts(self) -> Sequence[TransactionPart | AlteredTable]:
        """The sections, and the altered tables between them."""
        return self._parts

    @property
    def last(self) -> TransactionPart:
        """The present section."""
        last = self._parts[-1]
        if isinstance(last, TransactionPart):
            return last
        section = TransactionPart()
        self._parts.append(section)
        return section

    def end(self, position: str) -> None:
        """End the present section at a position."""
        self.last.to = position
        self._parts.append(TransactionPart())

    def alter(self, altered: AlteredTable, position: str) -> None:
        """End the present section at a position with an altered table."""
        self.end(position)
        self._parts.append(altered)

    def add_rows(self, events: Sequence[RowsEvent], id_: str, at: int, commit: str | None) -> None:
        """Add rows events of a transaction to the present section."""
        for event in events:
            parts = self.last.parts.setdefault(event.table, [])
            if not parts or parts[-1].layout is not event.layout:
                parts.append(RowsPart(event.table, event.layout))
            part = parts[-1]
            part.starts.append(event.start)
            part.ends.append(event.end)
            part.kinds.append(event.kind)
            part.at.append(at)
            part.ids.append(id_)
            part.commits.append(commit)
