"""Kinds of pipelines from JSON lines into tables: their SQL, their input, and the expected tables."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb
import msgspec

from sinkql import physical
from sinkql.connector_api.registry import Registry, discover
from sinkql.physical.evolution import evolution
from support import overwriting

BATCH_ROWS = 30
ROWS = 110
"""Enough for four batches, which end within files."""

_SOURCE = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE SOURCE events (n bigint NOT NULL, k integer, v integer, u text{more})
  FROM FILES (PATH = '{folder}/in', GLOB = '*.json') FORMAT JSON;
"""
_PER_KEY = """
SELECT k, count(*) AS events, count(DISTINCT u) AS users, max(v) AS most, sum(v) AS total
FROM events
GROUP BY k
"""
_PER_COUNT = """
SELECT most, count(*) AS keys, count(DISTINCT users) AS various, max(total) AS largest, sum(events) AS events
FROM per_key
GROUP BY most
"""
_VIEWS = f"CREATE MATERIALIZED VIEW per_key AS {_PER_KEY};\nCREATE MATERIALIZED VIEW per_most AS {_PER_COUNT};\n"


@dataclass(frozen=True)
class Kind:
    """A sink's clauses, and the DuckDB SQL that computes its rows from the whole input.

    With `picked`, the table has one of these rows for each value of the first column. `source` is the stream to read
    instead of the files.
    """

    relation: str
    clauses: str
    columns: tuple[str, ...]
    expected: str
    changelog: bool = False
    picked: bool = False
    options: str = ""
    source: str | None = None


KINDS: Mapping[str, Kind] = {
    "append": Kind("events", "ENVELOPE NONE", ("n", "k", "v", "u"), "SELECT n, k, v, u FROM events"),
    "changelog": Kind(
        "per_most",
        "MODE APPEND",
        ("most", "keys", "various", "largest", "events"),
        f"WITH per_key AS ({_PER_KEY}) {_PER_COUNT}",
        changelog=True,
    ),
    "upsert": Kind(
        "events",
        "KEY (k) NOT ENFORCED MODE UPSERT",
        ("k", "n", "v", "u"),
        "SELECT k, n, v, u FROM events QUALIFY row_number() OVER (PARTITION BY k ORDER BY n DESC) = 1",
    ),
    "parts": Kind(
        "events",
        "KEY (k) NOT ENFORCED MODE UPSERT PARTITION BY (u, bucket(2, v))",
        ("k", "n", "v", "u"),
        "SELECT k, n, v, u FROM events QUALIFY row_number() OVER (PARTITION BY k ORDER BY n DESC) = 1",
    ),
    "view": Kind("per_key", "KEY (k) MODE UPSERT", ("k", "events", "users", "most", "total"), _PER_KEY),
    "chain": Kind(
        "per_most",
        "KEY (most) MODE UPSERT",
        ("most", "keys", "various", "largest", "events"),
        f"WITH per_key AS ({_PER_KEY}) {_PER_COUNT}",
    ),
    "pick": Kind(
        "per_key",
        "KEY (users) NOT ENFORCED MODE UPSERT",
        ("users", "k", "events", "most", "total"),
        f"SELECT users, k, events, most, total FROM ({_PER_KEY})",
        picked=True,
    ),
    "vectors": Kind(
        "events",
        "KEY (k) NOT ENFORCED MODE UPSERT PARTITION BY (bucket(2, v))",
        ("k", "n", "v", "u"),
        "SELECT k, n, v, u FROM events QUALIFY row_number() OVER (PARTITION BY k ORDER BY n DESC) = 1",
        options="FORMAT VERSION = 3",
    ),
}


LETTERS = Kind(
    "events",
    "KEY (k) NOT ENFORCED MODE UPSERT",
    ("k", "n", "v", "u"),
    "",
)
"""A pipeline that stores undecodable records in a dead-letter table."""
LATE = Kind("events", "MODE APPEND", ("n", "k"), "")
"""A pipeline from the same source whose sink replays them."""

STREAMED: Mapping[str, Kind] = {
    "overwritten": Kind(
        "kept",
        "KEY (k) MODE UPSERT PARTITION BY (t)",
        ("k", "y", "t"),
        "SELECT k, x * 2 AS y, t FROM e WHERE x > 1 OR t = 'a'",
        source="plain",
    ),
    "normalized": Kind(
        "kept",
        "KEY (t) MODE UPSERT",
        ("t", "c", "s", "m"),
        "SELECT t, count(*) AS c, sum(x) AS s, max(x) AS m FROM e GROUP BY t",
        source="holes",
    ),
}
"""Pipelines of a source whose rows overwrite each other by key, are deleted, and may have unchanged values."""


_OTHER_EVENTS = "SELECT n, k, v, u FROM events WHERE n % 3 <> 0 AND coalesce(k, 1) % 4 <> 0"
ANEW: Mapping[str, str] = {
    "upsert": _OTHER_EVENTS,
    "parts": _OTHER_EVENTS,
    "view": """SELECT k, events, users, CASE WHEN k < 6 THEN most ELSE 0 END AS most, total
FROM per_key
WHERE coalesce(k, 1) % 4 <> 0""",
}
"""Replacement queries for sinks of these kinds; with them, existing rows change or disappear."""


