"""Another program maintains a sink's table all the time: no row is lost, duplicated or resurrected, no sink stops."""

from __future__ import annotations

import random
import time
from datetime import timedelta
from pathlib import Path

import pytest
from pyiceberg.table import Table

from crash import verify
from crash.child import open_loop
from crash.pipeline import KINDS, ROWS, Pipeline, write_input
from sinkql.connector_api.stream import JobOffsets
from sinkql.connectors.iceberg.commit import maintenance
from sinkql.connectors.iceberg.table.catalog import open_catalog
from sinkql.errors import SinkqlError
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.batch.pacing import Pacer, PacingOrders
from support.access import Access
from support.eager import compact_eagerly
from support.maintainer import Maintainer
from support.readers import polars_rows, pyiceberg_rows

pytestmark = [pytest.mark.long, pytest.mark.share(4)]

_TRIES = 3


@pytest.mark.parametrize(("kind", "often"), [("append", 0.1), ("upsert", 0.04), ("parts", 0.04), ("vectors", 0.04)])
def test_others_maintain_the_table_of_a_running_sink(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, often: float
) -> None:
    _churn(tmp_path, kind, monkeypatch, rounds=3, often=often)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["append", "upsert", "parts", "vectors", "chain"])
def test_others_maintain_a_table_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, seed: int
) -> None:
    _churn(tmp_path, kind, monkeypatch, seed=seed, rounds=20, often=0.06)


def _churn(folder: Path, kind: str, patch: pytest.MonkeyPatch, *, rounds: int, often: float, seed: int = 0) -> None:
    """Add and commit input while other programs maintain the table, and check the table at the end."""
    pipeline = Pipeline(folder, kind, options="RETAIN SNAPSHOTS = 4")
    compact_eagerly(patch)
    patch.setattr(maintenance, "_AT_ONCE", 2)
    chance = random.Random(f"{kind} {seed}")
    loop = open_loop(pipeline)
    loop.start(epoch=1)
    others = Maintainer(lambda: _opened(folder), chance)
    for number in range(rounds):
        with pytest.MonkeyPatch.context() as points:
            if number < rounds - 1:  # the last round's index must match the final table
                others.between(points, often=often)
            write_input(pipeline.folder, first=ROWS * number)
            if number % 4 == 1:  # another process continues
                loop = open_loop(pipeline)
                loop.start(epoch=1)
            drain(loop)
        others.remove_orphans()
    assert others.done["rewrite data"] + others.done["rewrite deletes"] > rounds // 3
    assert others.done["expire"] > 0
    verify.check_rows(pipeline)
    table, columns = verify.load(folder), KINDS[kind].columns
    assert pyiceberg_rows(table, columns) == polars_rows(table, columns)
    verify.check_index(pipeline)
    verify.check_state(pipeline)


def _opened(folder: Path) -> Table:
    """Open the table with SinkQL's catalog class, because PyIceberg's cannot write metadata of version 3."""
    options = {"catalog_type": "sql", "url": f"sqlite:///{folder}/lake.db", "warehouse": f"{folder}/lake"}
    return open_catalog("others", options, Access()).load_table("n.t")


def drain(loop: BatchLoop) -> None:
    """Commit all available input under the loop's present claim."""
    loop.targets = {name: reader.target(loop.checkpoint.end[name]) for name, reader in loop.readers.items()}
    pacer = Pacer(loop.readers)
    orders = PacingOrders(loop.checkpoint.end, timedelta(0), loop.job.max_rows_per_commit, loop.targets)
    while not loop.caught_up():
        start = loop.checkpoint.end
        _process(loop, start, pacer.next_end(start, orders, time.time_ns() // 1_000_000))


def _process(loop: BatchLoop, start: JobOffsets, end: JobOffsets) -> None:
    """Commit a batch, retrying transient errors like a running sink."""
    for _ in range(_TRIES):
        try:
            loop.commit_batch(start, end)
            return
        except SinkqlError as error:
            if error.code != "SQ5206":
                raise
    raise AssertionError("the batch did not commit")
