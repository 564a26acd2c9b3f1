"""Views with indexes and jobs that join them. They run in turns and fail at random, while indexes change.

Each commit is compared with DuckDB's answer over the sources at the offsets of the commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from sinkql import physical
from sinkql.lowering.job import lower
from sinkql.machine import clock
from sinkql.runtime.batch import full_refresh
from sinkql.session import Session
from view.histories import Rows, contents
from view.ticks import SOURCES, TickHistory

KEPT = {
    "v": "SELECT g, count(*) AS n, max(x) AS s FROM e GROUP BY g",
    "w": "SELECT g, x FROM e WHERE x > 1",
    "u": "SELECT h, sum(y) AS t, count(*) AS c FROM f GROUP BY h",
}
JOINED = {
    "inner_": "SELECT f.h, f.y, v.n, v.s FROM f JOIN v ON f.h = v.g",
    "outer_": "SELECT f.h, f.y, w.x FROM f LEFT JOIN w ON w.g = f.h",
    "kept_": "SELECT v.g, f.y FROM v LEFT JOIN f ON v.g = f.h",
    "full_": "SELECT v.g, v.s, u.t FROM v FULL JOIN u ON v.g = u.h",
    "semi_": "SELECT h, y FROM f WHERE EXISTS (SELECT 1 FROM w WHERE w.g = f.h)",
    "anti_": "SELECT h, y FROM f WHERE NOT EXISTS (SELECT 1 FROM v WHERE v.n = f.y)",
    "self_": "SELECT a.g, b.g AS h, a.n FROM v a JOIN v b ON a.n = b.n",
    "two_": "SELECT f.y, v.s, v.n FROM f JOIN v ON v.g = f.h AND v.n % 2 = f.y % 2",
    "three_": "SELECT f.y, v.n, w.x FROM f LEFT JOIN v ON v.g = f.h LEFT JOIN w ON w.g = f.h",
    "safe_": "SELECT f.y, w.x, w.g FROM f JOIN w ON w.g IS NOT DISTINCT FROM f.h",
    "orders_": "SELECT v.g, v.s, u.t FROM v JOIN u ON v.g = u.h AND v.n = u.c",
    "above_": "SELECT v.s, count(*) AS c FROM f JOIN v ON f.h = v.g GROUP BY v.s",
}
VIEWS = {**KEPT, **JOINED}
INDEXES: Sequence[Sequence[str]] = (
    (),
    ("v (g)", "v (n)", "v (g, n % 2)", "v (n, g)", "w (g)", "u (h)", "u (h, c)"),
    ("v (g)", "w (g)", "u (c, h)"),
)
"""The sets of indexes that a history alternates between."""


def variants(folder: Path) -> list[dict[str, physical.Job]]:
    """Return the jobs of the views for each of these sets of indexes, as a catalog lowers them."""
    statements = [f"CREATE TABLE {name} ({', '.join(columns)});" for name, columns in SOURCES.items()]
    statements += [
        f"CREATE MATERIALIZED VIEW {name} WITH (COMMIT INTERVAL = '1s') AS {query};" for name, query in VIEWS.items()
    ]
    found = []
    with Session(folder / "catalog") as session:
        session.execute("\n".join(statements))
        for indexes in INDEXES:
            names = [f"i{place}" for place in range(len(indexes))]
            session.execute("".join(f"CREATE INDEX {name} ON {on};" for name, on in zip(names, indexes, strict=True)))
            found.append({name: lower(f"materialize.public.{name}", session.catalog.plans) for name in VIEWS})
            session.execute("".join(f"DROP INDEX {name};" for name in names) or "SELECT 1")
    return found


def looking_up(job: physical.Job) -> list[physical.Index]:
    """Return the indexes in which the joins of a job look up rows."""
    joins = (each for each in job.graph.running() if isinstance(each, physical.Join))
    return [side.index for join in joins for side in join.leaves if side.index is not None]


class _WaitingError(Exception):
    """A full refresh waits for another job, which cannot run because this test has one thread."""


def _wait(seconds: float) -> None:
    raise _WaitingError(seconds)


@dataclass
class IndexHistory(TickHistory):
    """One history of all these jobs; `variants` are the jobs for each set of indexes."""

    variants: Sequence[Mapping[str, physical.Job]] = ()
    waited: int = 0
    last: bool = False

    @property
    def jobs(self) -> Mapping[str, physical.Job]:
        return self.made

    def change(self) -> None:
        super().change()
        if self.rng.random() < 0.4:
            self.made = self.rng.choice(self.variants)
            self.loops.clear()

    def take_turns(self, *, last: bool) -> None:
        self.last = last
        super().take_turns(last=last)

    def turn(self, name: str, *, failing: bool) -> None:
        """Run a job. If it waits for an index that its view has not built yet, leave it for a later turn."""
        try:
            with patch.object(full_refresh, "clock", SimpleNamespace(sleep=_wait, time_ms=clock.time_ms)):
                super().turn(name, failing=failing)
        except (AssertionError, _WaitingError) as error:
            waits = isinstance(error, _WaitingError) or "does not get on" in str(error)
            if self.last or not waits or not looking_up(self.jobs[name]):
                raise
            self.loops.pop(name, None)
            self.waited += 1

    def answer(self, name: str, e: int, f: int, now: int) -> Rows:
        """Return DuckDB's rows of a view after `e` and `f` batches of the sources."""
        if (name, e, f, 0) not in self.answers:
            self.answers[name, e, f, 0] = self.asked(VIEWS[name], KEPT, e, f)
        return self.answers[name, e, f, 0]

    def check_end(self) -> None:
        """Check that all jobs have the whole input; a full refresh may leave a log behind the last tick."""
        ends = {each: len(feed.batches) for each, feed in self.feeds.items()}
        for name, job in self.jobs.items():
            newest = self.log(name).newest()
            assert newest is not None
            assert contents(self.log(name), job, newest[1]) == self.answer(name, **ends, now=self.now), name
