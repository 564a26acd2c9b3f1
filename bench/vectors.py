"""Compare reading tables that an upsert sink changed: in format version 3, with deletion vectors, and in version 2.

    python -m bench.vectors [--commits 100] [--keys 200000] [--rows 2000]

Makes the same changes (see `bench.churn`) to two tables, without compaction. Prints the CPU of a full scan in DuckDB,
measured in turns, the CPU of a commit, and the numbers of data and delete files.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time

from bench.churn import _SCRIPT, Churn, Direct, _cpu_ms, columns_of
from bench.commits import _table
from bench.common import HOME, ROOT
from bench.growth import _stepper, open_loop


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--rows", type=int, default=2_000)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    folders = {version: HOME / "vectors" / str(version) for version in (2, 3)}
    shutil.rmtree(HOME / "vectors", ignore_errors=True)
    columns = ", ".join(f"{name} {type_}" for name, type_ in columns_of(2).items())
    for version, folder in folders.items():
        (folder / "in").mkdir(parents=True)
        script = _SCRIPT.format(folder=folder, columns=columns, version=f"{version}, MAINTENANCE = false")
        loop = open_loop(folder, script, "upsert", Churn(arguments.rows, arguments.keys), Direct())
        loop.start(epoch=1)
        step = _stepper(loop)
        step()
        began = time.process_time()
        for _ in range(arguments.commits):
            step()
        cpu = (time.process_time() - began) / arguments.commits
        head = _table(folder).current_snapshot()
        assert head is not None
        assert head.summary is not None
        many = (f"{head.summary[f'total-{name}']} {name}" for name in ("data-files", "delete-files"))
        print(f"version {version}: {cpu * 1000:.0f} ms a commit; {', '.join(many)}", flush=True)
    scans = [f"iceberg_scan('{folder}/lake/n/t')" for folder in folders.values()]
    found = _cpu_ms("SELECT count(*), sum(k), sum(v) FROM {}", *scans)
    print(", ".join(f"version {version}: {ms:.0f} ms a scan" for version, ms in zip(folders, found, strict=True)))


if __name__ == "__main__":
    main()
