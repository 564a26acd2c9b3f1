"""At every entry, a view's log equals its SQL over the input, and so do the tables of its readers."""

from __future__ import annotations

import math
import random
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from sinkql.connector_api.stream import NO_PLAN, Checkpoint, Limit, ReadCounts, Size
from sinkql.connectors.view.log import ViewLog, entry_after
from sinkql.connectors.view.rows import consolidate
from sinkql.errors import FencedError, SinkqlError
from sinkql.storage import spill
from support.running import contexts, drain
from view.histories import COPY, JOBS, MV, REGISTRY, History, Rows, contents, reading

CHECKPOINT = Checkpoint("mv", 1, "", "", {}, {}, NO_PLAN, None, None)
_SEEDS = (3, 5)
_STEPS = 14


def _run(folder: Path, seed: int) -> History:
    """Run a history. Every other seed keeps little of the log, and every third one spills all rows."""
    history = History(folder / str(seed), random.Random(seed))
    with (
        patch("sinkql.connectors.view.writer._SWEEP_EVERY", 2 if seed % 2 else 16),
        patch("sinkql.connectors.view.writer._LEAST_HISTORY", 0 if seed % 4 == 1 else 1 << 20),
        patch("sinkql.storage.spill.MOST", 0 if seed % 3 == 1 else spill.MOST),
        patch("sinkql.storage.spill.PART", 64 if seed % 3 == 1 else spill.PART),
    ):
        history.run(_STEPS)
    return history


def test_each_entry_is_the_view_at_its_offsets_whatever_fails(tmp_path: Path) -> None:
    found = [_run(tmp_path, seed) for seed in _SEEDS]
    assert sum(each.failures for each in found) > len(_SEEDS)
    assert sum(each.fenced for each in found) > 0
    assert sum(each.rebuilt for each in found) > 0


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
def test_many_histories(tmp_path: Path, part: int) -> None:
    for seed in range(100 * part, 100 * part + 50):
        _run(tmp_path, seed)


def _loops(folder: Path) -> History:
    history = History(folder, random.Random(1))
    history.change()
    history.listed.batches.append([((1, 5), 1)])
    history.turn("mv", failing=False)
    history.turn("copy", failing=False)
    return history


def now(history: History, name: str) -> Rows:
    newest = history.log(name).newest()
    assert newest is not None
    return contents(history.log(name), JOBS[name], newest[1])


def test_who_is_overtaken_is_fenced(tmp_path: Path) -> None:
    history = _loops(tmp_path)
    zombie = history.loops.pop("mv")
    history.turn("mv", failing=False)
    history.listed.batches.append([((1, 7), 1)])
    with pytest.raises(FencedError):
        drain(zombie)


def test_a_gap_in_the_log_is_never_filled(tmp_path: Path) -> None:
    history = _loops(tmp_path)
    log = history.log("mv")
    number, entry = entry_after(log.newest(), CHECKPOINT, "mine")
    for each in range(number, number + 3):  # another process continues and then deletes all but its last entry
        assert log.publish(each, entry)
    for each in range(1, number + 2):
        log.remove(each)
    assert not ViewLog(log.folder).publish(number, entry)
    assert log.entry(number) is None


def test_an_upsert_sink_that_comes_too_late_compares_its_rows_with_the_contents(tmp_path: Path) -> None:
    history = _loops(tmp_path)
    at = history.loops.pop("copy").checkpoint.end["mv"]["at"]
    history.listed.batches.append([((1, 9), 1), ((2, 4), 1)])
    history.turn("mv", failing=False)
    for number in range(1, at + 1):
        history.log("mv").remove(number)
    history.turn("copy", failing=False)
    assert history.rebuilt == 1
    rows = [now(history, name) for name in ("mv", "copy")]
    assert rows[0] == rows[1]
    assert rows[0]


def test_the_size_of_a_batch_is_that_of_the_runs(tmp_path: Path) -> None:
    history = _loops(tmp_path)
    reader = REGISTRY.reader(reading(MV), contexts(tmp_path, COPY))
    first = history.loops["copy"].checkpoint.end["mv"]
    history.listed.batches.append([((1, 9), 1), ((2, 4), 1)])
    history.turn("mv", failing=False)
    splits, counts = reader.splits(first, reader.latest(first, Limit(100))), ReadCounts()
    rows = sum(len(batch) for split in splits for batch in reader.read(split, counts))
    size = reader.size(splits)
    assert size is not None
    assert (size.rows, size.bytes) == (rows, counts.bytes)
    assert rows
    assert Size(0, 0) == reader.size([])


def test_one_that_only_adds_rows_and_comes_too_late_is_told_so(tmp_path: Path) -> None:
    history = _loops(tmp_path)
    reader = REGISTRY.reader(reading(MV), contexts(tmp_path, COPY))
    start = history.loops["copy"].checkpoint.end["mv"]
    history.listed.batches.append([((1, 9), 1), ((2, 4), 1)])
    history.turn("mv", failing=False)
    history.log("mv").remove(start["at"])
    with pytest.raises(SinkqlError) as refused:
        reader.splits(start, reader.latest(start, Limit(100)))
    assert refused.value.code == "SQ3450"


def test_the_contents_of_a_commit_that_are_gone_are_read_as_they_are_now(tmp_path: Path) -> None:
    history = _loops(tmp_path)
    reader = REGISTRY.reader(reading(MV), contexts(tmp_path, COPY))
    begin, end = reader.initial(at_end=False), history.loops["copy"].checkpoint.end["mv"]
    history.log("mv").remove(end["at"])
    with pytest.raises(SinkqlError) as gone:
        reader.splits(begin, end)
    assert gone.value.code == "SQ3451"
    assert gone.value.retryable


def test_what_no_reader_needs_goes(tmp_path: Path) -> None:
    history = _loops(tmp_path)
    with patch("sinkql.connectors.view.writer._SWEEP_EVERY", 1):
        for number in range(40):
            history.listed.batches.append([((1, number), 1), ((2, number), 1)])
            history.turn("mv", failing=False)
            history.turn("copy", failing=False)
        history.turn("mv", failing=False)
    for name in ("mv", "copy"):
        log = history.log(name)
        assert len(log.numbers()) <= 4
        assert len(list((log.folder / "runs").glob("*/*.arrow"))) < 30


def test_changes_stay_for_a_reader_that_waits(tmp_path: Path) -> None:
    history = _loops(tmp_path)
    at = history.loops["copy"].checkpoint.end["mv"]["at"]
    with patch("sinkql.connectors.view.writer._SWEEP_EVERY", 1):
        for number in range(10):
            history.listed.batches.append([((1, number), 1)])
            history.turn("mv", failing=False)
    assert history.log("mv").numbers()[0] == at
    history.turn("copy", failing=False)
    assert history.rebuilt == 0


def test_equal_values_are_added_up_whatever_their_type() -> None:
    table = pa.table(
        {
            "a": pa.array([0.0, -0.0, math.nan, math.nan, None, None]),
            "b": pa.array([[1, None], [1, None], [2], [2], None, None], pa.list_(pa.int32())),
            "$diff": pa.array([1, -1, 1, 1, 2, -1]),
        }
    )
    found = consolidate(table).to_pylist()
    assert [(math.isnan(row["a"]) if row["a"] is not None else None, row["b"], row["$diff"]) for row in found] == [
        (True, [2], 2),
        (None, None, 1),
    ]
