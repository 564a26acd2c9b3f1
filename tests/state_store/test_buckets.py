"""BUCKETS: a sink with a new number of buckets recomputes its rows once, and its table stays right."""

from __future__ import annotations

from pathlib import Path

import pytest

from sinkql.errors import SinkqlError
from sinkql.runtime.local.engine import LocalEngine
from sinkql.runtime.state import manifest
from state_store.other_host import SINKS, Pipeline, pipeline
from support.running import drain


def _run(moving: Pipeline, sink: str) -> tuple[bool, int | None]:
    """Run a sink; return whether it needed a full refresh, and the number of buckets of its state."""
    (job,) = moving.session.jobs([sink])
    moving.engine = LocalEngine(job.buckets or 2)
    loop = moving.run(sink, batches=False)
    anew = loop.needs_full_refresh()
    drain(loop)
    moving.check(sink)
    state = loop.checkpoint.state
    return anew, int(manifest.load(loop.folder, state)["buckets"]) if state is not None else None


@pytest.mark.parametrize("sink", SINKS)
def test_state_goes_into_more_buckets_and_fewer(tmp_path: Path, sink: str) -> None:
    stateful = sink != "latest"
    with pipeline(tmp_path, str(tmp_path / "elsewhere")) as moving:
        before = None
        for wanted in (None, 5, 5, 3):
            if wanted is not None:
                moving.session.execute(f"ALTER SINK {sink} SET (BUCKETS = {wanted});")
            moving.put(60)
            anew, buckets = _run(moving, sink)
            assert buckets == ((wanted or 2) if stateful else None)
            assert anew == (before is not None and before != buckets)
            before = buckets


def test_no_buckets_and_too_many_are_refused(tmp_path: Path) -> None:
    with pipeline(tmp_path, None) as moving:
        for number in (0, 1_000_000):
            with pytest.raises(SinkqlError, match="BUCKETS must be at") as caught:
                moving.session.execute(f"ALTER SINK sums SET (BUCKETS = {number});")
            assert caught.value.code == "SQ2326"
