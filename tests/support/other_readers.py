"""A program of `.venv-readers`: what Daft or DataFusion, or both, read of an Iceberg table, by where its metadata is.

They want other versions of what SinkQL itself uses. It prints a line of JSON, the rows of each by its name.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import daft
from datafusion import SessionContext
from pyiceberg.table import StaticTable


def main(location: str, *names: str) -> None:
    """Read the table with each."""
    table = StaticTable.from_metadata(location)
    found = {name: {"daft": _daft, "datafusion": _datafusion}[name](table) for name in names}
    rows = {name: [list(row.values()) for row in each] for name, each in found.items()}
    print(json.dumps(rows, default=int))  # decimals are whole numbers in what tests compare


def _daft(table: StaticTable) -> Any:
    return daft.read_iceberg(table).to_pylist()


def _datafusion(table: StaticTable) -> Any:
    context = SessionContext()
    context.register_table("t", table)
    return context.sql("SELECT * FROM t").to_arrow_table().to_pylist()


if __name__ == "__main__":
    main(*sys.argv[1:])
