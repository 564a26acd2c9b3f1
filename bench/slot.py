"""Compare the CPU that many sinks of one source take from their Postgres server with that of pg_recvlogical.

A capture with a sink for each table, and one pg_recvlogical, read the same changes at the same time with the same
options. The CPU is that of the backends that serve them. With --check, all sinks run afterwards, and their tables are
compared with the server's.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sinkql.session.session import Session
    from sinkql.session.sink.capture_directory import CatalogCaptureDirectory
    from support.postgres import Postgres

_TABLE = "CREATE TABLE t{number} (id int8 PRIMARY KEY, a int4, b numeric(12, 2), c text, at timestamptz)"
_ADD = """
INSERT INTO t{number} SELECT i, 1, 12.34, 'a text of some length', now() FROM generate_series({first}, {last}) AS i
"""
_CHANGE = "UPDATE t{number} SET a = a + 1, c = c || '.' WHERE id >= {first}"
_ROWS = 200
_SQL = """
CREATE CONNECTION pg TO POSTGRES (HOST '127.0.0.1', PORT {port}, DATABASE 'postgres', USER 'postgres');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = '{folder}/lake');
CREATE SOURCE s FROM POSTGRES CONNECTION pg (PUBLICATION 'p') FOR ALL TABLES;
CREATE SINKS FOR ALL TABLES OF SOURCE s INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n')
  WITH (COMMIT INTERVAL = '1s');
"""
_BACKENDS = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE '{name}%'"


def main() -> None:
    """Write for a while, and compare the CPU of the backends."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from sinkql.runtime.process.capture_processes import captures_running
    from sinkql.session.session import Session
    from sinkql.session.sink.capture_directory import CatalogCaptureDirectory
    from sinkql.session.sink.workload import CatalogWorkload
    from support.postgres import postgres

    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tables", type=int, default=50)
    arguments.add_argument("--seconds", type=float, default=30.0)
    arguments.add_argument("--transactions", type=float, default=25.0, help=f"per second, of {_ROWS} rows each")
    arguments.add_argument("--check", action="store_true")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name, postgres(segment_mb=16) as server:
        folder = Path(name)
        server.execute("; ".join(_TABLE.format(number=number) for number in range(given.tables)))
        server.execute("CREATE PUBLICATION p FOR ALL TABLES")
        with Session(folder / "catalog.db") as session:
            session.execute(_SQL.format(port=server.port, folder=folder))
            capture_directory = CatalogCaptureDirectory(
                session.catalog, CatalogWorkload(session.catalog), session.access.secret
            )
            with captures_running(capture_directory), _recvlogical(server):
                _wait(lambda: _slots(server) == 2)
                before = {each: _cpu(server, each) for each in ("sinkql", "pg_recvlogical")}
                rows = _write(server, given.tables, given.seconds, given.transactions)
                _catch_up(server)
                ours, theirs = (_cpu(server, each) - spent for each, spent in before.items())
                (senders,) = server.execute(
                    "SELECT count(*) FROM pg_stat_replication WHERE application_name ~ 'sinkql'"
                )
                print(
                    f"{given.tables} tables, {len(session.jobs())} sinks, {senders[0]} walsender, {rows:,} rows in "
                    f"{given.seconds:.0f} s: server {ours:.2f} CPU-s, pg_recvlogical {theirs:.2f}, {ours / theirs:.2f} "
                    "times",
                    flush=True,
                )
                if given.check:
                    _check(session, capture_directory, server, folder)


@contextmanager
def _recvlogical(server: Postgres) -> Iterator[None]:
    from support.postgres import BINARIES

    server.execute("SELECT pg_create_logical_replication_slot('theirs', 'pgoutput')")
    options = [part for each in ("proto_version=1", "publication_names=p", "binary=true") for part in ("-o", each)]
    command = [str(BINARIES / "pg_recvlogical"), "-d", server.address(), "-S", "theirs", "--start", "-f", "/dev/null"]
    process = subprocess.Popen([*command, *options, "--fsync-interval=1", "--status-interval=1"])
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _slots(server: Postgres) -> int:
    return int(server.execute("SELECT count(*) FROM pg_replication_slots WHERE active")[0][0])


def _cpu(server: Postgres, name: str) -> float:
    """Return the CPU seconds of the backends that serve an application name."""
    total = 0
    for (pid,) in server.execute(_BACKENDS.format(name=name)):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def _write(server: Postgres, tables: int, seconds: float, rate: float) -> int:
    """Insert and update rows of random tables at a rate; return the number of changes."""
    dice, written, began = random.Random(1), 0, time.monotonic()
    with server.connect() as connection:
        while (now := time.monotonic() - began) < seconds:
            if written > now * rate * _ROWS:
                time.sleep(0.005)
                continue
            with connection.transaction():
                number = dice.randrange(tables)
                for statement in (_ADD, _CHANGE):
                    text = statement.format(number=number, first=written, last=written + _ROWS // 2 - 1)
                    connection.execute(text)
            written += _ROWS
    return written


def _catch_up(server: Postgres) -> None:
    """Wait until both readers were sent all changes."""
    end = server.execute("SELECT pg_current_wal_flush_lsn()::text")[0][0]
    behind = f"SELECT 1 FROM pg_stat_replication WHERE sent_lsn < '{end}'"
    _wait(lambda: not server.execute(behind))


def _wait(done: Callable[[], object]) -> None:
    while not done():
        time.sleep(0.1)


def _check(session: Session, capture_directory: CatalogCaptureDirectory, server: Postgres, folder: Path) -> None:
    """Run each sink once, and compare its table with the server's."""
    from capture.pipeline import drain
    from sinkql.runtime.local.engine import LocalEngine
    from support.readers import duckdb_folder
    from support.running import loop_of

    for job in session.jobs():
        drain(loop_of(job, session.context(job), session.catalog.registry, engine=LocalEngine()))
    for number in range(len(session.jobs())):
        found = duckdb_folder(folder / "lake" / "n" / f"t{number}", "count(*), sum(a), sum(length(c))")
        assert found == server.execute(f"SELECT count(*), sum(a), sum(length(c)) FROM t{number}"), number
    (slots,) = server.execute("SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 'sinkql%'")
    print(f"{len(session.jobs())} tables are the server's, by {slots[0]} slot")


if __name__ == "__main__":
    main()
