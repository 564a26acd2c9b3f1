"""Messages of a logical replication stream (pgoutput, protocol 1), a block at a time → what a capture gets of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sinkql.connector_api.cdc import (
    CapturedTable,
    Event,
    Position,
    PositionAdvanced,
    RowsChanged,
    SchemaChanged,
    TableRows,
    Transactions,
)
from sinkql.connectors.postgres.history_check import ReadHistory
from sinkql.connectors.postgres.relation import Relation, SentTable, read_relation, relate
from sinkql.connectors.postgres.rows import DELETE, INSERT, UPDATE, Changes, table_rows
from sinkql.connectors.postgres.slot import shown
from sinkql.connectors.postgres.type import server_table
from sinkql.connectors.postgres.value import EPOCH_US
from sinkql.decode.columnar import Block, Offsets

HEADER = 25
"""Bytes before each message: a letter, where it stands in the server's log, the log's end, the time."""
_BEGIN, _COMMIT, _RELATION, _TRUNCATE = b"BCRT"


@dataclass(frozen=True, slots=True)
class _Messages:
    """A block of messages: where each begins and ends, and its kind."""

    block: Block
    starts: Offsets
    ends: Offsets
    kinds: NDArray[np.uint8]

    @classmethod
    def of(cls, parts: Sequence[bytes | memoryview]) -> _Messages:
        lengths = np.fromiter(map(len, parts), np.int64, len(parts))
        ends = np.cumsum(lengths)
        block = Block(b"".join(parts))
        starts = ends - lengths + HEADER
        return cls(block, starts, ends, block.bytes[starts])

    def message(self, number: int) -> bytes:
        return self.block.slice(int(self.starts[number]), int(self.ends[number] - self.starts[number]))


class Messages:
    """Decode blocks of messages, one after the other; a transaction may go on from one block to the next."""

    def __init__(self, tables: Sequence[CapturedTable], position: Callable[[int], Position], to: Position) -> None:
        self._named = {tuple(each.name): each for each in tables}
        self._numbered = {server_table(each.options).oid: each for each in tables}
        self._position = position
        self._relations: dict[int, Relation | None] = {}
        self._to = to
        self._within = False
        self._commit_at = 0
        self._transaction = 0
        self.standings: deque[ReadHistory] = deque()
        self.truncations: list[tuple[str, int]] = []
        """Tables that were emptied, and the ids of the transactions."""

    @property
    def place(self) -> int:
        """Where the last whole transaction ends in the server's log."""
        return int(self._to[8:], 16)

    @property
    def within(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._within

    def decode(self, parts: Sequence[bytes | memoryview], stops: Sequence[Position] = ()) -> list[Event]:
        """Return what messages say; a `RowsChanged` ends at each of `stops` that it would go past. Raises GarbledError.

        Where a stop is between two transactions, a `PositionAdvanced` goes there before the second, which may be a long
        one.
        """
        messages = _Messages.of(parts)
        events: list[Event] = []
        start, emptied = 0, frozenset[str]()
        for number in self._special(messages, stops):
            if messages.kinds[number] == _RELATION:
                sent = read_relation(messages.message(number))
                known = self._relations.get(sent.oid)
                if known is not None and known.sent == sent:
                    continue
                relation = self._relate(sent)
                if relation is not None and (known is not None or relation.reshaped is not None):
                    events += self._changed(messages, start, number, emptied, stops)
                    start, emptied = number, frozenset()
                    events += _reshaped(known, relation)
                self._relations[sent.oid] = relation
            elif messages.kinds[number] == _TRUNCATE:
                events += self._changed(messages, start, number, emptied, stops)
                start, emptied = number, self._emptied(messages.message(number))
                self.truncations += [(table, self._transaction) for table in emptied]
            else:
                events += self._changed(messages, start, number, emptied, stops)
                start, emptied = number, frozenset()
        return [*events, *self._changed(messages, start, len(messages.starts), emptied, stops)]

    def _special(self, messages: _Messages, stops: Sequence[Position]) -> list[int]:
        """Return the numbers of messages before which a part of the block may end."""
        kinds = messages.kinds
        found = set(np.flatnonzero((kinds == _RELATION) | (kinds == _TRUNCATE)).tolist())
        if stops:
            commits = np.flatnonzero(kinds == _COMMIT).tolist()
            ends = [self._position(int(messages.block.i8[messages.starts[each] + 10])) for each in commits]
            for stop in stops:
                until = [each for each, end in zip(commits, ends, strict=True) if end <= stop]
                if until and until[-1] + 1 < len(kinds):
                    found.add(until[-1] + 1)
        return sorted(found)

    def _relate(self, sent: SentTable) -> Relation | None:
        table = self._numbered.get(sent.oid) or self._named.get(sent.name)
        return None if table is None else relate(table, sent)

    def _emptied(self, message: bytes) -> frozenset[str]:
        """Return the captured tables of a Truncate message."""
        count = int.from_bytes(message[1:5], "big")
        oids = [int.from_bytes(message[at : at + 4], "big") for at in range(6, 6 + 4 * count, 4)]
        found = [self._relations.get(oid) for oid in oids]
        return frozenset(each.table.id for each in found if each is not None and each.columns)

    def _changed(
        self, messages: _Messages, start: int, end: int, emptied: frozenset[str], stops: Sequence[Position]
    ) -> list[Event]:
        """Return the rows of messages from one to before another, all of tables as they are now known."""
        kinds = messages.kinds[start:end]
        if not len(kinds):
            return []
        passed = self._passed(messages, start, stops)
        block, starts = messages.block, messages.starts[start:end]
        begins, commits = np.flatnonzero(kinds == _BEGIN), np.flatnonzero(kinds == _COMMIT)
        times = np.concatenate([[self._commit_at], block.i8[starts[begins] + 9].astype(np.int64) + EPOCH_US])
        ids = np.concatenate([[self._transaction], block.view(">u4")[starts[begins] + 17].astype(np.int64)])
        which = np.cumsum(kinds == _BEGIN)
        rows = np.flatnonzero((kinds == INSERT) | (kinds == UPDATE) | (kinds == DELETE))
        tables = self._tables(messages, start, rows, times[which[rows]], ids[which[rows]])
        ends = [self._position(each) for each in block.i8[starts[commits] + 10].tolist()]
        done = ids[which[commits]].tolist()
        begun, ended, at = (block.i8[starts[commits] + place].tolist() for place in (2, 10, 18))
        self.standings.extend(map(ReadHistory, begun, ended, at, done))
        self._commit_at, self._transaction = int(times[-1]), int(ids[-1])
        last_begin, last_commit = (int(each[-1]) if len(each) else -1 for each in (begins, commits))
        self._within = last_begin > last_commit if max(last_begin, last_commit) >= 0 else self._within
        self._to = ends[-1] if ends else self._to
        if not (tables or ends or emptied):
            return passed
        return [*passed, RowsChanged(self._to, tables, Transactions(ends, done), emptied, open=self._within)]

    def _passed(self, messages: _Messages, start: int, stops: Sequence[Position]) -> list[Event]:
        """Return that the server is at the last of the stops between the transaction before and one that begins."""
        if not stops or messages.kinds[start] != _BEGIN:
            return []
        commit = self._position(int(messages.block.i8[messages.starts[start] + 1]))
        between = [each for each in stops if self._to < each <= commit]
        return [PositionAdvanced(between[-1])] if between else []

    def _tables(
        self, messages: _Messages, start: int, rows: Offsets, at: NDArray[np.int64], ids: NDArray[np.int64]
    ) -> dict[str, Sequence[TableRows]]:
        block = messages.block
        starts, ends = messages.starts[start:][rows], messages.ends[start:][rows]
        kinds = messages.kinds[start:][rows]
        oids = block.view(">u4")[starts + 1]
        found: dict[str, Sequence[TableRows]] = {}
        for oid in np.unique(oids).tolist():
            relation = self._relations.get(oid)
            if relation is None or not relation.columns:
                continue
            own = np.flatnonzero(oids == oid)

            def named(number: int, own: Offsets = own) -> str:
                return shown(int(block.i8[starts[own[number]] - HEADER + 1]))

            changes = Changes(block, starts[own], ends[own], kinds[own], at[own], ids[own], named)
            found[relation.table.id] = [table_rows(relation, changes)]
        return found


def _reshaped(known: Relation | None, relation: Relation) -> list[Event]:
    """Return what is to be said of a table that the server describes again."""
    before = None if known is None else known.reshaped
    if relation.reshaped == before:
        return []
    return [relation.reshaped or SchemaChanged(relation.table)]
