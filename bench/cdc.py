"""Compare SinkQL with Debezium and Flink CDC: copy a Postgres table and its changes into a log and into a table.

    python -m bench.cdc [--rows 3000000] [--updates 500000] [--cores 2] [--only log debezium table flink]

The server creates a table like TPC-H's lineitem. Each program first reads all rows, then updates of one row in six,
which commit a thousand at a time.

* Log: SinkQL's capture writes its log. Debezium's embedded engine writes its events to a file as JSON.
* Table: a SinkQL pipeline and Flink SQL, with Flink's CDC connector for Postgres, write an Iceberg table.

Prints rows per CPU-second of each process tree, without the server; the CPU of a run without rows is subtracted. Needs
Maven, which downloads Debezium and Flink the first time, and a Java compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.common import HOME, ROOT, captured_script, show
from bench.figure import report
from bench.meter import ENVIRONMENT, measure, tree_cpu
from bench.peer import class_path, flink_command

if TYPE_CHECKING:
    from support.postgres import Postgres

_TABLE = """
CREATE TABLE lineitem (l_orderkey int8, l_partkey int8 NOT NULL, l_suppkey int8 NOT NULL, l_linenumber int4,
  l_quantity numeric(12, 2) NOT NULL, l_extendedprice numeric(12, 2) NOT NULL, l_discount numeric(12, 2) NOT NULL,
  l_tax numeric(12, 2) NOT NULL, l_returnflag text NOT NULL, l_linestatus text NOT NULL, l_shipdate date NOT NULL,
  l_commitdate date NOT NULL, l_receiptdate date NOT NULL, l_shipinstruct text NOT NULL, l_shipmode text NOT NULL,
  l_comment text NOT NULL, PRIMARY KEY (l_orderkey, l_linenumber));
ALTER TABLE lineitem REPLICA IDENTITY FULL;
CREATE PUBLICATION p FOR TABLE lineitem;
CREATE TABLE empty (id int8 PRIMARY KEY);
"""
_ROWS = """
INSERT INTO lineitem SELECT i / 4, (i * 7919) % 200000, (i * 104729) % 10000, i % 4 + 1, i % 50 + 1,
  (i * 31 % 9000000) / 100.0 + 900, (i % 11) / 100.0, (i % 9) / 100.0, substr('RAN', (i % 3 + 1)::int, 1),
  substr('OF', (i % 2 + 1)::int, 1), date '1992-01-02' + (i % 2526)::int, date '1992-01-31' + (i % 2466)::int,
  date '1992-01-03' + (i % 2554)::int,
  (ARRAY['DELIVER IN PERSON', 'COLLECT COD', 'NONE', 'TAKE BACK RETURN'])[i % 4 + 1],
  (ARRAY['REG AIR', 'AIR', 'RAIL', 'SHIP', 'TRUCK', 'MAIL', 'FOB'])[i % 7 + 1],
  'carefully final deposits ' || substr(md5(i::text), 1, (i % 18 + 1)::int)
FROM generate_series(0::int8, {last}) AS i
"""
_UPDATES = """
DO $$ BEGIN FOR part IN 0..{last} LOOP
  UPDATE lineitem SET l_quantity = l_quantity + 1, l_comment = l_comment || '.'
    WHERE l_orderkey >= part * 250 AND l_orderkey < part * 250 + 250;
  COMMIT;
END LOOP; END $$
"""
_COLUMNS = """
l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT, l_quantity DECIMAL(12, 2),
l_extendedprice DECIMAL(12, 2), l_discount DECIMAL(12, 2), l_tax DECIMAL(12, 2), l_returnflag STRING,
l_linestatus STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING, l_shipmode STRING,
l_comment STRING, PRIMARY KEY (l_orderkey, l_linenumber) NOT ENFORCED
"""
_FLINK = """
CREATE TABLE IF NOT EXISTS ice.n.t ({columns}) WITH ('format-version' = '2', 'write.upsert.enabled' = 'true');
CREATE TABLE lineitem ({columns}) WITH ('connector' = 'postgres-cdc', 'hostname' = '127.0.0.1', 'port' = '{port}',
  'username' = 'postgres', 'password' = 'postgres', 'database-name' = '{database}', 'schema-name' = 'public',
  'table-name' = 'lineitem', 'slot.name' = 'flink', 'decoding.plugin.name' = 'pgoutput',
  'scan.incremental.snapshot.enabled' = 'true', 'debezium.publication.name' = 'p');
