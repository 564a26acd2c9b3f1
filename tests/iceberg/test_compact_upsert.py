"""An upsert sink compacts its files and removes dead rows; rows that others deleted do not reappear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from sinkql.connectors.iceberg.commit.committer import commit_proposal
from sinkql.connectors.iceberg.compact import selection
from sinkql.connectors.iceberg.compact import upsert as compact_upsert
from sinkql.connectors.iceberg.file.deletes import live_files
from sinkql.connectors.iceberg.key_index import compaction
from sinkql.connectors.iceberg.key_index.index import Index
from sinkql.connectors.iceberg.key_index.run import Entries, live_rows
from sinkql.connectors.iceberg.write import upsert_compactor
from sinkql.storage.sorted_run import MergePolicy
from support import strangers
from support.eager import compact_eagerly
from support.lake import Lake, Sink

pytestmark = pytest.mark.long

BATCHES = 12


def churn(batch: int) -> list[tuple[int, str | None]]:
    """Return a batch's rows: some keys recur in later batches, one does not."""
    return [*((each, f"{batch}.{each}") for each in range(batch % 4, 20, 4)), (1000 + batch, None)]


def after(batches: int) -> dict[int, str | None]:
    return {id_: name for batch in range(batches) for id_, name in churn(batch)}


def replaced(table: Table) -> int:
    return sum(each.summary.operation.value == "replace" for each in table.metadata.snapshots if each.summary)


@pytest.fixture(autouse=True)
def eagerly(monkeypatch: pytest.MonkeyPatch) -> None:
    compact_eagerly(monkeypatch)


