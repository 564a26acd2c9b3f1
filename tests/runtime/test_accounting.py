"""Before each commit, every record that the batch read is accounted for; a lost record is detected."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from operators.pipeline import Pipeline, overwriting
from sinkql import physical
from sinkql.connector_api.registry import discover
from sinkql.connector_api.stream import WriteResult, WriteTask
from sinkql.errors import SinkqlError
from sinkql.program import compile_text
from sinkql.runtime.batch.engine import Batch, Outcome
from sinkql.runtime.batch.events import Event, Progress, SinkCommitted, silent
from sinkql.runtime.batch.loop import BatchLoop
from sinkql.runtime.local import batch
from sinkql.runtime.local.engine import LocalEngine
from sinkql.runtime.local.task_input import prepared
from support.readers import duckdb_folder
from support.running import MemoryControl, contexts, drain, loop_of

_SCRIPT = """
CREATE CONNECTION lake TO ICEBERG CATALOG (CATALOG TYPE = 'sql', URL = 'sqlite:///{folder}/lake.db',
  WAREHOUSE = '{folder}/lake');
CREATE SOURCE s (k integer, n integer) FROM FILES (PATH = '{folder}/in') FORMAT JSON WITH (ON ERROR = {on_error});
CREATE MATERIALIZED VIEW v AS SELECT k, n FROM s WHERE n <> 5;
CREATE SINK w FROM {relation} INTO ICEBERG CATALOG CONNECTION lake (NAMESPACE = 'n', TABLE = 't') {mode}
  WITH (COMMIT INTERVAL = '1s');
"""
Rows = Iterator[pa.RecordBatch]


def _loop(
    folder: Path,
    relation: str,
    mode: str,
    engine: LocalEngine | None = None,
    on_error: str = "SKIP",
    progress: Progress = silent,
) -> BatchLoop:
    (folder / "in").mkdir()
    lines = ["{", *(json.dumps({"k": number % 4, "n": number}) for number in range(10))]
    (folder / "in" / "a.json").write_text("\n".join(lines))
    script = _SCRIPT.format(folder=folder, relation=relation, mode=mode, on_error=on_error)
    job = compile_text(script, facts={}).jobs[0]
    control = MemoryControl()
    return loop_of(job, contexts(folder, job), discover(), engine=engine, control=control, progress=progress)


@pytest.mark.parametrize(
    ("relation", "mode", "account"),
    [
        ("s", "MODE APPEND", {"read": 11, "failed": 1}),
        ("v", "MODE APPEND", {"read": 11, "failed": 1, "filtered": 1}),
        ("s", "KEY (k) NOT ENFORCED MODE UPSERT", {"read": 11, "failed": 1, "superseded": 6}),
        ("v", "KEY (k) NOT ENFORCED MODE UPSERT", {"read": 11, "failed": 1, "superseded": 5, "filtered": 1}),
    ],
)
def test_each_record_is_accounted_for(tmp_path: Path, relation: str, mode: str, account: dict[str, int]) -> None:
    loop = _loop(tmp_path, relation, mode)
    loop.start(epoch=1, once=True)
    drain(loop)
    assert isinstance(loop.report.control, MemoryControl)
    (commit,) = loop.report.control.commits
    counts = {name: count for name, count in commit["counts"].items() if count}
    assert counts == account
    gone = account["failed"] + account.get("filtered", 0) + account.get("superseded", 0)
    assert commit["rows"] == len(duckdb_folder(str(tmp_path / "lake" / "n" / "t"), "n")) == account["read"] - gone


@pytest.mark.parametrize(("on_error", "dead_letters"), [("SKIP", 0), ("'DEAD LETTER'", 1)])
def test_a_commit_reports_the_records_that_it_stored_as_dead_letters(
    tmp_path: Path, on_error: str, dead_letters: int
) -> None:
    events: list[Event] = []
    loop = _loop(tmp_path, "s", "MODE APPEND", on_error=on_error, progress=events.append)
    loop.start(epoch=1, once=True)
    drain(loop)
    (commit,) = (event for event in events if isinstance(event, SinkCommitted))
    assert (commit.failed, commit.dead_letters) == (1, dead_letters)


@dataclass(frozen=True, slots=True)
class _Changing:
    """A write task that changes its rows first."""

    task: WriteTask
    change: Callable[[pa.RecordBatch], Sequence[pa.RecordBatch]]

    @property
    def commit(self) -> str:
        return self.task.commit

    @property
    def buckets(self) -> int | None:
        return self.task.buckets

    @property
    def key(self) -> tuple[str, ...]:
        return self.task.key

    def __call__(self, bucket: int, attempt: str, batches: Rows) -> WriteResult:
        return self.task(bucket, attempt, (part for each in batches for part in self.change(each)))


def _lost(rows: pa.RecordBatch) -> list[pa.RecordBatch]:
    return [rows.slice(1)]


def _doubled(rows: pa.RecordBatch) -> list[pa.RecordBatch]:
    return [rows, rows]


class _Losing(LocalEngine):
    """A local engine that changes the rows of write tasks."""

    def __init__(self, change: Callable[[pa.RecordBatch], Sequence[pa.RecordBatch]]) -> None:
        super().__init__(2)
        self.change = change

    def execute(self, job: physical.Job, batch: Batch) -> Outcome:
        return super().execute(job, replace(batch, task=_Changing(batch.task, self.change)))


@pytest.mark.parametrize("mode", ["MODE APPEND", "KEY (k) NOT ENFORCED MODE UPSERT"])
@pytest.mark.parametrize("change", [_lost, _doubled])
def test_a_batch_with_a_row_too_few_or_too_many_is_not_committed(tmp_path: Path, mode: str, change: Any) -> None:
    loop = _loop(tmp_path, "s", mode, _Losing(change))
    before = loop.start(epoch=1, once=True)
    with pytest.raises(SinkqlError) as raised:
        drain(loop)
    assert raised.value.code == "SQ3392"
    assert loop.writer.refresh() == before


def test_a_row_that_an_operator_does_not_get_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline(tmp_path, physical.Normalize(overwriting("e", "k", k="integer"), "rows", ("k",)))
    pipeline.batch(e=[((1,), 1)])
    pipeline.offer(e=[((1,), -1), ((2,), 1)])
    monkeypatch.setattr(batch, "prepared", lambda *given: prepared(*given).slice(1))
    with pytest.raises(SinkqlError) as raised:
        pipeline.attempt()
    assert (raised.value.code, raised.value.detail) == ("SQ3392", "rows taken: 1")
