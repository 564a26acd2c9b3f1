"""A pipeline with sinks of each kind over files in S3, its input, and the expected rows of its tables."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow.fs

from support.command import Running
from support.patience import Deadline
from support.readers import connect
from support.seaweed import SECRET, Seaweed

Rows = list[tuple[Any, ...]]
CLUSTER = (
    "CREATE CLUSTER big (MASTER = '{master}', EXECUTORS = 2, CORES = 1, MEMORY = '1g', EXECUTION = SPARK, "
    "{conf}{state});\n"
)
STATE = "STATE = 's3://data/state', AWS CONNECTION = aws"
CONNECTIONS = """
CREATE SECRET key AS '{secret}';
CREATE CONNECTION aws TO AWS (ACCESS KEY ID = 'admin', SECRET ACCESS KEY = SECRET key,
  ENDPOINT = 'http://127.0.0.1:{s3}', REGION = 'us-east-1');
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'rest', URL = 'http://127.0.0.1:{rest}', WAREHOUSE = 'lake',
  CREDENTIAL = 'admin:' || SECRET key);
"""
_VIEWS = """
CREATE SOURCE changes (id bigint NOT NULL, part bigint NOT NULL, x bigint)
  FROM FILES CONNECTION aws (PATH = 's3://data/{name}', GLOB = '*.json.gz') FORMAT JSON;
CREATE MATERIALIZED VIEW raw AS SELECT id, part, x FROM changes;
CREATE VIEW newest AS SELECT DISTINCT ON (id) id, part, x FROM changes ORDER BY id, x DESC;
CREATE VIEW added AS SELECT part, count(*) AS n, sum(x)::bigint AS x FROM newest GROUP BY part;
CREATE MATERIALIZED VIEW latest AS SELECT * FROM newest;
CREATE MATERIALIZED VIEW sums AS SELECT * FROM added;
CREATE MATERIALIZED VIEW joined AS SELECT l.id, l.x, s.n FROM newest AS l JOIN added AS s ON s.part = l.part
  WHERE id % 3 = 0;
CREATE MATERIALIZED VIEW ranked AS SELECT id, part, x FROM (
    SELECT id, part, x, ROW_NUMBER() OVER (PARTITION BY part ORDER BY x DESC) AS place FROM newest
  ) AS r WHERE place <= 2;
CREATE MATERIALIZED VIEW groups AS SELECT id % 20 AS g, count(*) AS n, max(x) AS x FROM changes GROUP BY 1;
"""
_SINK = """CREATE SINK {table}_sink FROM {view} INTO ICEBERG CATALOG CONNECTION lake
  (NAMESPACE = '{name}', TABLE = '{table}') USING AWS CONNECTION aws {mode} WITH (COMMIT INTERVAL = '1s');
"""
_KEYS = {
    "raw": (),
    "latest": ("id",),
    "sums": ("part",),
    "joined": ("id",),
    "ranked": ("id",),
    "groups": ("g",),
    "twins": ("g",),
}
_VIEW_OF = {"twins": "groups"}
ALL = tuple(_KEYS)
_PARTS, _IDS, _ROWS = 29, 1500, 400


def script(name: str, tables: tuple[str, ...] = ALL) -> str:
    """Return the statements for the views and sinks; their tables are in namespace `name`."""
    lines = [_VIEWS.format(name=name)]
    for table in tables:
        key = _KEYS[table]
        mode = f"KEY ({', '.join(key)}) MODE UPSERT" if key else "ENVELOPE NONE"
        lines.append(_SINK.format(name=name, table=table, view=_VIEW_OF.get(table, table), mode=mode))
    return "".join(lines)


def cluster_sql(master: str, conf: Mapping[str, str], *, state: str = STATE) -> str:
    """Return the statement that creates the cluster."""
    pairs = ", ".join(f"'{key}' => '{value}'" for key, value in conf.items())
    return CLUSTER.format(master=master, conf=f"CONF = MAP[{pairs}], " if pairs else "", state=state)


def connections(server: Seaweed, *, s3: int | None = None, rest: int | None = None) -> str:
    """Return the statements that create the connections, optionally to other ports."""
    return CONNECTIONS.format(secret=SECRET, s3=s3 or server.s3, rest=rest or server.rest)


def storage(server: Seaweed) -> pyarrow.fs.S3FileSystem:
    """Return a client for the server's buckets."""
    return pyarrow.fs.S3FileSystem(
        access_key="admin",
        secret_key=SECRET,
        endpoint_override=f"127.0.0.1:{server.s3}",
        scheme="http",
        region="us-east-1",
    )