@dataclass(frozen=True)
class Pipeline:
    """A pipeline in a folder; `options` are added to the sink's WITH (…), and `sink_id` identifies the sink.

    `eager`: compact two or three files immediately. `changed`: add a column `w`, which earlier input lacks, and
    continue in the same table. `anew`: read another view with the same columns, and do a full refresh. `hasty`:
    retain two snapshots, expire and sweep immediately. `lenient`: also decode numbers with the prefix "bad ".
    `then`: actions after the last batch: "optimize", "publish", "replay".
    """

    folder: Path
    kind: str
    batch_rows: int = BATCH_ROWS
    options: str = ""
    sink_id: str = "5f6e1c1e-0001"
    eager: bool = False
    changed: bool = False
    anew: bool = False
    version: int = 2
    parted: bool = False
    branch: str | None = None
    hasty: bool = False
    lenient: bool = False
    then: tuple[str, ...] = ()
    glob: str = field(default="*.json", repr=False)

    @property
    def state(self) -> Path:
        """Return the sink's state folder."""
        return self.folder / "state" / self.sink_id

    @property
    def what(self) -> Kind:
        """Return the pipeline's `Kind`."""
        return {**KINDS, **STREAMED, "letters": LETTERS, "late": LATE}[self.kind]

    def registry(self) -> Registry:
        """Return the connectors, including the stream that the pipeline reads."""
        source = self.what.source
        if source is None:
            return discover()
        return overwriting.registry(self.folder / f"stream-{source}", holes=source == "holes")

    def job(self) -> physical.Job:
        """Compile the pipeline."""
        from sinkql.program import compile_text

        kind = self.what
        options = ", ".join(
            [
                f"MAX ROWS PER COMMIT = {self.batch_rows}",
                *filter(None, [kind.options, self.options]),
                *(["FORMAT VERSION = 3"] if self.version == 3 else []),
                *(["RETAIN SNAPSHOTS = 2"] if self.hasty else []),
                *([f"BRANCH = '{self.branch}'"] if self.branch else []),
            ]
        )
        clauses = f"{kind.clauses} PARTITION BY (bucket(2, {kind.columns[0]}))" if self.parted else kind.clauses
        more, relation, views = "", kind.relation, _VIEWS
        if self.changed and relation == "events":
            more = ", w text"
        elif self.changed:
            relation, views = (
                "wide",
                f"{_VIEWS}CREATE MATERIALIZED VIEW wide AS SELECT *, NULL::text AS w FROM {relation};",
            )
        if kind.source is not None:
            views = f"CREATE SOURCE e FROM LOAD GENERATOR COUNTER; CREATE MATERIALIZED VIEW kept AS {kind.expected};"
        if self.anew:
            relation, views = "other", f"{_VIEWS}CREATE MATERIALIZED VIEW other AS {ANEW[self.kind]};"
        source = _SOURCE.format(folder=self.folder, more=more)
        if kind in (LETTERS, LATE):
            source = source.replace("FORMAT JSON", "FORMAT JSON WITH (ON ERROR = DEAD LETTER)")
        text = f"""{source}{views}
CREATE SINK s FROM {relation} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't')
  {clauses} WITH (COMMIT INTERVAL = '1s', {options});"""
        job = compile_text(text, facts={"s": {"sink_id": self.sink_id}}, registry=self.registry()).jobs[0]
        if self.anew:
            before = replace(self, anew=False).job()
            return msgspec.structs.replace(job, follows=(physical.Earlier(before.plan, again=True),))
        if not self.changed:
            return job
        before = replace(self, changed=False).job()
        assert evolution(before, job).added == ("w",)
        return msgspec.structs.replace(job, follows=(physical.Earlier(before.plan),))


def write_input(folder: Path, *, first: int = 0, rows: int = ROWS, w: str | None = None) -> None:
    """Add two files with rows `first` to `first + rows`; batches update keys of earlier ones."""
    random_ = random.Random(first)
    more = {"w": w} if w is not None else {}
    lines = [json.dumps(_row(number, random_) | more) + "\n" for number in range(first, first + rows)]
    (folder / "in").mkdir(exist_ok=True)
    half = len(lines) // 2
    for part, content in enumerate((lines[:half], lines[half:])):
        (folder / "in" / f"{first:06}-{part}.json").write_text("".join(content))


def write_stream(folder: Path, *, first: int = 0, rows: int = ROWS) -> None:
    """Add changes to both streams."""
    random_ = random.Random(first)
    plain, holes = folder / "stream-plain", folder / "stream-holes"
    overwriting.add(plain, overwriting.some(random_, rows))
    overwriting.add(holes, overwriting.omit_some(random_, overwriting.lines(holes), rows))


def _row(number: int, random_: random.Random) -> dict[str, object]:
    return {
        "n": number,
        "k": random_.choice([None, *range(12)]),
        "v": random_.choice([None, *range(-5, 20)]),
        "u": random_.choice([None, "a", "b", "c", "ü"]),
    }


def expected(folder: Path, kind: str, *, upto: int | None = None, anew: bool = False) -> Counter[tuple[object, ...]]:
    """Return the rows that DuckDB computes from the input, or from its first `upto` rows."""
    if kind in STREAMED:
        with duckdb.connect(config={"threads": 1}) as connection:
            lines = overwriting.lines(folder / f"stream-{STREAMED[kind].source}")
            connection.register("e", overwriting.arrow(lines))
            return Counter(connection.execute(STREAMED[kind].expected).fetchall())
    sql = KINDS[kind].expected
    if anew:
        other = f"({ANEW[kind].replace('per_key', f'({_PER_KEY})')})"
        sql = f"SELECT * FROM {other}" if kind == "view" else sql.replace("FROM events", f"FROM {other}")
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(
            f"CREATE VIEW events AS SELECT * FROM read_json('{folder}/in/*.json', format = 'newline_delimited', "
            "columns = {n: 'BIGINT', k: 'INTEGER', v: 'INTEGER', u: 'VARCHAR'})"
            + (f" ORDER BY n LIMIT {upto}" if upto is not None else "")
        )
        return Counter(connection.execute(sql).fetchall())
