"""Sinks killed or failed at each step of a claim and of a batch: after a restart, each row is in the table once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support import started
from support.lake import Lake
from support.patience import ended
from support.sink_process import expected, main

pytestmark = [pytest.mark.long, pytest.mark.share(14)]

Run = Callable[[str, str], int]

POINTS = ["claim", "read-marker", "data-file", "commit-request", "commit-reply"]
INDEX_POINTS = ["index-run", "index-manifest"]
COMPACTION = [
    *(("append", point) for point in ("compaction-read", "compaction-file", "compaction", "compacted")),
    *(
        ("upsert", point)
        for point in ("compaction-read", "compaction-file", "compaction-run", "compaction", "compacted")
    ),
    ("steps", "compaction-beside"),
]
CASES = [
    *(("append", point, pass_) for point in POINTS for pass_ in (1, 3)),
    *(("upsert", point, pass_) for point in [*POINTS, *INDEX_POINTS] for pass_ in (1, 3)),
    *(("branch", point, pass_) for point in ("commit-request", "commit-reply", "version-hint") for pass_ in (2, 3)),
]


def _soaks(point: str, pass_: int) -> bool:
    """Return whether only `make soak` runs a kill: one in an early batch that also runs in a later batch."""
    return point != "claim" and pass_ < 3


@pytest.fixture
def run(lake: Lake, name: str) -> Run:
    """Return a function that runs a sink to its end with the given failpoints and returns the exit code."""

    def start(mode: str, failpoints: str) -> int:
        process = started.start(main, lake.folder, name, mode=mode, failpoints=failpoints)
        (code,) = ended(process)
        assert code is not None
        return code

    return start


@pytest.mark.parametrize(
    ("mode", "point", "pass_"),
    [
        pytest.param(*case, marks=pytest.mark.soak if _soaks(*case[1:]) else ())
        for case in CASES
        if case[1] != "claim" or case[2] == 1
    ],
)
def test_rows_are_there_once_after_a_kill(run: Run, lake: Lake, name: str, mode: str, point: str, pass_: int) -> None:
    assert run(mode, f"{point}#{pass_}=kill") == -9
    assert run(mode, "") == 0
    assert lake.rows(name) == expected(upsert=mode != "append")


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("point", ["commit-request", "commit-reply"])
def test_rows_are_there_once_after_two_kills_in_a_row(run: Run, lake: Lake, name: str, mode: str, point: str) -> None:
    assert run(mode, f"{point}#3=kill") == -9
    assert run(mode, f"{point}#2=kill") == -9
    assert run(mode, "") == 0
    assert lake.rows(name) == expected(upsert=mode != "append")


@pytest.mark.parametrize(("mode", "point"), sorted({case[:2] for case in CASES}))
def test_rows_are_there_once_after_a_failure(run: Run, lake: Lake, name: str, mode: str, point: str) -> None:
    survives = point in ("commit-reply", "version-hint")  # a lost reply is resolved in the same run
    code = run(mode, f"{point}#{1 if point == 'claim' else 2}=fail")
    assert (code == 0) is survives
    assert run(mode, "") == 0
    assert lake.rows(name) == expected(upsert=mode != "append")


@pytest.mark.parametrize(("mode", "point"), COMPACTION)
def test_rows_are_there_once_after_a_kill_or_failure_in_a_compaction(
    run: Run, lake: Lake, name: str, mode: str, point: str
) -> None:
    assert run(mode, f"{point}=kill") == -9
    assert run(mode, f"{point}=fail") == 0  # the sink continues without the compaction
    assert run(mode, "") == 0
    assert lake.rows(name) == expected(upsert=mode != "append")


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_rows_are_there_once_after_a_kill_and_a_lost_folder(run: Run, lake: Lake, name: str, mode: str) -> None:
    assert run(mode, "commit-reply#4=kill") == -9
    state = lake.folder / "state"
    if state.exists():
        state.rename(lake.folder / "lost")
    assert run(mode, "") == 0
    assert lake.rows(name) == expected(upsert=mode != "append")
