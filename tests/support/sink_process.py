"""Run a sink as a separate process: six batches that depend only on their number, from the table's checkpoint.

The mode `branch` is an upsert sink on a branch, which is published after each batch.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sinkql.connector_api.stream import StaleFilesError
from sinkql.connectors.iceberg.commit.proposal import publish
from support.eager import compact_eagerly
from support.fault import armed
from support.lake import Lake, Pairs, Sink

BATCHES = 6


def rows_of(batch: int, *, upsert: bool) -> Pairs:
    """Return a batch's rows; upserts overwrite half of the previous batch."""
    first = batch * 2 if upsert else batch * 4
    return [(first + each, f"{batch}.{each}") for each in range(4)]


def expected(*, upsert: bool) -> list[tuple[int, str | None]]:
    """Return the table's rows after all batches."""
    rows = [row for batch in range(BATCHES) for row in rows_of(batch, upsert=upsert)]
    return sorted(dict(rows).items()) if upsert else sorted(rows)


def main(folder: Path, name: str, *, mode: str, failpoints: str) -> None:
    """Run the sink to its end with these failpoints armed."""
    os.environ.update(armed(failpoints))
    compact_eagerly(pytest.MonkeyPatch())  # never undone: the process runs nothing else
    upsert = mode != "append"
    branch = {"branch": "audit"} if mode == "branch" else {}
    sink = Sink(Lake(folder), name, upsert=upsert, options={"retain_snapshots": 3, **branch})
    sink.start()
    while True:
        batch = sink.writer.refresh().end["numbers"]["batch"]
        if branch:
            publish(sink.planned, sink.context)
        if batch == BATCHES:
            return
        try:
            sink.put(*rows_of(batch, upsert=upsert))
        except StaleFilesError:
            continue
        questions = iter([True, True])
        sink.writer.maintenance.maintain(lambda begun: mode != "steps" or next(questions, False))  # noqa: B023  # called immediately
