"""Without Spark, a sink commits a backlog in batches that this process may run."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from sinkql import physical
from sinkql.connector_api.registry import discover
from sinkql.lowering.placement import ROW_SECONDS, Allowance
from sinkql.runtime.local import measured_engine, placement
from sinkql.runtime.sink.host import SharedSpark, SinkHost
from sinkql.runtime.sink.runner import SinkRunner
from support.running import FixedWorkload, MemoryControl, contexts, counter, job, output, rows

_ROWS, _ALLOWED = 120_000, 30_000
_MANY = Allowance(3.0, 1 << 28)


class _SparkAskedError(Exception):
    pass


def _no_spark() -> NoReturn:
    raise _SparkAskedError


def _commits(folder: Path, work: physical.Job) -> list[int]:
    """Run a sink until it has caught up; return how many rows each commit read."""
    control, workload = MemoryControl(), FixedWorkload([work])
    host = SinkHost(
        SharedSpark(_no_spark, 2, folder / "lanes", is_up=lambda: False), discover(), control, lambda _: None,
        workload, lambda each: contexts(folder, each), once=True,
    )  # fmt: skip
    try:
        (outcome,) = [SinkRunner(host, each).run() for each in workload.now()]
    finally:
        host.scheduler.close()
    assert (outcome.ending, outcome.error) == ("caught up", None)
    return [commit["rows"] for commit in control.commits]


@pytest.mark.parametrize(("cold", "least"), [(Allowance(_ALLOWED * ROW_SECONDS, 1 << 28), 4), (_MANY, 1)])
@pytest.mark.parametrize("key", [(), ("n",)])
def test_a_backlog_is_committed_in_parts_that_need_no_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cold: Allowance, least: int, key: tuple[str, ...]
) -> None:
    for module in (placement, measured_engine):
        monkeypatch.setattr(module, "COLD", cold)
    body = physical.Map(counter(up_to=_ROWS), (output("n", "`counter`"),))
    read = _commits(tmp_path, job(body, tmp_path, key=key))
    assert sum(read) == _ROWS
    assert max(read) <= cold.rows()
    assert len(read) >= least
    assert rows(tmp_path) == [(n,) for n in range(1, _ROWS + 1)]


def test_a_backlog_is_not_divided_below_the_rows_of_a_commit(tmp_path: Path) -> None:
    read = _commits(tmp_path, job(counter(up_to=_ROWS), tmp_path, max_rows=50_000))
    assert read == [50_000, 50_000, 20_000]
