"""Views of two sources, and jobs that read several of them. They run in turns, fail at random and restart.

Each commit is compared with DuckDB's answer over the sources at the offsets of the commit.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import duckdb
import msgspec

from operators.pipeline import Change, Listed
from sinkql import physical
from sinkql.connector_api.stream import Limit, Offsets, Reader
from sinkql.connectors.view.log import Entry, ViewLog, view_folder
from sinkql.lowering.job import lower
from sinkql.runtime.batch.clock import CLOCK, with_clock
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.batch.timeline import Ticks
from sinkql.session import Session
from sinkql.storage.numbered_log import FolderNumberedLog
from support.running import contexts
from view.histories import REGISTRY, History, Rows, contents

SOURCES = {"e": ("g INTEGER", "x BIGINT"), "f": ("h INTEGER", "y BIGINT")}
VIEWS = {
    "a": "SELECT g, count(*) AS n, max(x) AS s FROM e GROUP BY g",
    "b": "SELECT x % 3 AS m, count(*) AS k FROM e GROUP BY x % 3",
    "c": "SELECT h, sum(y) AS t FROM f GROUP BY h",
    "d": "SELECT e.g, count(*) AS pairs FROM e JOIN f ON e.g = f.h GROUP BY e.g",
    "ab": "SELECT a.g, a.n, b.m, b.k FROM a FULL JOIN b ON a.g = b.m",
    "beside": "SELECT e.g, e.x, a.n FROM e LEFT JOIN a ON a.g IS NOT DISTINCT FROM e.g",
    "above": "SELECT ab.g, ab.k, a.s FROM ab LEFT JOIN a ON ab.g = a.g",
    "t1": "SELECT g, x FROM e WHERE mz_now() < 400 * x + 400",
    "t2": "SELECT h, count(*) AS k FROM f WHERE mz_now() >= 200 * y GROUP BY h",
    "timed": "SELECT t1.g, t1.x, t2.k FROM t1 JOIN t2 ON t1.g = t2.h",
    "late": "SELECT t1.g, t1.x, a.n FROM t1 JOIN a ON a.g = t1.g WHERE mz_now() >= 300 * a.n",
    "mixed": "SELECT c.h, c.t, d.pairs, a.n FROM c LEFT JOIN d ON d.g = c.h LEFT JOIN a ON a.g = c.h",
}
SINK = "SELECT ab.g, ab.m, d.pairs, f.y FROM ab LEFT JOIN d ON d.g = ab.g JOIN f ON f.h = ab.m"
_CONNECTION = """
CREATE CONNECTION lake TO ICEBERG CATALOG
  (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db', WAREHOUSE = '{folder}/lake');
"""
_SINK = f"""
CREATE MATERIALIZED VIEW read AS {SINK};
CREATE SINK snk FROM read INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't') MODE APPEND
  WITH (COMMIT INTERVAL = '1s');
