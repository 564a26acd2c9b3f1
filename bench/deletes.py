"""Measure the cost of dead rows: full scans in DuckDB of a table after its first changes, without compaction.

    python -m bench.deletes [--keys 1000000] [--rows 400] [--columns 16] [--version 2]

The first commit writes all keys. Each later commit changes `rows` of them anywhere in the table. Prints the CPU of
three scans after some of the commits: of no column, of one and of all. DuckDB cannot use a vector of 2,048 rows
unchanged if one of its rows is dead.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from bench.churn import _cpu_ms, columns_of, open_churn, sums_of
from bench.commits import _table
from bench.common import HOME, ROOT, show
from bench.growth import _stepper

_AFTER = (0, 1, 2, 5, 10, 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--columns", type=int, choices=[2, 8, 16], default=16)
    parser.add_argument("--version", type=int, default=2)
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    folder = HOME / "deletes"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "in").mkdir(parents=True)
    scans = _scans(folder, arguments)
    columns = columns_of(arguments.columns)
    queries = {"no column": "count(*)", "one": "count(*), sum(k)", "all": f"count(*), {sums_of(columns)}"}
    found = {name: _cpu_ms(f"SELECT {what} FROM {{}}", *scans) for name, what in queries.items()}
    lines = (
        (f"after {many}", *(f"{found[name][place]:.0f} ms" for name in queries)) for place, many in enumerate(_AFTER)
    )
    show([("commits", *queries), *lines])


def _scans(folder: Path, arguments: argparse.Namespace) -> list[str]:
    """Return a scan of the table after each of the `_AFTER` commits."""
    loop = open_churn(folder, arguments.rows, arguments.keys, arguments.columns, version=arguments.version)
    loop.maintenance.budget.share = 0
    loop.start(epoch=1)
    step, found = _stepper(loop), []
    for number in range(_AFTER[-1] + 1):
        step()
        if number in _AFTER:
            found.append(f"iceberg_scan('{_table(folder).metadata_location.removeprefix('file://')}')")
    return found


if __name__ == "__main__":
    main()
