"""Measure a statement in an open session, over a catalog of a hundred items, and a similar one in SQLite.

    python -m bench.statement [--items 100] [--runs 20] [--profile KIND]

Prints the CPU milliseconds of a statement in the whole process, medians of the runs. SQLite runs a similar statement in
a separate file, each as a durable transaction, which shows the cost without SinkQL's planning.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.common import median
from sinkql.session.session import Session

Make = Callable[[int], str]

STATEMENTS: dict[str, tuple[Make, Make]] = {
    "CREATE VIEW": (
        lambda i: (
            f"CREATE VIEW more_v{i} AS SELECT k, date_trunc('day', at) AS day, amount * 2 AS twice FROM s{i % 20} "
            "WHERE k <> 'none' AND amount > 0;"
        ),
        lambda i: f"CREATE VIEW more_v{i} AS SELECT id, name || 'x' AS name FROM t0 WHERE id > {i}",
    ),
    "CREATE MATERIALIZED VIEW": (
        lambda i: (
            f"CREATE MATERIALIZED VIEW more_m{i} AS SELECT k, count(*) AS n, sum(amount) AS total "
            f"FROM s{i % 20} WHERE amount > 0 GROUP BY k HAVING count(*) > 1;"
        ),
        lambda i: f"CREATE VIEW more_m{i} AS SELECT name, count(*) AS n FROM t0 GROUP BY name",
    ),
    "CREATE SOURCE": (
        lambda i: (
            f"CREATE SOURCE more_s{i} (id bigint, k text, amount numeric(12, 2), at timestamp) "
            f"FROM FILES (PATH = 'in{i}') FORMAT JSON;"
        ),
        lambda i: f"CREATE TABLE more_s{i} (id bigint, k text, amount numeric(12, 2), at timestamp)",
    ),
    "CREATE SINK": (
        lambda i: (
            f"CREATE SINK more_k{i} FROM m{i % 20} INTO ICEBERG CATALOG CONNECTION lake "
            f"(NAMESPACE = 'n', TABLE = 'more{i}') KEY (k) MODE UPSERT WITH (COMMIT INTERVAL = '10s');"
        ),
        lambda i: f"CREATE TABLE more_k{i} (id bigint)",
    ),
    "SELECT": (
        lambda i: f"SELECT id, upper(name) AS name FROM t{i % 5} WHERE id >= {i % 10} ORDER BY amount DESC LIMIT 5;",
        lambda i: f"SELECT id, upper(name) AS name FROM t{i % 5} WHERE id >= {i % 10} ORDER BY amount DESC LIMIT 5",
    ),
    "INSERT": (
        lambda i: f"INSERT INTO t{i % 5} VALUES ({1000 + i}, 'name {i}', {i}.50), ({2000 + i}, NULL, 1 + {i});",
        lambda i: f"INSERT INTO t{i % 5} VALUES ({1000 + i}, 'name {i}', {i}.50), ({2000 + i}, NULL, 1 + {i})",
    ),
    "UPDATE": (
        lambda i: f"UPDATE t{i % 5} SET amount = amount + 1, name = 'new' WHERE id = {i % 10};",
        lambda i: f"UPDATE t{i % 5} SET amount = amount + 1, name = 'new' WHERE id = {i % 10}",
    ),
    "DELETE": (
        lambda i: f"DELETE FROM t{i % 5} WHERE id = {1000 + i};",
        lambda i: f"DELETE FROM t{i % 5} WHERE id = {1000 + i}",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--profile", choices=STATEMENTS, help="print where the time of these statements goes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with Session(Path(folder) / "catalog.db") as session:
            session.execute(filled(given.items))
            plain = _plain(Path(folder) / "plain.db")
            print(f"{'CPU-ms a statement':26}{'SinkQL':>10}{'SQLite':>10}")
            for kind, (make, like) in STATEMENTS.items():
                if given.profile in (None, kind):
                    ours = _cost(session.execute, make, given.runs, profiled=given.profile is not None)
                    theirs = _cost(lambda text: plain.execute(text).fetchall(), like, given.runs)
                    print(f"{kind:26}{ours:10.2f}{theirs:10.2f}")


def filled(items: int) -> str:
    """Return a script that creates `items` items: sources, views, materialized views, sinks and tables."""
    statements = ["CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', WAREHOUSE = 'lake');"]
    for i in range(5):
        statements.append(f"CREATE TABLE t{i} (id bigint NOT NULL, name text, amount numeric(12, 2));")
        rows = ", ".join(f"({number}, 'name {number}', {number}.25)" for number in range(100))
        statements.append(f"INSERT INTO t{i} VALUES {rows};")
    for i in range((items - 6 + 3) // 4):
        statements += [
            f"CREATE SOURCE s{i} (id bigint, k text, amount numeric(12, 2), at timestamp) "
            f"FROM FILES (PATH = 'in{i}') FORMAT JSON;",
            f"CREATE VIEW v{i} AS SELECT id, k, amount FROM s{i} WHERE amount > {i};",
            f"CREATE MATERIALIZED VIEW m{i} AS SELECT k, count(*) AS n, sum(amount) AS total FROM v{i} GROUP BY k;",
            f"CREATE SINK k{i} FROM m{i} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't{i}') "
            "KEY (k) MODE UPSERT WITH (COMMIT INTERVAL = '10s');",
        ]
    return "\n".join(statements)


def _plain(path: Path) -> sqlite3.Connection:
    plain = sqlite3.connect(path, isolation_level=None)
    plain.execute("PRAGMA journal_mode = WAL")
    plain.execute("PRAGMA synchronous = FULL")
    for i in range(5):
        plain.execute(f"CREATE TABLE t{i} (id bigint NOT NULL, name text, amount numeric(12, 2))")
        plain.executemany(f"INSERT INTO t{i} VALUES (?, ?, ?)", [(each, f"name {each}", each) for each in range(100)])
    return plain


def _cost(run: Callable[[str], object], make: Make, runs: int, *, profiled: bool = False) -> float:
    """Return the CPU milliseconds of a call, the median of the runs; the first one does not count."""
    profile = cProfile.Profile()
    found = []
    for i in range(runs + 1):
        if profiled and i:
            profile.enable()
        began = time.process_time()
        run(make(i))
        found.append((time.process_time() - began) * 1000)
        profile.disable()
    if profiled:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(70)
    return median(found[1:])


if __name__ == "__main__":
    main()