@dataclass(slots=True)
class Feed:
    """The input, two files a turn; they are compressed, so that tasks read them even if they have few rows."""

    server: Seaweed
    name: str
    rows: Rows = field(default_factory=list)
    turns: int = 0

    def more(self) -> None:
        """Write the files of a turn."""
        turn = self.turns
        self.turns += 1
        new: Rows = []
        for each in range(_ROWS):
            id_ = (each * 7919 + turn * 131) % _IDS
            new.append((id_, id_ % _PARTS, turn * _ROWS + each))
        bucket = storage(self.server)
        for half in range(2):
            part = [dict(zip(("id", "part", "x"), row, strict=True)) for row in new[half::2]]
            with bucket.open_output_stream(f"data/{self.name}/{turn:04}-{half}.json.gz", compression=None) as file:
                file.write(gzip.compress("\n".join(map(json.dumps, part)).encode(), mtime=0))
        self.rows += new

    def expected(self) -> dict[str, Rows]:
        """Return the expected rows of the tables."""
        latest: dict[int, tuple[int, int]] = {}
        groups: dict[int, list[int]] = {}
        for id_, part, x in self.rows:
            latest[id_] = (part, x)
            group = groups.setdefault(id_ % 20, [0, 0])
            groups[id_ % 20] = [group[0] + 1, x]
        count, total = Counter[int](), Counter[int]()
        by_part: defaultdict[int, Rows] = defaultdict(list)
        for id_, (part, x) in latest.items():
            count[part] += 1
            total[part] += x
            by_part[part].append((x, id_))
        top = [(id_, part, x) for part, own in by_part.items() for x, id_ in sorted(own, reverse=True)[:2]]
        grouped = sorted((g, n, x) for g, (n, x) in groups.items())
        return {
            "raw": sorted(self.rows),
            "latest": sorted((id_, part, x) for id_, (part, x) in latest.items()),
            "sums": sorted((part, n, total[part]) for part, n in count.items()),
            "joined": sorted((id_, x, count[part]) for id_, (part, x) in latest.items() if id_ % 3 == 0),
            "ranked": sorted(top),
            "groups": grouped,
            "twins": grouped,
        }


class Lake:
    """The tables of a server, read by DuckDB."""

    def __init__(self, server: Seaweed) -> None:
        self._connection = connect()
        self._rest = f"http://127.0.0.1:{server.rest}"
        for sql in (
            f"CREATE SECRET ic (TYPE iceberg, CLIENT_ID 'admin', CLIENT_SECRET '{SECRET}', "
            f"OAUTH2_SERVER_URI '{self._rest}/v1/oauth/tokens')",
            f"CREATE SECRET s3s (TYPE s3, KEY_ID 'admin', SECRET '{SECRET}', REGION 'us-east-1', "
            f"ENDPOINT '127.0.0.1:{server.s3}', URL_STYLE 'path', USE_SSL false)",
        ):
            self._connection.execute(sql)

    def close(self) -> None:
        """Close the connection to DuckDB."""
        self._connection.close()

    def rows(self, table: str) -> Rows | None:
        """Return the sorted rows of a table, or None if it does not exist yet."""
        self._connection.execute("DETACH DATABASE IF EXISTS lake")  # DuckDB lists the tables only once
        self._connection.execute(
            f"ATTACH 'lake' AS lake (TYPE iceberg, ENDPOINT '{self._rest}', SECRET ic, ACCESS_DELEGATION_MODE 'none')"
        )
        try:
            return sorted(self._connection.execute(f"SELECT * FROM lake.{table}").fetchall())
        except duckdb.CatalogException:
            return None

    def wait_for(self, wanted: Mapping[str, Rows], running: Running) -> None:
        """Wait until each of the tables has had exactly these rows."""
        pending, deadline = dict(wanted), Deadline()
        while pending:
            for table, rows in [*pending.items()]:
                if self.rows(table) == rows:
                    del pending[table]
            if pending:
                assert deadline.left(), self._difference(pending) + "".join(running.printed[-30:])
                while running.look(0.5):
                    pass

    def _difference(self, pending: Mapping[str, Rows]) -> str:
        lines = []
        for table, rows in pending.items():
            found = Counter(self.rows(table) or [])
            missing, extra = Counter(rows) - found, found - Counter(rows)
            lines.append(f"{table}: {len(found)} rows, missing {[*missing][:5]}, too many {[*extra][:5]}")
        return "\n".join(lines)