INSERT INTO ice.n.t SELECT * FROM lineitem;
"""


@dataclass(frozen=True)
class _Sizes:
    rows: int
    updates: int
    cores: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--updates", type=int, default=500_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=["log", "debezium", "table", "flink"])
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    from support.postgres import postgres

    sizes = _Sizes(arguments.rows, arguments.updates, arguments.cores)
    home = HOME / "cdc"
    shutil.rmtree(home, ignore_errors=True)
    found: dict[str, tuple[float, float]] = {}
    table = [("what", "rows a CPU-second", "updates a CPU-second", "CPU-s", "CPU-s without rows")]
    ways = {"log": _log, "debezium": _debezium, "table": _table, "flink": _flink}
    with postgres({"max_wal_size": "8GB", "max_replication_slots": "20"}, segment_mb=16) as server:
        for name in arguments.only:
            folder = home / name
            folder.mkdir(parents=True)
            database = server.database()
            server.execute(_TABLE, database)
            server.execute(_ROWS.format(last=sizes.rows - 1), database)
            idle, first, then = ways[name](server, database, folder, sizes)
            rates = (sizes.rows / max(0.01, first - idle), sizes.updates / max(0.01, then - idle))
            found[name] = rates
            table.append((name, *(f"{each:,.0f}" for each in rates), f"{first:.1f} and {then:.1f}", f"{idle:.1f}"))
            print(table[-1], flush=True)
            server.drop(database)
    show(table)
    for figure, ours, theirs in (("cdc", "table", "flink"), ("cdc log", "log", "debezium")):
        if {ours, theirs} <= found.keys():
            for number, part in enumerate(("rows", "updates")):
                report(f"{figure} {part}", found[ours][number], found[theirs][number])


def _update(server: Postgres, database: str, sizes: _Sizes) -> None:
    server.execute(_UPDATES.format(last=sizes.updates // 1000 - 1), database)


def _log(server: Postgres, database: str, folder: Path, sizes: _Sizes) -> tuple[float, float, float]:
    """Return the CPU seconds of a capture's own work, without the start of a process."""
    from bench.postgres import Spent, read, snapshot, stream
    from postgres.reading import tables

    found = tables(server, database)
    first, then = Spent(), Spent()
    reading = stream(server, database)
    start = reading.create()
    snapshot(reading, found["lineitem"], first, folder)
    _update(server, database, sizes)
    end = reading.end()
    reading.begin(start, list(found.values()))
    read(reading, end, then, folder)
    reading.close()
    assert (first.rows, then.rows) == (sizes.rows, 2 * sizes.updates) or then.rows == sizes.updates, (first, then)
    return 0.0, first.total, then.total


def _debezium(server: Postgres, database: str, folder: Path, sizes: _Sizes) -> tuple[float, float, float]:
    """Return the CPU seconds of the start, of the start with all rows, and of the start with all updates."""
    classes = class_path("debezium", "Debezium")
    settings = {
        "name": "bench", "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
        "database.hostname": "127.0.0.1", "database.port": str(server.port), "database.user": "postgres",
        "database.password": "postgres", "database.dbname": database, "topic.prefix": "b",
        "plugin.name": "pgoutput", "publication.name": "p", "publication.autocreate.mode": "disabled",
        "slot.name": "debezium", "slot.drop.on.stop": "true", "converter.schemas.enable": "false",
        "decimal.handling.mode": "string", "max.batch.size": "8192", "max.queue.size": "32768",
        "table.include.list": "public.lineitem", "snapshot.mode": "initial",
    }  # fmt: skip
    words = [f"{key}={value}" for key, value in settings.items()]
    command = ["java", "-Xmx1g", "-cp", classes, "Debezium", str(folder / "events.json"), *words]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=log, start_new_session=True, env=ENVIRONMENT, text=True
        )
    assert process.stdout is not None
    counts = map(int, process.stdout)
    try:
        next(counts)
        idle = tree_cpu(process.pid)
        _ = next(count for count in counts if count >= sizes.rows)
        first = tree_cpu(process.pid)
        _update(server, database, sizes)
        _ = next(count for count in counts if count >= sizes.rows + sizes.updates)
        return idle, first, tree_cpu(process.pid) - first + idle
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _table(server: Postgres, database: str, folder: Path, sizes: _Sizes) -> tuple[float, float, float]:
    key = "l_orderkey, l_linenumber"
    script = captured_script(server, database, "lineitem", key, cores=sizes.cores, every="10s")
    (folder / "pipeline.sql").write_text(script)
    command = [sys.executable, "-m", "sinkql", "exec", "--once", "pipeline.sql"]
    environment = {"PYTHONPATH": str(ROOT), "SINKQL_ARCHIVE": "off"}
    first = measure(command, folder=folder, environment=environment)
    idle = measure(command, folder=folder, environment=environment)
    _update(server, database, sizes)
    then = measure(command, folder=folder, environment=environment)
    walls = f"{first.wall_s:.0f} s for the rows, {then.wall_s:.0f} for the updates, {idle.wall_s:.0f} for nothing"
    print(f"table: {walls}; {max(first.peak_mb, then.peak_mb):,.0f} MB", flush=True)
    return idle.cpu_s, first.cpu_s, then.cpu_s


def _flink(server: Postgres, database: str, folder: Path, sizes: _Sizes) -> tuple[float, float, float]:
    """Return zero, the CPU seconds of the start with all rows, and the CPU seconds of all updates."""
    sql = _FLINK.format(columns=_COLUMNS, port=server.port, database=database)
    command = flink_command("flink_cdc", sql, folder, sizes.cores)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True, env=ENVIRONMENT)
    try:
        _until(process, folder, sizes.rows)
        first = tree_cpu(process.pid)
        _update(server, database, sizes)
        _until(process, folder, sizes.rows + sizes.updates)
        return 0.0, first, tree_cpu(process.pid) - first
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _until(process: subprocess.Popen[bytes], folder: Path, rows: int) -> None:
    """Wait until the table's commits have added `rows` rows."""
    metadata = folder / "lake" / "n" / "t" / "metadata"
    while process.poll() is None:
        found = sorted(metadata.glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
        snapshots = json.loads(found[-1].read_text()).get("snapshots", []) if found else []
        if sum(int(each["summary"].get("added-records", 0)) for each in snapshots) >= rows:
            return
        time.sleep(1.0)
    raise RuntimeError((folder / "log").read_text()[-3000:])


if __name__ == "__main__":
    main()
