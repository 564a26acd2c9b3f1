"""The pipeline of deploy/kubernetes.yaml: files of orders in S3, and the table that it writes."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow.fs

from cluster.feed import storage
from support.patience import Deadline
from support.readers import Rows, duckdb_rest
from support.seaweed import SECRET, Seaweed

MANIFEST = Path(__file__).parents[2] / "deploy" / "kubernetes.yaml"
_FILES, _ROWS = 4, 40_000
_LOOK_S = 1.0


@dataclass(slots=True)
class Shop:
    """The orders in the files, which are the expected rows of the table."""

    server: Seaweed
    rows: Rows = field(default_factory=list)
    _storage: pyarrow.fs.S3FileSystem = field(init=False)

    def __post_init__(self) -> None:
        self._storage = storage(self.server)

    def put(self) -> None:
        """Write files with enough rows that tasks read them instead of the driver."""
        for _ in range(_FILES):
            first = len(self.rows)
            new = [(each, f"customer {each % 1000}", Decimal(each) / 100) for each in range(first, first + _ROWS)]
            self.rows += new
            with self._storage.open_output_stream(f"data/orders/{first:09}.json") as file:
                lines = (json.dumps({"id": id_, "customer": who, "amount": str(much)}) for id_, who, much in new)
                file.write("\n".join(lines).encode())

    def wait(self) -> None:
        """Wait until the table has as many rows as the files, and assert that they are equal."""
        deadline = Deadline()
        while len(found := self._found()) < len(self.rows):
            deadline.check("rows")
            time.sleep(_LOOK_S)
        assert self.rows == found

    def _found(self) -> Rows:
        ports = {"rest_port": self.server.rest, "s3_port": self.server.s3}
        with suppress(duckdb.Error):  # before the table exists
            return duckdb_rest("shop.orders", **ports, secret=SECRET, columns="id, customer, amount")
        return []


def manifest(server: Seaweed, host: str) -> str:
    """Return deploy/kubernetes.yaml with the connections, sizes and times of the test."""
    text = MANIFEST.read_text()
    rest = f"CATALOG TYPE = 'rest', URL = 'http://{host}:{server.rest}', WAREHOUSE = 'lake'"
    for before, after in {
        "ACCESS KEY ID = 'sinkql'": f"ACCESS KEY ID = 'admin', ENDPOINT = 'http://{host}:{server.s3}'",
        "CATALOG TYPE = 'glue', WAREHOUSE = 's3://lake/tables', AWS CONNECTION = aws": (
            f"{rest}, CREDENTIAL = 'admin:' || SECRET lake_key"
        ),
        "'s3://lake/": "'s3://data/",
        "EXECUTORS = 4,": "EXECUTORS = 2,",
        "CORES = 2,": "CORES = 1,",
        "MEMORY = '4g',": "MEMORY = '1g',",
        "COMMIT INTERVAL = '1m'": "COMMIT INTERVAL = '1s'",
    }.items():
        assert before in text
        text = text.replace(before, after)
    return text
