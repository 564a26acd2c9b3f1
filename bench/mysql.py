"""Measure the capture of a MariaDB server: rows per CPU-second of receiving, decoding and writing.

Counts the CPU of this process. Uses the MariaDB server of the tests.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sinkql.connector_api.cdc import CapturedTable, Key, Position
    from support.mariadb import MariaDb

_TABLE = """
CREATE TABLE d.t (id bigint PRIMARY KEY, customer int, amount decimal(12, 2), price double, ok tinyint(1),
                  created datetime(6), day date, name varchar(80), note varchar(80), uid char(36))
"""
_ROW = """
seq, seq % 10000, (seq % 100000) / 100, seq / 7, seq % 3 = 0, TIMESTAMP '2024-01-01 00:00:00' + INTERVAL seq SECOND,
DATE '2024-01-01' + INTERVAL seq % 1000 DAY, CONCAT('customer ', seq % 5000),
IF(seq % 5, CONCAT('a note of some length ', seq), NULL), UUID()
"""
_MANY = "INSERT INTO d.t SELECT {row} FROM mysql.seq_1_to_{rows}"
_UPDATE = "UPDATE d.t SET amount = amount + 1, name = CONCAT(name, '!')"
_ONE_EACH = "FOR i IN 1..{rows} DO INSERT INTO d.t SELECT {row} FROM (SELECT i AS seq) AS one; END FOR"


def main() -> None:
    """Measure each kind of change and a first snapshot, each in a new table."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.mariadb import mariadb

    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=300_000)
    rows = arguments.parse_args().rows
    with tempfile.TemporaryDirectory() as folder, mariadb(Path(folder), "--sync-binlog=0") as server:
        for name, first, then in (
            ("inserts", "", _MANY),
            ("updates", _MANY, _UPDATE),
            ("one row a transaction", "", _ONE_EACH),
        ):
            print(f"{name:24} {_changes(server, rows, first, then):10,.0f}", flush=True)
        print(f"{'first snapshot':24} {_snapshot(server, rows):10,.0f}", flush=True)


def _prepared(server: MariaDb) -> CapturedTable:
    from mysql.captured import table_of

    server.run("DROP DATABASE IF EXISTS d", "CREATE DATABASE d", _TABLE)
    return table_of(server, "d", "t")


def _changes(server: MariaDb, rows: int, first: str, then: str) -> float:
    """Return rows per CPU-second, from the socket to the files of the log."""
    from mysql.captured import stream_of
    from sinkql.capture import data_file
    from sinkql.capture.log_store import FolderLogStore
    from sinkql.connector_api.cdc import PositionAdvanced, RowsChanged

    table = _prepared(server)
    if first:
        server.run(first.format(row=_ROW, rows=rows))
    with stream_of(server) as stream, tempfile.TemporaryDirectory() as folder:
        start = stream.create()
        server.run(then.format(row=_ROW, rows=rows))
        end = stream.end()
        stream.begin(start, [table])
        done: Position = ""
        count, began = 0, time.process_time()
        while done < end:
            for each in stream.receive(1.0):
                if isinstance(each, RowsChanged | PositionAdvanced):
                    done = max(done, each.to)
                if isinstance(each, RowsChanged):
                    for id_, parts in each.tables.items():
                        count += sum(int(part.rows.num_rows) for part in parts)
                        data_file.write(FolderLogStore(Path(folder)), id_, 1, parts)
        assert count == rows
        return count / (time.process_time() - began)


def _snapshot(server: MariaDb, rows: int) -> float:
    """Return rows per CPU-second of a snapshot, in chunks of 8 MB."""
    from mysql.captured import stream_of
    from sinkql.capture import data_file
    from sinkql.capture.log_store import FolderLogStore

    table = _prepared(server)
    server.run(_MANY.format(row=_ROW, rows=rows))
    after: Key | None = None
    count, began = 0, time.process_time()
    with stream_of(server) as stream, tempfile.TemporaryDirectory() as folder:
        while True:
            with stream.chunk(table) as chunk:
                part = chunk.read(after, 8 << 20)
            data_file.write(FolderLogStore(Path(folder)), table.id, 1, list(part.rows))
            count += sum(int(each.rows.num_rows) for each in part.rows)
            after = part.last
            if after is None:
                break
    assert count == rows
    took: float = time.process_time() - began
    return count / took


if __name__ == "__main__":
    main()
