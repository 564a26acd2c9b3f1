"""A stepwise compaction with a batch between two steps that removes files it is copying."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.types import LongType

from sinkql.connectors.iceberg.compact import selection
from sinkql.connectors.iceberg.compact.compaction import UnreadableFileError
from sinkql.connectors.iceberg.key_index import compaction
from sinkql.connectors.iceberg.key_index.compaction import compact_runs
from sinkql.connectors.iceberg.key_index.run import TIERS
from upsert.keyed_sink import Sink, create_table, pyiceberg_rows

KEYS = range(60)
BUCKETS = 3


class Kept:
    """A sink of (k, v) and its table's expected rows; each bucket has two files of five rows."""

    def __init__(self, folder: Path) -> None:
        self.sink = Sink(create_table(folder, {"k": LongType(), "v": LongType()}), ("k",), folder / "index")
        self.sink.buckets = BUCKETS
        self.rows: dict[int, int] = {}
        self.bucket = [[key for key in KEYS if self.sink._bucket_of((key,)) == each] for each in range(BUCKETS)]
        for start in (0, 5):
            self.put([key for keys in self.bucket for key in keys[start : start + 5]], start)

    def put(self, keys: Sequence[int], value: int) -> None:
        self.rows.update(dict.fromkeys(keys, value))
        columns = {"k": keys, "v": [value] * len(keys), "$seq": range(len(keys))}
        self.sink.apply(pa.table({name: pa.array(each, pa.int64()) for name, each in columns.items()}))

    def take(self, keys: Sequence[int]) -> None:
        """Delete rows with a batch of changes."""
        columns = {"k": keys, "v": [self.rows.pop(key) for key in keys], "$diff": [-1] * len(keys)}
        self.sink.change = "retract"
        self.sink.apply(pa.table({name: pa.array(each, pa.int64()) for name, each in columns.items()}))
        self.sink.change = "append"

    def paths(self) -> set[str]:
        return {each.path for each in self.sink.index.files.values()}

    def compact(self, step: int, deed: Callable[[], None]) -> None:
        """Compact, call `deed` after step `step`, and check the table's rows."""
        left = step

        def between() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                deed()

        assert self.sink.compact(between)
        assert left <= 0
        assert sorted(pyiceberg_rows(self.sink.table)) == sorted(self.rows.items())


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    least = selection._LEAST
    monkeypatch.setattr(
        selection, "_LEAST", replace(least, files=replace(least.files, fan=2), as_well=(2, 2), dead_rows=1)
    )
    return Kept(tmp_path)


@pytest.mark.parametrize("step", range(1, 7))
def test_a_copy_that_died_takes_no_deletes_along(kept: Kept, step: int) -> None:
    first, second, third = kept.bucket
    kept.compact(step, lambda: kept.put([first[0], *second[:10], *third[:2]], 100))


@pytest.mark.parametrize("step", range(1, 7))
def test_a_file_that_left_the_table_may_be_deleted(kept: Kept, step: int) -> None:
    def rewrite() -> None:
        before = kept.paths()
        kept.put(kept.bucket[2][:10], 100)
        gone = before - kept.paths()
        assert len(gone) == 2
        for path in gone:  # like an expiry of their snapshots
            Path(path.removeprefix("file://")).unlink()

    kept.compact(step, rewrite)


@pytest.mark.parametrize("forgets", ["merge", "fold"])
@pytest.mark.parametrize("step", range(1, 7, 2))
def test_a_row_that_goes_meanwhile_stays_away_though_the_index_forgets_it(
    kept: Kept, step: int, forgets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deed() -> None:
        kept.take([key for keys in kept.bucket for key in keys[:2]])
        if forgets == "merge":  # the batch's run is merged with all older runs
            kept.put([keys[2] for keys in kept.bucket], 100)
        else:  # like a compaction of small files that commits in between
            kept.sink.index = compact_runs(replace(kept.sink.index, commit="folded"), kept.sink.folder, "folded")
        assert sum(run.rows for run in kept.sink.index.runs) == len(kept.rows)

    if forgets == "merge":
        monkeypatch.setattr("sinkql.connectors.iceberg.write.upsert_task.TIERS", replace(TIERS, fan=2))
    else:
        monkeypatch.setattr(compaction, "_SLACK", -1 << 16)
    kept.compact(step, deed)


@pytest.mark.parametrize("step", [1, 4])
def test_older_runs_that_become_one_meanwhile_say_nothing_of_newer_rows(
    kept: Kept, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.put(kept.bucket[0][:1], 100)

    def deed() -> None:
        newest = kept.sink.index.runs[0]
        with monkeypatch.context() as patch:
            patch.setattr(compaction, "runs_to_compact", lambda index: slice(1, len(index.runs)))
            kept.sink.index = compact_runs(replace(kept.sink.index, commit="folded"), kept.sink.folder, "folded")
        assert [run.name for run in kept.sink.index.runs] == [newest.name, "folded.run"]

    kept.compact(step, deed)


def test_a_file_that_is_lost_is_not_left_out(kept: Kept) -> None:
    lost = kept.sink.index.files[max(kept.sink.index.files)].path
    Path(lost.removeprefix("file://")).unlink()
    with pytest.raises(UnreadableFileError, match=lost):
        kept.sink.compact()
