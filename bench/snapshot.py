"""Measure the first snapshot of a Postgres table: what a row costs the reader and the server, through ADBC and psycopg.

    python -m bench.snapshot [--rows 800000] [--repeat 3] [--table]

The table is like TPC-H's lineitem. Both ways read it in turns in this process, in the chunks of a capture, once with a
quarter of the rows and once with all: the slope leaves out what a start costs. With --table, a pipeline also writes an
Iceberg table of both sizes, and the CPU is that of its processes, without the server.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cdc import _ROWS, _TABLE
from bench.common import HOME, ROOT, captured_script, median, run_sinkql, show
from bench.figure import report

if TYPE_CHECKING:
    from sinkql.connector_api.cdc import Key
    from support.postgres import Postgres

_WAYS = ("psycopg", "ADBC")
_CHUNK_BYTES = 8 << 20
_BACKENDS = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'sinkql%'"


def main() -> None:
    """Print the medians of both ways."""
    sys.path.insert(0, str(ROOT / "tests"))
    from sinkql.allocator import keep_freed
    from support.postgres import postgres

    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=800_000)
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument("--table", action="store_true")
    given = arguments.parse_args()
    sizes = (given.rows // 4, given.rows)
    keep_freed()  # as captures do
    with postgres({"max_wal_size": "8GB"}, segment_mb=16) as server:
        databases = {rows: _filled(server, rows) for rows in sizes}
        _print_reader(server, databases, given.repeat)
        if given.table:
            _print_table(server, databases)


def _filled(server: Postgres, rows: int) -> str:
    database = server.database()
    server.execute(_TABLE, database)
    server.execute(_ROWS.format(last=rows - 1), database)
    server.execute("VACUUM ANALYZE lineitem", database)
    return database


def _print_reader(server: Postgres, databases: dict[int, str], repeat: int) -> None:
    reader: dict[str, list[float]] = {way: [] for way in _WAYS}
    backends: dict[str, list[float]] = {way: [] for way in _WAYS}
    few, many = databases
    for _ in range(repeat):
        for way in _WAYS:
            (first, first_server), (all_, all_server) = (
                _read(server, databases[rows], rows, way) for rows in (few, many)
            )
            reader[way].append((all_ - first) / (many - few) * 1e9)
            backends[way].append((all_server - first_server) / (many - few) * 1e9)
    base = median(reader["psycopg"])
    rows = [("way", "reader, ns a row", "times psycopg", "server, ns a row")]
    for way in _WAYS:
        own = median(reader[way])
        rows.append((way, f"{own:,.0f}", f"{own / base:.2f}", f"{median(backends[way]):,.0f}"))
    show(rows)
    report("snapshot reader", median(reader["ADBC"]), base)


def _read(server: Postgres, database: str, rows: int, way: str) -> tuple[float, float]:
    """Return the CPU seconds of reading and decoding a table, of this process and of the server's backends."""
    from bench.postgres import stream
    from postgres.reading import tables

    table = tables(server, database)["lineitem"]
    reading = stream(server, database)
    if way == "psycopg":
        reading._driver.refuse()
    after: Key | None = None
    count, backends, began = 0, 0.0, time.process_time()
    while True:
        with reading.chunk(table) as chunk:
            part = chunk.read(after, _CHUNK_BYTES)
            count += sum(each.rows.num_rows for each in part.rows)
            before = time.process_time()
            backends += sum(_cpu(pid) for (pid,) in server.execute(_BACKENDS))
            began += time.process_time() - before
        after = part.last
        if after is None:
            break
    own = time.process_time() - began
    reading.close()
    assert count == rows, (count, rows)
    return own, backends


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _print_table(server: Postgres, databases: dict[int, str]) -> None:
    """Print the rows per CPU-second of a pipeline into an Iceberg table, by the slope between two sizes."""
    home = HOME / "snapshot"
    shutil.rmtree(home, ignore_errors=True)
    costs = {}
    for rows, database in databases.items():
        script = captured_script(server, database, "lineitem", "l_orderkey, l_linenumber", cores=2, every="10s")
        costs[rows] = run_sinkql(script, home / str(rows))
    few, many = databases
    slope = (many - few) / (costs[many].cpu_s - costs[few].cpu_s)
    spent = ", ".join(f"{cost.cpu_s:.1f} CPU-s and {cost.wall_s:.0f} s for {rows:,}" for rows, cost in costs.items())
    print(f"to an Iceberg table: {slope:,.0f} rows a CPU-second ({spent}; {costs[many].peak_mb:,.0f} MB)")
    report("snapshot table", slope)


if __name__ == "__main__":
    main()
