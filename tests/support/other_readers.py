"""Read an Iceberg table with Daft or DataFusion: a program of `.venv-readers`, called with a metadata location.

Both need other versions of SinkQL's dependencies. The program prints the rows by reader, in one line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import daft
from datafusion import SessionContext
from pyiceberg.table import StaticTable


def main(location: str, *names: str) -> None:
    """Print the table's rows as each reader returns them."""
    table = StaticTable.from_metadata(location)
    found = {name: {"daft": _daft, "datafusion": _datafusion}[name](table) for name in names}
    rows = {name: [list(row.values()) for row in each] for name, each in found.items()}
    print(json.dumps(rows, default=int))  # tests compare decimals as integers


def _daft(table: StaticTable) -> Any:
    return daft.read_iceberg(table).to_pylist()


def _datafusion(table: StaticTable) -> Any:
    context = SessionContext()
    context.register_table("t", table)
    return context.sql("SELECT * FROM t").to_arrow_table().to_pylist()


if __name__ == "__main__":
    main(*sys.argv[1:])