"""


@dataclass(frozen=True)
class Shared(Listed):
    """A source whose positions are comparable between jobs; a limit allows two batches."""

    def target_reached(self, offsets: Offsets, target: Offsets) -> bool:
        return bool(offsets["batch"] >= target["batch"])

    def comparable_position(self, offsets: Offsets) -> Offsets | None:
        return offsets

    def latest(self, start: Offsets, limit: Limit, until: Offsets | None = None) -> Offsets:
        end = len(self.batches) if until is None else until["batch"]
        most = start["batch"] + (2 if limit.rows < 1 << 60 else end)
        return {"batch": max(start["batch"], min(end, most))}


def jobs(folder: Path) -> dict[str, physical.Job]:
    """Return the jobs of the views and of a sink that writes a view log, as a catalog lowers them."""
    statements = [f"CREATE TABLE {name} ({', '.join(columns)});" for name, columns in SOURCES.items()]
    statements += [
        f"CREATE MATERIALIZED VIEW {name} WITH (COMMIT INTERVAL = '1s') AS {query};" for name, query in VIEWS.items()
    ]
    with Session(folder / "catalog") as session:
        session.execute("\n".join([_CONNECTION.format(folder=folder), *statements, _SINK]))
        plans = session.catalog.plans
        found = {name: lower(f"materialize.public.{name}", plans) for name in [*VIEWS, "snk"]}
    write = found["snk"].write
    names = tuple(each.name for each in write.columns)
    log = physical.Write(
        write.input, physical.VIEW, physical.Connection("snk", physical.VIEW, {}), write.columns, "upsert", "retract",
        False, names, True, {"view_id": found["snk"].sink_id},
    )  # fmt: skip
    return {**found, "snk": msgspec.structs.replace(found["snk"], write=log)}


@dataclass
class TickHistory(History):
    """One history of all these jobs."""

    made: Mapping[str, physical.Job] = field(default_factory=dict)
    feeds: dict[str, Shared] = field(default_factory=dict)
    tables: dict[str, Rows] = field(default_factory=dict)
    at: dict[int, list[dict[str, str]]] = field(default_factory=dict)
    answers: dict[tuple[str, int, int, int], Rows] = field(default_factory=dict)
    apart: int = 0
    now: int = 0

    def __post_init__(self) -> None:
        self.feeds = {
            read.name.rpartition(".")[2]: Shared(read, [])
            for job in self.jobs.values()
            for read in job.reads()
            if read.connector == "TABLE"
        }
        self.tables = {name: Counter() for name in self.feeds}

    @property
    def jobs(self) -> Mapping[str, physical.Job]:
        return self.made

    def change(self) -> None:
        self.now += self.rng.randint(0, 250)
        for name, feed in self.feeds.items():
            if self.rng.random() < 0.3:
                continue
            changes: list[Change] = []
            present = self.tables[name]
            for _ in range(self.rng.randint(1, 4)):
                if present and self.rng.random() < 0.45:
                    row = self.rng.choice(sorted(present.elements(), key=repr))
                    self.tables[name] = present = +(present - Counter([row]))
                    changes.append((row, -1))
                else:
                    row = (self.rng.choice([0, 1, 2, None]), self.rng.randint(0, 5))
                    present[row] += 1
                    changes.append((row, 1))
            feed.batches.append(changes)

    def log(self, name: str) -> ViewLog:
        return ViewLog(view_folder(self.folder, self.jobs[name].sink_id))

    def readers(self, job: physical.Job) -> dict[str, Reader]:
        context = contexts(self.folder, job)
        found = {
            read.source: self.feeds[read.name.rpartition(".")[2]]
            if read.connector == "TABLE"
            else REGISTRY.reader(read, context)
            for read in job.reads()
        }
        return with_clock(job, found, lambda: self.now)

    def started(self, name: str) -> BatchLoop:
        loop = super().started(name)
        loop.timeline.keeps_log = name != "snk"
        return loop

    def check(self, log: ViewLog, number: int, entry: Entry) -> None:
        """Compare a commit with the sources at its offsets; equal ticks must have equal positions."""
        name = next(each for each, job in self.jobs.items() if job.sink_id == log.folder.name)
        self.commits += bool(entry.runs)
        below = entry.marker.below
        if below is None:  # it has read nothing yet
            assert contents(log, self.jobs[name], entry) == Counter()
            return
        assert entry.marker.consistent is not False, (name, number)
        places = {each: below.get(self.feeds[each].read_.source, {"batch": 0})["batch"] for each in SOURCES}
        now = below.get(CLOCK, {"at": 0})["at"]
        assert contents(log, self.jobs[name], entry) == self.answer(name, **places, now=now), (
            name,
            number,
            places,
            now,
        )
        if entry.marker.tick is None:
            self.apart += 1
            return
        for source in below:
            known = {each[source] for each in self.at.get(entry.marker.tick, []) if source in each}
            assert known <= {json.dumps(below[source])}, (name, number)
        self.at.setdefault(entry.marker.tick, []).append({source: json.dumps(place) for source, place in below.items()})

    def answer(self, name: str, e: int, f: int, now: int) -> Rows:
        """Return DuckDB's rows of a view or the sink after `e` and `f` batches of the sources, at time `now`."""
        if (name, e, f, now) not in self.answers:
            views = {view: query.replace("mz_now()", str(now)) for view, query in VIEWS.items()}
            query = SINK if name == "snk" else f"FROM {name}"
            self.answers[name, e, f, now] = self.asked(query, views, e, f)
        return self.answers[name, e, f, now]

    def asked(self, query: str, views: Mapping[str, str], e: int, f: int) -> Rows:
        """Return DuckDB's answer over `views` of the sources after `e` and `f` batches."""
        connection = _database()
        for each, count in (("e", e), ("f", f)):
            rows: Rows = Counter()
            for row, diff in (change for batch in self.feeds[each].batches[:count] for change in batch):
                rows[row] += diff
            connection.execute(f"CREATE OR REPLACE TABLE {each} ({', '.join(SOURCES[each])})")
            if +rows:  # all rows in one statement: one for each takes ten times as long
                columns = [list(column) for column in zip(*(+rows).elements(), strict=True)]
                connection.execute(f"INSERT INTO {each} SELECT unnest(?), unnest(?)", columns)
        for view, each_query in views.items():
            connection.execute(f"CREATE OR REPLACE VIEW {view} AS {each_query}")
        return Counter(connection.execute(query).fetchall())

    def take_turns(self, *, last: bool) -> None:
        """Run some jobs; in the last step run all of them twice, as the first round may produce input for others."""
        super().take_turns(last=last)
        if last:
            super().take_turns(last=last)

    def check_end(self) -> None:
        """Check that all jobs have the whole input and that ticks only advance."""
        before: dict[str, int] = {}
        for _, tick in reversed(list(Ticks(FolderNumberedLog(self.folder / "ticks")).newest_first())):
            now = {name: next(iter(place.values())) for name, place in tick.sources.items()}
            assert all(now[name] >= at for name, at in before.items())
            before = now
        ends = {each: len(feed.batches) for each, feed in self.feeds.items()}
        for name, job in self.jobs.items():
            newest = self.log(name).newest()
            assert newest is not None
            assert contents(self.log(name), job, newest[1]) == self.answer(name, **ends, now=self.now), name


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return the shared database; opening one for each answer takes longer than the answer."""
    return duckdb.connect(config={"threads": 1})