def test_files_stay_few_and_hold_few_dead_rows(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, upsert=True)
    sink.start()
    files = []
    for batch in range(30):
        sink.put(*churn(batch))
        sink.writer.maintenance.maintain()
        live = live_files(lake.table(name))
        files.append(len(live.data) + len(live.deletes))
    assert max(files) <= 12
    assert lake.rows(name) == sorted(after(30).items())
    assert replaced(lake.table(name)) >= 6


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Return a function that schedules a call just before the next compaction commits its files."""

    def arrange(deed: Callable[[], Any]) -> None:
        left = [deed]

        def late(*arguments: Any, **limits: Any) -> Table:
            if left:
                left.pop()()
            return commit_proposal(*arguments, **limits)

        monkeypatch.setattr("sinkql.connectors.iceberg.write.compaction.commit_proposal", late)

    return arrange


@pytest.mark.share(2)
@pytest.mark.parametrize("deed", ["append", "delete", "compact", "expire"])
def test_what_others_do_meanwhile_stays(
    lake: Lake, name: str, meanwhile: Callable[[Callable[[], Any]], None], deed: str
) -> None:
    deeds: dict[str, Callable[[], None]] = {
        "append": lambda: strangers.append(lake.table(name), (900, "theirs")),
        "delete": lambda: strangers.delete(lake.table(name), "id = 1000"),
        "compact": lambda: strangers.compact(lake.table(name)),
        "expire": lambda: strangers.expire_all_but_head(lake.table(name)),
    }
    meanwhile(deeds[deed])
    sink = Sink(lake, name, upsert=True)
    sink.start()
    for batch in range(BATCHES):
        sink.put(*churn(batch))
        sink.writer.maintenance.maintain()
    expected = after(BATCHES) | ({900: "theirs"} if deed == "append" else {})
    expected = {id_: value for id_, value in expected.items() if deed != "delete" or id_ != 1000}
    assert lake.rows(name) == sorted(expected.items())
    assert replaced(lake.table(name)) >= 1


def test_small_files_become_few_while_a_compaction_is_under_way(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, upsert=True)
    sink.start()
    for batch in range(7):
        sink.put(*churn(batch))
    questions = iter([True])
    sink.writer.maintenance.maintain(lambda begun: next(questions, False))
    compacting = sink.writer.maintenance.schedule
    begun = compacting.running_id()
    assert begun is not None
    for batch in range(7, 19):
        sink.put(*churn(batch))
        questions = iter([True])
        sink.writer.maintenance.maintain(lambda begun: next(questions, False))  # noqa: B023  # it is called immediately
        assert compacting.running_id() == begun
    assert lake.rows(name) == sorted(after(19).items())
    assert replaced(lake.table(name)) >= 2
    live = live_files(lake.table(name))
    assert len(live.data) + len(live.deletes) <= 8 + 3 * 5
    before = replaced(lake.table(name))
    sink.writer.maintenance.maintain()
    assert compacting.running_id() is None
    assert replaced(lake.table(name)) > before
    assert lake.rows(name) == sorted(after(19).items())
    again = Sink(lake, name, upsert=True)
    again.start(epoch=2)
    for batch in range(19, 23):
        again.put(*churn(batch))
    assert lake.rows(name) == sorted(after(23).items())


def test_a_sink_that_lost_the_table_does_not_compact_it(
    lake: Lake, name: str, meanwhile: Callable[[Callable[[], Any]], None]
) -> None:
    sink, later = Sink(lake, name, upsert=True), Sink(lake, name, upsert=True)
    meanwhile(lambda: later.start(epoch=2))
    sink.start()
    for batch in range(7):
        sink.put(*churn(batch))
    before = set(live_files(lake.table(name)).data)
    with pytest.raises(Exception, match="another run has taken over") as caught:
        sink.writer.maintenance.maintain()
    assert getattr(caught.value, "code", None) == "SQ5101"
    assert before == set(live_files(lake.table(name)).data)
    for batch in range(7, BATCHES):
        later.put(*churn(batch))
    assert lake.rows(name) == sorted(after(BATCHES).items())


def test_restart_after_a_compaction_continues_with_its_index(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, upsert=True)
    sink.start()
    batch = 0
    while not batch or not replaced(lake.table(name)):
        assert batch < 100, "no compaction ran"
        sink.put(*churn(batch))
        sink.writer.maintenance.maintain()
        batch += 1
    again = Sink(lake, name, upsert=True)
    checkpoint = again.start(epoch=2)
    assert checkpoint.index is not None
    folder = again.context.folder / "index"
    before = {path.name for path in folder.iterdir()}
    again.put((0, "last"))
    assert not [path for path in folder.iterdir() if path.name.startswith("base-") and path.name not in before]
    assert lake.rows(name) == sorted((after(batch) | {0: "last"}).items())


@pytest.mark.share(2)
@pytest.mark.parametrize("lie", ["places", "keys"])
def test_index_that_says_otherwise_than_the_files_compacts_nothing(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch, lie: str
) -> None:
    def swapped(*arguments: Any) -> Entries:
        found = live_rows(*arguments)
        return found._replace(pos=found.pos[::-1], file=found.file[::-1])

    monkeypatch.setattr(compaction, "_SLACK", 1 << 16)
    sink = churned(lake, name)
    with monkeypatch.context() as patch:
        if lie == "places":
            patch.setattr(Index, "probed", lambda self, bucket, **_: self.runs[:1])
        else:
            patch.setattr(compact_upsert, "live_rows", swapped)
        (told,) = sink.writer.maintenance.maintain()
    assert told.problem
    assert replaced(lake.table(name)) == 0
    assert lake.rows(name) == sorted(after(BATCHES).items())
    assert not recreated(sink)
    for batch in range(BATCHES, BATCHES + 6):
        sink.put(*churn(batch))
        sink.writer.maintenance.maintain()
    assert recreated(sink)
    assert replaced(lake.table(name)) >= 1
    assert lake.rows(name) == sorted(after(BATCHES + 6).items())


def churned(lake: Lake, name: str) -> Sink:
    """Return a sink after all batches, without a compaction."""
    sink = Sink(lake, name, upsert=True)
    sink.start()
    for batch in range(BATCHES):
        sink.put(*churn(batch))
    return sink


def recreated(sink: Sink) -> list[str]:
    """Return the runs of indexes rebuilt from the table."""
    return [path.name for path in (sink.context.folder / "index").iterdir() if path.name.startswith("base-")]


def test_file_of_no_rows_that_another_adds_leaves_the_table(lake: Lake, name: str) -> None:
    sink = churned(lake, name)
    path = lake.folder / "empty.parquet"
    pq.write_table(strangers.rows_of([]), path)
    lake.table(name).add_files([str(path)])
    sink.put((0, "last"))
    done = sink.writer.maintenance.maintain()
    assert [each.problem for each in done] == [None] * len(done)
    assert replaced(lake.table(name)) >= 1
    assert str(path) not in live_files(lake.table(name)).data
    assert lake.rows(name) == sorted((after(BATCHES) | {0: "last"}).items())


def test_delete_file_that_cannot_be_read_is_left_as_it_is(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = MergePolicy(100, small=0)
    monkeypatch.setattr(selection, "_LEAST", replace(selection._LEAST, files=many, as_well=(100, 2)))
    sink = Sink(lake, name, upsert=True)
    sink.start()
    sink.put(*((each, "first") for each in range(400)))
    sink.put((0, "again"))
    (damaged,) = live_files(lake.table(name)).deletes
    Path(damaged.removeprefix("file://")).write_bytes(b"no Parquet")
    problems = []
    for batch in range(1, 30):
        sink.put((2 * batch, "again"))
        problems += [each.problem for each in sink.writer.maintenance.maintain() if each.problem]
    assert [damaged in each for each in problems] == [True, True]
    live = live_files(lake.table(name))
    assert damaged in live.deletes
    assert len(live.deletes) <= 8


def test_table_of_many_files_is_looked_at_again_after_a_compaction(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "_ROWS", 8)
    monkeypatch.setattr(upsert_compactor, "_FILES_A_LOOK", 1)
    sink = churned(lake, name)
    sink.writer.maintenance.maintain()
    assert replaced(lake.table(name)) > 1
    assert lake.rows(name) == sorted(after(BATCHES).items())


@pytest.mark.parametrize("lost", ["compaction", "batch"])
def test_a_commit_of_which_no_reply_came_brings_its_index(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    def unheard(*arguments: Any, **limits: Any) -> Table:
        commit_proposal(*arguments, **limits)
        raise OSError("no reply")

    monkeypatch.setattr(compaction, "_SLACK", 1 << 16)
    sink = churned(lake, name)
    with monkeypatch.context() as patch:
        if lost == "compaction":
            patch.setattr("sinkql.connectors.iceberg.write.compaction.commit_proposal", unheard)
            (told,) = sink.writer.maintenance.maintain()
            assert told.problem == "no reply"
            assert replaced(lake.table(name)) == 1
        else:
            patch.setattr("sinkql.connectors.iceberg.write.claimed_table.commit_proposal", unheard)
            with pytest.raises(OSError, match="no reply"):
                sink.put(*churn(BATCHES))
    sink.put(*churn(BATCHES))
    assert not recreated(sink)
    assert lake.rows(name) == sorted(after(BATCHES + 1).items())
