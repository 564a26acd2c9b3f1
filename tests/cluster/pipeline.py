"""Files in S3 that a cluster reads, and the tables in S3 that it writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.fs

from cluster.feed import storage
from support.readers import Rows, duckdb_rest
from support.seaweed import SECRET, Seaweed

_SCRIPT = """
CREATE SECRET key AS '{secret}';
CREATE CONNECTION aws TO AWS (ACCESS KEY ID = 'admin', SECRET ACCESS KEY = SECRET key, ENDPOINT = '{s3}',
  REGION = 'us-east-1');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'rest', URL = '{rest}', WAREHOUSE = 'lake',
  CREDENTIAL = 'admin:' || SECRET key);
CREATE SOURCE events (id bigint NOT NULL, name text)
  FROM FILES CONNECTION aws (PATH = 's3://data/{name}', GLOB = '*.json') FORMAT JSON;
"""
_SINK = """
CREATE CLUSTER {cluster} (MASTER = '{master}', EXECUTORS = {executors}, CORES = 1, EXECUTION = SPARK,
  STATE = 's3://data/state/{name}', AWS CONNECTION = aws, CONF = MAP[{conf}]);
CREATE SINK {sink} IN CLUSTER {cluster} FROM events
  INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = '{name}', TABLE = '{table}')
  USING AWS CONNECTION aws MODE APPEND WITH (COMMIT INTERVAL = '1s');
"""
_FAST = {
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.memory": "1g",
}
"""Settings without optimizations that pay off only after minutes."""


@dataclass(slots=True)
class Pipeline:
    """A pipeline whose script is `pipeline.sql` in `folder`, and its input; each test uses a different `name`.

    The servers are reached at `host`. With `two`, a second sink in a separate cluster writes the same rows to another
    table.
    """

    server: Seaweed
    master: str
    folder: Path
    name: str
    conf: Mapping[str, str] = field(default_factory=dict)
    two: bool = False
    executors: int = 2
    host: str = "127.0.0.1"
    count: int = 0
    _storage: pyarrow.fs.S3FileSystem = field(init=False)

    def __post_init__(self) -> None:
        self._storage = storage(self.server)
        said = {
            "secret": SECRET,
            "s3": f"http://{self.host}:{self.server.s3}",
            "rest": f"http://{self.host}:{self.server.rest}",
            "master": self.master,
            "name": self.name,
            "executors": 1 if self.two else self.executors,
            "conf": ", ".join(f"'{key}' => '{value}'" for key, value in {**_FAST, **self.conf}.items()),
        }
        sinks = [_SINK.format(cluster="big", sink="s", table="t", **said)]
        if self.two:
            sinks.append(_SINK.format(cluster="beside", sink="s2", table="t2", **said))
        self.folder.joinpath("pipeline.sql").write_text(_SCRIPT.format(**said) + "".join(sinks))

    def put(self, *counts: int) -> None:
        """Write a file of new rows for each count; large files are read by tasks instead of the driver."""
        for count in counts:
            first, self.count = self.count, self.count + count
            rows = ({"id": each, "name": _name(each)} for each in range(first, self.count))
            with self._storage.open_output_stream(f"data/{self.name}/{first:09}.json") as file:
                file.write("\n".join(map(json.dumps, rows)).encode())

    @property
    def expected(self) -> Rows:
        """Return the rows written to the files."""
        return [(each, _name(each)) for each in range(self.count)]

    def rows(self, table: str = "t") -> Rows:
        """Return the rows of a table, read by DuckDB."""
        port, columns = self.server.rest, "id, name"
        return duckdb_rest(
            f"{self.name}.{table}", rest_port=port, s3_port=self.server.s3, secret=SECRET, columns=columns
        )

    def written(self) -> list[str]:
        """Return the paths of the table's data files."""
        found = pyarrow.fs.FileSelector(f"lake/{self.name}/t/data", recursive=True)
        return [each.path for each in self._storage.get_file_info(found)]


def _name(number: int) -> str:
    return f"name {number % 1000}"
