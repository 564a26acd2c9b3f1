"""Run six batches of a view in a folder, after a killed run if there was one, and commit each to a marker file."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from operators.joined import Case
from operators.pipeline import Change, Pipeline, Row, call, columns, source
from sinkql import physical
from sinkql.runtime.state import manifest as state
from sinkql.state_store.directory import StateDirectory

BATCHES = 6


def view() -> physical.Operator:
    below = physical.Aggregate(
        source("e", "retract", g="integer", x="bigint"),
        "below",
        columns(g="integer"),
        (
            call("c", "count", None, "bigint"),
            call("h", "max", "x", "bigint"),
            call("d", "count", "x", "bigint", distinct=True),
        ),
        "retract",
    )
    calls = (call("groups", "count", "g", "bigint"), call("s", "sum", "h", "bigint"))
    return physical.Aggregate(below, "above", columns(c="bigint"), calls, "retract")


def changes(batch: int) -> list[Change]:
    """Return a batch's inserts, and deletes of half of the previous batch's inserts."""

    def inserts(number: int) -> list[Row]:
        rng = random.Random(number)
        return [(rng.randint(0, 9), rng.randint(0, 99)) for _ in range(40)]

    found: list[Change] = [(row, 1) for row in inserts(batch)]
    if batch:
        found += [(row, -1) for row in inserts(batch - 1)[:20]]
    return found


def offered(name: str, number: int) -> dict[str, list[Change]]:
    """Return the changes of a view's sources in a batch."""
    if name == "group":
        return {"e": changes(number)}
    rows = changes(number)
    return {
        "l": [((g, x, "a"), diff) for (g, x), diff in rows],
        "r": [((x % 20, "b", g), diff) for (g, x), diff in rows],
    }


def join() -> physical.Operator:
    return Case("full", kept=(("lk", "lx"), ("rk", "ry"))).view


VIEWS = {"group": view, "join": join}


def main(folder: Path, name: str) -> None:
    checkpoint = folder / "marker.json"
    pipeline = Pipeline(folder, VIEWS[name]())
    done: dict[str, Any] = (
        json.loads(checkpoint.read_text()) if checkpoint.exists() else {"tables": [], "manifests": pipeline.manifests}
    )
    pipeline.manifests = list(done["manifests"])
    tables = done["tables"]
    for batch in range(BATCHES):
        pipeline.offer(**offered(name, batch))
        if batch < len(tables):
            continue
        rows, manifest = pipeline.attempt()
        pipeline.commit(rows, manifest)
        tables.append(sorted(map(list, rows), key=repr))
        draft = folder / "marker.draft"
        draft.write_text(json.dumps({"tables": tables, "manifests": pipeline.manifests}))
        draft.replace(checkpoint)
        state.sweep(StateDirectory(folder), set(pipeline.manifests[-2:]), epoch=1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
