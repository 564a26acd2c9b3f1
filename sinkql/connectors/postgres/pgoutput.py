"""Decode blocks of messages of a logical replication stream (pgoutput, protocol 1) into capture events."""

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
from sinkql.connectors.postgres.history_check import ReadTransaction
from sinkql.connectors.postgres.relation import Relation, SentTable, read_relation, relate
from sinkql.connectors.postgres.rows import DELETE, INSERT, UPDATE, TableChanges, table_rows
from sinkql.connectors.postgres.slot import format_place
from sinkql.connectors.postgres.type import server_table
from sinkql.connectors.postgres.value import EPOCH_US
from sinkql.decode.columnar import Block, Offsets

HEADER = 25
"""Bytes before each message: a kind, the message's place in the server's log, the log's end, and the time."""
_BEGIN, _COMMIT, _RELATION, _TRUNCATE = b"BCRT"


@dataclass(frozen=True, slots=True)
class _Messages:
    """The messages of a block: where each begins and ends, and its kind."""

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
    """Decodes blocks of messages in order. A transaction may continue in the next block.

    Committed transactions are appended to `received`.
    """

    def __init__(
        self,
        tables: Sequence[CapturedTable],
        position: Callable[[int], Position],
        to: Position,
        received: deque[ReadTransaction],
    ) -> None:
        self._tables_by_name = {tuple(table.name): table for table in tables}
        self._tables_by_oid = {server_table(table.options).oid: table for table in tables}
        self._position = position
        self._relations: dict[int, Relation | None] = {}
        self._to = to
        self._in_transaction = False
        self._commit_at = 0
        self._transaction = 0
        self._received = received
        self.truncations: list[tuple[str, int]] = []
        """Tables that were emptied, and the ids of the transactions."""

    @property
    def place(self) -> int:
        """The end of the last complete transaction in the server's log."""
        return int(self._to[8:], 16)

    @property
    def within(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._in_transaction

    def decode(self, parts: Sequence[bytes | memoryview], stops: Sequence[Position] = ()) -> list[Event]:
        """Return the events of a block's messages; raise GarbledError.

        A `RowsChanged` ends at each of `stops`. If a stop is between two transactions, a `PositionAdvanced` precedes
        the second one, which may be long.
        """
        messages = _Messages.of(parts)
        events: list[Event] = []
        start, emptied = 0, frozenset[str]()
        for number in self._find_boundaries(messages, stops):
            if messages.kinds[number] == _RELATION:
                sent = read_relation(messages.message(number))
                earlier = self._relations.get(sent.oid)
                if earlier is not None and earlier.sent == sent:
                    continue
                relation = self._relate(sent)
                if relation is not None and (earlier is not None or relation.reshaped is not None):
                    events += self._decode_rows(messages, start, number, emptied, stops)
                    start, emptied = number, frozenset()
                    events += _schema_change(earlier, relation)
                self._relations[sent.oid] = relation
            elif messages.kinds[number] == _TRUNCATE:
                events += self._decode_rows(messages, start, number, emptied, stops)
                start, emptied = number, self._find_truncated(messages.message(number))
                self.truncations += [(table, self._transaction) for table in emptied]
            else:
                events += self._decode_rows(messages, start, number, emptied, stops)
                start, emptied = number, frozenset()
        return [*events, *self._decode_rows(messages, start, len(messages.starts), emptied, stops)]

    def _find_boundaries(self, messages: _Messages, stops: Sequence[Position]) -> list[int]:
        """Return the numbers of the messages before which a part of the block may end."""
        kinds = messages.kinds
        boundaries = set(np.flatnonzero((kinds == _RELATION) | (kinds == _TRUNCATE)).tolist())
        if stops:
            commits = np.flatnonzero(kinds == _COMMIT).tolist()
            ends = [self._position(int(messages.block.i8[messages.starts[commit] + 10])) for commit in commits]
            for stop in stops:
                until = [commit for commit, end in zip(commits, ends, strict=True) if end <= stop]
                if until and until[-1] + 1 < len(kinds):
                    boundaries.add(until[-1] + 1)
        return sorted(boundaries)

    def _relate(self, sent: SentTable) -> Relation | None:
        table = self._tables_by_oid.get(sent.oid) or self._tables_by_name.get(sent.name)
        return None if table is None else relate(table, sent)

    def _find_truncated(self, message: bytes) -> frozenset[str]:
        """Return the captured tables of a Truncate message."""
        count = int.from_bytes(message[1:5], "big")
        oids = [int.from_bytes(message[at : at + 4], "big") for at in range(6, 6 + 4 * count, 4)]
        relations = [self._relations.get(oid) for oid in oids]
        return frozenset(relation.table.id for relation in relations if relation is not None and relation.columns)

    def _decode_rows(
        self, messages: _Messages, start: int, end: int, emptied: frozenset[str], stops: Sequence[Position]
    ) -> list[Event]:
        """Return the rows of a range of messages, whose tables keep their layouts."""
        kinds = messages.kinds[start:end]
        if not len(kinds):
            return []
        passed = self._pass_stop(messages, start, stops)
        block, starts = messages.block, messages.starts[start:end]
        begins, commits = np.flatnonzero(kinds == _BEGIN), np.flatnonzero(kinds == _COMMIT)
        times = np.concatenate([[self._commit_at], block.i8[starts[begins] + 9].astype(np.int64) + EPOCH_US])
        ids = np.concatenate([[self._transaction], block.view(">u4")[starts[begins] + 17].astype(np.int64)])
        groups = np.cumsum(kinds == _BEGIN)
        rows = np.flatnonzero((kinds == INSERT) | (kinds == UPDATE) | (kinds == DELETE))
        tables = self._decode_tables(messages, start, rows, times[groups[rows]], ids[groups[rows]])
        ends = [self._position(end_place) for end_place in block.i8[starts[commits] + 10].tolist()]
        done = ids[groups[commits]].tolist()
        begun, ended, at = (block.i8[starts[commits] + place].tolist() for place in (2, 10, 18))
        self._received.extend(map(ReadTransaction, begun, ended, at, done))
        self._commit_at, self._transaction = int(times[-1]), int(ids[-1])
        last_begin, last_commit = (int(positions[-1]) if len(positions) else -1 for positions in (begins, commits))
        self._in_transaction = last_begin > last_commit if max(last_begin, last_commit) >= 0 else self._in_transaction
        self._to = ends[-1] if ends else self._to
        if not (tables or ends or emptied):
            return passed
        return [*passed, RowsChanged(self._to, tables, Transactions(ends, done), emptied, open=self._in_transaction)]

    def _pass_stop(self, messages: _Messages, start: int, stops: Sequence[Position]) -> list[Event]:
        """Return a PositionAdvanced for the last stop before a transaction that begins, if there is a stop."""
        if not stops or messages.kinds[start] != _BEGIN:
            return []
        commit = self._position(int(messages.block.i8[messages.starts[start] + 1]))
        between = [stop for stop in stops if self._to < stop <= commit]
        return [PositionAdvanced(between[-1])] if between else []

    def _decode_tables(
        self, messages: _Messages, start: int, rows: Offsets, at: NDArray[np.int64], ids: NDArray[np.int64]
    ) -> dict[str, Sequence[TableRows]]:
        block = messages.block
        starts, ends = messages.starts[start:][rows], messages.ends[start:][rows]
        kinds = messages.kinds[start:][rows]
        oids = block.view(">u4")[starts + 1]
        tables: dict[str, Sequence[TableRows]] = {}
        for oid in np.unique(oids).tolist():
            relation = self._relations.get(oid)
            if relation is None or not relation.columns:
                continue
            members = np.flatnonzero(oids == oid)

            def named(number: int, members: Offsets = members) -> str:
                return format_place(int(block.i8[starts[members[number]] - HEADER + 1]))

            changes = TableChanges(
                block, starts[members], ends[members], kinds[members], at[members], ids[members], named
            )
            tables[relation.table.id] = [table_rows(relation, changes)]
        return tables


def _schema_change(earlier: Relation | None, relation: Relation) -> list[Event]:
    """Return the schema change if the server describes a table differently than before."""
    before = None if earlier is None else earlier.reshaped
    if relation.reshaped == before:
        return []
    return [relation.reshaped or SchemaChanged(relation.table)]
