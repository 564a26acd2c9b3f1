"""Measure the share of maintenance in the CPU of an upsert sink's whole pipeline, and the cost of reading its table.

    python -m bench.upkeep [--commits 600] [--keys 1000000] [--rows 400] [--every 50] [--cores 2]

Runs a pipeline that commits once a second, with Spark and all its processes. `LOAD GENERATOR KEY VALUE` changes keys
all over a table of 16 columns; each change has a chance of 5 % to delete its row. After every `--every` commits, prints
the CPU of a commit in the whole process tree, and the share of compaction, expiry and cleanup since the first load. It
also prints a full scan and a point look-up in DuckDB against a fresh copy. At the end, prints the count and sums of the
table, as DuckDB and PyIceberg read them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pyarrow.compute as pc

from bench.churn import columns_of, look, print_looks
from bench.commits import _table
from bench.common import HOME, ROOT, read_back
from bench.meter import ENVIRONMENT, tree_cpu

_SCRIPT = """
CREATE CLUSTER bench (SIZE = 'local[{cores}]');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE SOURCE changes FROM LOAD GENERATOR KEY VALUE (KEYS {keys}, SNAPSHOT ROUNDS 1, VALUE SIZE 24, SEED 1,
  PARTITIONS 1, BATCH SIZE {rows}, TICK INTERVAL '1s') INCLUDE KEY, OFFSET ENVELOPE UPSERT;
CREATE VIEW hex AS SELECT key * 7919 % 1000003 AS k, key, "offset" AS version, encode(value, 'hex') AS h FROM changes;
CREATE MATERIALIZED VIEW orders AS SELECT
  k, key * 31 % 5003 AS customer, ((k + version * 7) % 99991)::double precision / 100 AS amount, version AS v,
  CASE WHEN h < '4' THEN 'new' WHEN h < '8' THEN 'paid' WHEN h < 'c' THEN 'sent' ELSE 'done' END AS status,
  'country ' || (key % 40) AS country, 'customer' || (key % 50021) || '@example.org' AS email,
  substring(h, 1, 24) || ' please leave at the door' AS note, key * 17 % 20011 AS product,
  ((key + version) % 12)::integer AS quantity, ((key * 13 + version) % 49999)::double precision / 100 AS price,
  (version % 21)::double precision / 20 AS discount, 'city ' || (key % 1201) AS city,
  (key % 211) || ' street of ' || (key % 99989) AS street, '+' || substring(h, 25, 11) AS phone,
  'agent ' || (key % 307) AS agent
FROM hex WHERE h >= '0d';
CREATE SINK s IN CLUSTER bench FROM orders INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  KEY (k) NOT ENFORCED MODE UPSERT WITH (COMMIT INTERVAL = '1s');
"""
_METERED = """
import sys, time
from pathlib import Path
from sinkql.cli import main
from sinkql.connectors.iceberg.write.maintenance import IcebergMaintenance
maintain, spent = IcebergMaintenance.maintain, 0.0
def metered(*arguments, **options):
    global spent
    began = time.process_time()
    done = maintain(*arguments, **options)
    spent += time.process_time() - began
    Path("maintenance").write_text(str(spent))
    return done
IcebergMaintenance.maintain = metered
main()
"""
"""`sinkql` that also writes the CPU seconds of its maintenance to a file."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=600)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--cores", type=int, default=2)
    arguments = parser.parse_args()
    folder = HOME / "upkeep"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "pipeline.sql").write_text(_SCRIPT.format(folder=folder, **vars(arguments)))
    command = [sys.executable, "-c", _METERED, "--output", "json", "exec", "pipeline.sql"]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _watch(process, folder, arguments.commits, arguments.every)
        process.send_signal(signal.SIGINT)
        process.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    found = read_back(folder / "lake/n/t", ("k", "v"))
    print(f"count and sums: {found} in DuckDB, {_read(folder)} in PyIceberg")


def _watch(process: subprocess.Popen[str], folder: Path, commits: int, every: int) -> None:
    began, spent, seen, looks = 0.0, 0.0, -1, []
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("event") != "committed":
            continue
        seen += 1
        if seen == 0:
            began, spent = tree_cpu(process.pid), _spent(folder)
        elif seen % every == 0:
            cpu, maintenance = tree_cpu(process.pid) - began, _spent(folder) - spent
            looks.append(look(folder, columns_of(16)))
            share = f"{cpu / seen * 1000:.0f} ms a commit, maintenance {maintenance / cpu:.2f}"
            print(f"{seen}: {share}; {looks[-1].said}", flush=True)
        if seen == commits:
            print_looks(looks)
            return
    raise RuntimeError(f"the pipeline ended with {process.wait()}")


def _spent(folder: Path) -> float:
    path = folder / "maintenance"
    return float(path.read_text() or 0) if path.exists() else 0.0


def _read(folder: Path) -> tuple[int, ...]:
    rows = _table(folder).scan(selected_fields=("k", "v")).to_arrow()
    return (len(rows), *(pc.sum(rows.column(name)).as_py() for name in ("k", "v")))


if __name__ == "__main__":
    main()
