"""A program of `.venv-readers`: what Daft and DataFusion read of an Iceberg table, by the location of its metadata.

They want other versions of what SinkQL itself uses. It prints a line of JSON, the rows of each by its name.
"""

from __future__ import annotations

import json
import sys

import daft
from datafusion import SessionContext
from pyiceberg.table import StaticTable


def main(location: str) -> None:
    """Read the table twice."""
    table = StaticTable.from_metadata(location)
    context = SessionContext()
    context.register_table("t", table)
    found = {
        "daft": daft.read_iceberg(table).to_pylist(),
        "datafusion": context.sql("SELECT * FROM t").to_arrow_table().to_pylist(),
    }
    rows = {name: [list(row.values()) for row in each] for name, each in found.items()}
    print(json.dumps(rows, default=int))  # decimals are whole numbers in what tests compare


if __name__ == "__main__":
    main(sys.argv[1])
