"""Measure the capture of a Postgres server: rows per CPU-second of receiving, decoding and writing.

Counts the CPU of this process. Uses the Postgres server of the tests.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sinkql.connector_api.cdc import CapturedTable, Key, Position
    from sinkql.connectors.postgres.stream import PostgresStream
    from support.postgres import Postgres

_TABLE = """
CREATE TABLE {name} (id int8 PRIMARY KEY, customer int4, amount numeric(12, 2), price float8, ok boolean,
                     created timestamptz, day date, name text, note text, uid uuid);
{identity}
CREATE PUBLICATION p FOR TABLE {name};
"""
_ROW = """
i, i % 10000, (i % 100000) / 100.0, i / 7.0, i % 3 = 0, timestamptz '2024-01-01' + i * interval '1 second',
date '2024-01-01' + i % 1000, 'customer ' || i % 5000, CASE WHEN i % 5 <> 0 THEN 'a note of some length ' || i END,
md5(i::text)::uuid
"""
_MANY = "INSERT INTO {name} SELECT {row} FROM generate_series(1, {rows}) AS i"
_UPDATE = "UPDATE {name} SET amount = amount + 1, name = name || '!'"
_ONE_EACH = """
DO $$ BEGIN FOR i IN 1..{rows} LOOP INSERT INTO {name} SELECT {row}; COMMIT; END LOOP; END $$
"""


@dataclass
class Spent:
    """Rows, and the CPU seconds that this process spent on each step."""

    rows: int = 0
    receiving: float = 0
    decoding: float = 0
    writing: float = 0

    @property
    def total(self) -> float:
        """Return the CPU seconds of all steps."""
        return self.receiving + self.decoding + self.writing

    def __str__(self) -> str:
        parts = (
            ("in all", self.total),
            ("received", self.receiving),
            ("decoded", self.decoding),
            ("written", self.writing),
        )
        return "   ".join(f"{name} {self.rows / took:10,.0f}" for name, took in parts if took)


def main() -> None:
    """Measure each kind of change and a first snapshot, each in a new database."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.postgres import postgres

    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=300_000)
    rows = arguments.parse_args().rows
    with postgres({"shared_buffers": "256MB", "max_wal_size": "4GB"}, segment_mb=16) as server:
        for name, first, then, full in (
            ("inserts", "", _MANY, False),
            ("updates", _MANY, _UPDATE, False),
            ("updates, identity FULL", _MANY, _UPDATE, True),
            ("one row a transaction", "", _ONE_EACH, False),
        ):
            print(f"{name:24} {_changes(server, rows, first, then, full=full)}", flush=True)
        print(f"{'first snapshot':24} {_snapshot(server, rows)}", flush=True)


def _prepared(server: Postgres, *, full: bool) -> tuple[str, dict[str, CapturedTable]]:
    from postgres.reading import tables

    database = server.database()
    identity = "ALTER TABLE t REPLICA IDENTITY FULL;" if full else ""
    server.execute(_TABLE.format(name="t", identity=identity), database)
    return database, tables(server, database)


def stream(server: Postgres, database: str) -> PostgresStream:
    """Return a stream of the publication `p` of a database."""
    from postgres.reading import login
    from sinkql.connector_api.cdc import CapturedSource
    from sinkql.connectors.postgres.client import failure
    from sinkql.connectors.postgres.stream import PostgresStream

    source = CapturedSource(str(uuid.uuid4()), "s", "postgres", None, {"publication": "p", "tuning": {}})
    return PostgresStream(login(server, database), source, failure)


def _changes(server: Postgres, rows: int, first: str, then: str, *, full: bool) -> Spent:
    database, found = _prepared(server, full=full)
    if first:
        server.execute(first.format(name="t", row=_ROW, rows=rows), database)
    reading, spent = stream(server, database), Spent()
    start = reading.create()
    server.execute(then.format(name="t", row=_ROW, rows=rows), database)
    end = reading.end()
    reading.begin(start, list(found.values()))
    with tempfile.TemporaryDirectory() as folder:
        read(reading, end, spent, Path(folder))
    reading.close()
    server.drop(database)
    return spent


def read(stream: PostgresStream, end: Position, spent: Spent, folder: Path) -> None:
    """Write the changes of a started stream, up to a position, into files of a log."""
    from sinkql.capture import data_file
    from sinkql.capture.log_store import FolderLogStore
    from sinkql.connector_api.cdc import PositionAdvanced, RowsChanged

    messages = stream._messages
    assert messages is not None
    decode = messages.decode

    def timed(*arguments: object) -> object:
        began = time.process_time()
        try:
            return decode(*arguments)  # type: ignore[arg-type]  # the arguments of the original call
        finally:
            spent.decoding += time.process_time() - began

    messages.decode = timed  # type: ignore[assignment,method-assign]  # meters the original
    done: Position = ""
    while done < end:
        began, decoded = time.process_time(), spent.decoding
        events = stream.receive(1.0)
        received = time.process_time()
        spent.receiving += received - began - (spent.decoding - decoded)
        for each in events:
            if isinstance(each, RowsChanged | PositionAdvanced):
                done = max(done, each.to)
            if isinstance(each, RowsChanged):
                for table, parts in each.tables.items():
                    spent.rows += sum(part.rows.num_rows for part in parts)
                    data_file.write(FolderLogStore(folder), table, 1, parts)
        spent.writing += time.process_time() - received


def _snapshot(server: Postgres, rows: int) -> Spent:
    database, found = _prepared(server, full=False)
    server.execute(_MANY.format(name="t", row=_ROW, rows=rows), database)
    reading, spent = stream(server, database), Spent()
    with tempfile.TemporaryDirectory() as folder:
        snapshot(reading, found["t"], spent, Path(folder))
    reading.close()
    server.drop(database)
    return spent


def snapshot(stream: PostgresStream, table: CapturedTable, spent: Spent, folder: Path) -> None:
    """Write all rows of a table into files of a log."""
    from sinkql.capture import data_file
    from sinkql.capture.log_store import FolderLogStore

    after: Key | None = None
    while True:
        began = time.process_time()
        with stream.chunk(table) as chunk:
            part = chunk.read(after, 8 << 20)
            rows = list(part.rows)
        read = time.process_time()
        data_file.write(FolderLogStore(folder), "t", 1, rows)
        spent.receiving += read - began
        spent.writing += time.process_time() - read
        spent.rows += sum(each.rows.num_rows for each in rows)
        after = part.last
        if after is None:
            return


if __name__ == "__main__":
    main()
