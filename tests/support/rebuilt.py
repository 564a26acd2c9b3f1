"""Check that recovered state equals the lost state, with random histories of a source and stateful views over it."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from capture.pipeline import drained
from sinkql.errors import LostStateError
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.batch.state import recover_state
from sinkql.runtime.local.engine import LocalEngine
from sinkql.runtime.state import manifest as state
from sinkql.runtime.state.arrangement import bucket_folder
from sinkql.runtime.state.run import open_run
from sinkql.session import Session
from sinkql.testing.target import MemoryWriter
from support.running import loop_of

VIEWS = {
    "counts": ("k", "SELECT k, count(*) AS n, sum(v) AS total, max(v) AS most FROM {t} GROUP BY k"),
    "lists": ("k", "SELECT k, array_agg(v ORDER BY id) AS list, count(DISTINCT v) AS n FROM {t} GROUP BY k"),
    "distinct": ("k, v", "SELECT DISTINCT k, v FROM {t}"),
    "pairs": ("a, b", "SELECT x.id AS a, y.id AS b FROM {t} AS x JOIN {t} AS y ON x.k = y.k AND x.v < y.v"),
    "lacking": ("id", "SELECT id, v FROM {t} AS x WHERE NOT EXISTS (SELECT 1 FROM {t} AS y WHERE y.v = x.k)"),
    "ranked": ("id", "SELECT id, k, rank FROM (SELECT id, k, row_number() OVER (PARTITION BY k ORDER BY v, id) "
               "AS rank FROM {t}) AS x WHERE rank < 3"),
    "windows": ("id", "SELECT id, sum(v) OVER (PARTITION BY k ORDER BY id) AS so_far FROM {t}"),
}  # fmt: skip
"""By name: the key, and a query over a relation `t` with bigint columns id (unique), k and v."""
_SINK = """
CREATE MATERIALIZED VIEW {name} AS {sql};
CREATE SINK {name}_sink FROM {name} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = '{name}')
  KEY ({key}) NOT ENFORCED MODE UPSERT WITH (COMMIT INTERVAL = '1s', MAX ROWS PER COMMIT = {rows});
"""


class Rows:
    """A generator of random rows with unique ids."""

    def __init__(self, dice: random.Random) -> None:
        self.dice, self.next = dice, 0

    def some(self) -> list[tuple[int, int, int]]:
        found = [
            (self.next + each, self.dice.randrange(5), self.dice.randrange(8))
            for each in range(self.dice.randint(1, 6))
        ]
        self.next += len(found)
        return found

    def lines(self) -> list[str]:
        return [json.dumps(dict(zip(("id", "k", "v"), row, strict=True))) for row in self.some()]


def contents(manifest: state.Manifest, folder: Path) -> dict[str, Counter[str]]:
    """Return the rows of state by arrangement and bucket, regardless of their distribution over runs."""
    found = {}
    for name, buckets in manifest["arrangements"].items():
        for bucket, entries in buckets.items():
            rows = []
            for entry in entries:
                rows += open_run(bucket_folder(folder, name, int(bucket)), entry).between(0, (1 << 64) - 1).to_pylist()
            found[f"{name} {bucket}"] = _added_up(rows)
    return found


def _added_up(rows: list[dict[str, Any]]) -> Counter[str]:
    found: Counter[str] = Counter()
    if rows and "$p" in rows[0]:
        for row in rows:
            diff = row.pop("$diff", 1)
            found[repr(row)] += diff
        return Counter({row: count for row, count in found.items() if count})
    newest = {(row["$h1"], row["$h2"]): row for row in rows}
    return Counter(repr(row) for row in newest.values() if row.get("$count") != 0)


def check_rebuilt(loop: BatchLoop) -> int:
    """Check that the state of a sink equals its recovered state; return the number of its rows."""
    home = loop.state.directory
    kept = contents(state.load(loop.folder, str(loop.checkpoint.state)), loop.folder)
    lost = LostStateError("SQ3402", "it is lost")
    rebuilt = recover_state(loop.job, loop.readers, loop.computation.engine, home, loop.checkpoint, lost)
    again = contents(rebuilt, loop.folder)
    for name in kept.keys() | again.keys():
        assert kept.get(name) == again.get(name), name
    return sum(map(len, kept.values()))


def sink_views(session: Session, dice: random.Random, relation: str = "t") -> list[str]:
    """Create sinks of two views over a relation; return their names."""
    names = dice.sample(sorted(VIEWS), 2)
    for name in names:
        key, sql = VIEWS[name]
        session.execute(_SINK.format(name=name, key=key, sql=sql.format(t=relation), rows=dice.choice((4, 12, 500))))
    return names


def run_history(
    session: Session, dice: random.Random, names: list[str], change: Callable[[], object], *, turns: int = 4
) -> None:
    """Change a source and run the sinks of views in turns; compare their state after batches, and lose it at random.

    The output of the views stays in memory.
    """
    rows = 0
    writers: dict[str, MemoryWriter] = {}
    really = BatchLoop.commit_batch

    def process(loop: BatchLoop, *arguments: Any) -> None:
        nonlocal rows
        really(loop, *arguments)
        if dice.random() < 0.4:
            rows += check_rebuilt(loop)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BatchLoop, "commit_batch", process)
        for _ in range(turns):
            for _ in range(dice.randint(1, 3)):
                change()
            for name in names:
                (job,) = session.jobs((f"{name}_sink",))
                engine = LocalEngine(buckets=2)
                writer = writers.setdefault(name, MemoryWriter(job.write, job.sink))
                registry = session.catalog.registry
                loop = drained(partial(loop_of, job, session.context(job), registry, engine=engine, writer=writer))
                rows += check_rebuilt(loop)
                if dice.random() < 0.3:
                    shutil.rmtree(loop.folder / "state", ignore_errors=True)  # absent for a view without rows
    assert rows
