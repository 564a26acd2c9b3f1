"""Measure the memory of all SinkQL processes while a Postgres transaction of many rows is copied into a table.

    python -m bench.transaction [--rows 5000000] [--cores 2] [--identity default|full]

Runs a server of the tests, a pipeline with one sink, and then one transaction. Prints the peak of the processes' summed
proportional set sizes, by kind of process. Then prints the seconds from the transaction's commit until the table has
its rows, and CPU seconds. Rows have ten columns. One is a text that the server may omit from changes unless the
identity is FULL, so that sinks keep rows by key.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import threading
import time
from typing import IO

from bench.common import HOME, ROOT, captured_script, read_back, running
from bench.meter import tree_cpu, tree_memory_by

_TABLE = """
CREATE TABLE t (id int8 PRIMARY KEY, customer int4, amount numeric(12, 2), price float8, ok boolean,
                created timestamptz, day date, name text, note text, uid uuid);
{identity}
CREATE PUBLICATION p FOR TABLE t;
INSERT INTO t SELECT {row} FROM generate_series(-10, -1) AS i;
"""
_ROW = """
i, i % 10000, (i % 100000) / 100.0, i / 7.0, i % 3 = 0, timestamptz '2024-01-01' + i * interval '1 second',
date '2024-01-01' + i % 1000, 'customer ' || i % 5000, CASE WHEN i % 5 <> 0 THEN 'a note of some length ' || i END,
md5(i::text)::uuid
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--identity", choices=("default", "full"), default="default")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    from support.postgres import postgres

    home = HOME / "transaction"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    with postgres({"max_wal_size": "8GB"}, segment_mb=16) as server:
        database = server.database()
        identity = "ALTER TABLE t REPLICA IDENTITY FULL;" if arguments.identity == "full" else ""
        server.execute(_TABLE.format(identity=identity, row=_ROW), database)
        script = captured_script(server, database, "t", "id", cores=arguments.cores, every="1s")
        (home / "pipeline.sql").write_text(script)
        with running(home) as (pid, events):
            rows = _committed(events, 10)
            sampler = _Sampler(pid)
            sampler.start()
            cpu = tree_cpu(pid)
            server.execute(f"INSERT INTO t SELECT {_ROW} FROM generate_series(1, {arguments.rows}) AS i", database)
            began = time.monotonic()
            rows += _committed(events, arguments.rows)
            took, used = time.monotonic() - began, tree_cpu(pid) - cpu
            sampler.done.set()
            sampler.join()
    count = read_back(home / "lake" / "n" / "t", ["id"])
    assert count == (arguments.rows + 10, arguments.rows * (arguments.rows + 1) // 2 - 55), count
    parts = ", ".join(f"{name} {size:,.0f}" for name, size in sorted(sampler.peak.items()))
    print(f"{arguments.rows:,} rows: {sum(sampler.peak.values()):,.0f} MB ({parts}), {took:.0f} s, {used:.0f} CPU-s")


def _committed(output: IO[str], rows: int) -> int:
    """Read events until `rows` rows are committed; return the number of rows."""
    found = 0
    for line in output:
        if line.startswith("{") and (event := json.loads(line)).get("event") == "committed":
            found += int(event["rows"])
            if found >= rows:
                return found
    raise RuntimeError("the pipeline ended")


class _Sampler(threading.Thread):
    """A thread that samples the memory by kind of process twice a second, and keeps the peak."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.done = threading.Event()
        self.peak: dict[str, float] = {}
        self._pid = pid

    def run(self) -> None:
        while not self.done.wait(0.5):
            found = tree_memory_by(self._pid)
            if sum(found.values()) > sum(self.peak.values()):
                self.peak = found


if __name__ == "__main__":
    main()
