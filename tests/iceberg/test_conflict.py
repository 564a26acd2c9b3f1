"""Other writers on a sink's table: changes that the sink accepts, reads again, or stops at."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.types import StringType

from sinkql.connector_api.stream import ClaimRequest, StaleFilesError
from sinkql.connectors.iceberg.commit import maintenance
from sinkql.connectors.iceberg.commit.checkpoint import ancestry
from sinkql.connectors.iceberg.table.target import Patience, TargetTable
from sinkql.errors import CrowdedError, FencedError, SinkqlError
from sinkql.storage import failpoint
from support import strangers
from support.lake import NAMESPACE, Lake, Sink
from support.maintainer import Maintainer
from support.readers import pyiceberg_rows


def code_of(caught: pytest.ExceptionInfo[SinkqlError]) -> str:
    return caught.value.code


# --- between load and commit ----------------------------------------------------------------------------------------


def test_append_sink_commits_beside_a_foreign_append(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name)
    sink.start()
    attempt = sink.attempt([(1, "mine")])
    strangers.append(any_lake.table(name), (2, "theirs"))
    sink.finish(attempt)
    assert any_lake.rows(name) == [(1, "mine"), (2, "theirs")]


@pytest.mark.parametrize("deed", ["delete", "compact", "overwrite"])
def test_append_sink_commits_beside_other_changes(lake: Lake, name: str, deed: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    sink.put((1, "a"), (2, "b"))
    attempt = sink.attempt([(3, "c")])
    table = lake.table(name)
    match deed:
        case "delete":
            strangers.delete(table, "id = 1")
        case "compact":
            strangers.compact(table)
        case _:
            table.overwrite(strangers.rows_of([(9, "z")]))
    sink.finish(attempt)
    expected = {
        "delete": [(2, "b"), (3, "c")],
        "compact": [(1, "a"), (2, "b"), (3, "c")],
        "overwrite": [(3, "c"), (9, "z")],
    }
    assert lake.rows(name) == expected[deed]


@pytest.mark.share(3)
@pytest.mark.parametrize("deed", ["append", "delete", "compact"])
def test_upsert_sink_writes_its_batch_again_after_a_foreign_change(any_lake: Lake, name: str, deed: str) -> None:
    sink = Sink(any_lake, name, upsert=True)
    sink.start()
    sink.put((1, "a"), (2, "b"), (3, "c"))
    attempt = sink.attempt([(1, "a2"), (5, "e")])
    table = any_lake.table(name)
    match deed:
        case "append":
            strangers.append(table, (5, "theirs"), (7, "theirs"))
        case "delete":
            strangers.delete(table, "id in (1, 3)")
        case _:
            strangers.compact(table)
    with pytest.raises(StaleFilesError):
        sink.finish(attempt)
    sink.put((1, "a2"), (5, "e"))
    expected: dict[str, list[tuple[int, str | None]]] = {
        "append": [(1, "a2"), (2, "b"), (3, "c"), (5, "e"), (7, "theirs")],
        "delete": [(1, "a2"), (2, "b"), (5, "e")],
        "compact": [(1, "a2"), (2, "b"), (3, "c"), (5, "e")],
    }
    assert any_lake.rows(name) == expected[deed]
    sink.put((2, "b3"), (3, "c3"), (7, "mine"))
    merged = {**dict(expected[deed]), 2: "b3", 3: "c3", 7: "mine"}
    assert any_lake.rows(name) == sorted(merged.items())


@pytest.mark.parametrize("moved", [True, False])
def test_files_of_a_batch_that_others_never_let_through_go_once_it_cannot_arrive(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch, *, moved: bool
) -> None:
    sink, other = (Sink(lake, name, id=each, options={"existing_rows": "keep"}) for each in ("one", "other"))
    sink.start()
    other.start()
    post = TargetTable.post

    def overtaken(target: TargetTable, *asked: Any) -> Table:
        if target is not sink.writer.table.target:
            return post(target, *asked)
        if moved:
            other.put((2, "b"))
        raise CommitFailedException("the table has changed")

    monkeypatch.setattr(TargetTable, "post", overtaken)
    with pytest.raises(CrowdedError):
        sink.put((1, "a"))
    left = [path.name for path in (lake.folder / "warehouse").rglob("*.parquet") if "-one-" in path.name]
    assert len(left) == (0 if moved else 1)


def test_upsert_batch_stays_though_others_rewrite_manifests_meanwhile(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, upsert=True)
    sink.start()
    for batch in range(3):
        sink.put((1, f"{batch}"), (batch + 10, "b"))
    attempt = sink.attempt([(1, "a2"), (10, "a2")])
    strangers.rewrite_manifests(lake.table(name))
    sink.finish(attempt)
    sink.put((1, "a3"), (11, "a3"))
    assert lake.rows(name) == [(1, "a3"), (10, "a2"), (11, "a3"), (12, "b")]


@pytest.mark.parametrize("deed", ["append", "delete", "compact"])
def test_upsert_sink_reads_what_others_did_between_batches(lake: Lake, name: str, deed: str) -> None:
    sink = Sink(lake, name, upsert=True)
    sink.start()
    sink.put((1, "a"), (2, "b"))
    table = lake.table(name)
    match deed:
        case "append":
            strangers.append(table, (5, "theirs"))
        case "delete":
            strangers.delete(table, "id = 1")
        case _:
            strangers.compact(table)
    restarted = Sink(lake, name, upsert=True)
    restarted.start()
    restarted.put((1, "a2"), (2, "b2"), (5, "e2"))
    assert lake.rows(name) == [(1, "a2"), (2, "b2"), (5, "e2")]


def test_schema_change_stops_the_commit_with_the_difference(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name)
    sink.start()
    attempt = sink.attempt([(1, "a")])
    with any_lake.table(name).update_schema() as update:
        update.add_column("city", StringType())
    with pytest.raises(SinkqlError) as caught:
        sink.finish(attempt)
    assert code_of(caught) == "SQ3504"
    assert caught.value.detail == 'column "city" is only in the table'
    assert any_lake.table(name).scan().to_arrow().num_rows == 0


def test_spec_change_stops_the_commit(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name)
    sink.start()
    attempt = sink.attempt([(1, "a")])
    with any_lake.table(name).update_spec() as update:
        update.add_identity("name")
    with pytest.raises(SinkqlError) as caught:
        sink.finish(attempt)
    assert code_of(caught) == "SQ3505"
    assert any_lake.table(name).scan().to_arrow().num_rows == 0


def test_schema_change_that_does_not_matter_is_gone_along_with(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name)
    sink.start()
    attempt = sink.attempt([(1, "a")])
    with any_lake.table(name).update_schema() as update:
        update.update_column("name", doc="what it is called")
    sink.finish(attempt)
    assert any_lake.rows(name) == [(1, "a")]


def test_column_replaced_by_one_of_the_same_name_redoes_the_batch(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    attempt = sink.attempt([(1, "a")])
    table = lake.table(name)
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("name")
    with table.update_schema() as update:
        update.add_column("name", StringType())
    with pytest.raises(StaleFilesError):
        sink.finish(attempt)
    sink.put((1, "a"))
    assert lake.rows(name) == [(1, "a")]


def test_table_dropped_and_recreated_stops_the_sink(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name)
    sink.start()
    attempt = sink.attempt([(1, "a")])
    catalog = any_lake.catalog()
    schema = any_lake.table(name).schema()
    catalog.drop_table((NAMESPACE, name))
    catalog.create_table((NAMESPACE, name), schema)
    with pytest.raises(SinkqlError) as caught:
        sink.finish(attempt)
    assert code_of(caught) == "SQ3503"
    with pytest.raises(SinkqlError) as caught:
        sink.writer.refresh()
    assert code_of(caught) == "SQ3503"
    assert any_lake.rows(name) == []


def test_dropped_table_stops_the_sink(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name)
    sink.start()
    attempt = sink.attempt([(1, "a")])
    any_lake.catalog().drop_table((NAMESPACE, name))
    with pytest.raises(SinkqlError) as caught:
        sink.finish(attempt)
    assert code_of(caught) == "SQ3503"


def _expired_at(monkeypatch: pytest.MonkeyPatch, lake: Lake, name: str, place: str) -> None:
    """Rewrite the table and expire all older snapshots once, at the failpoint `place`."""

    def point(at: str) -> None:
        if at == place:
            monkeypatch.undo()
            others = Maintainer(lambda: lake.table(name), random.Random(0))
            strangers.compact(lake.table(name))
            strangers.forget_tags(lake.table(name))
            others.expire(keep=1)

    monkeypatch.setattr(failpoint, "point", point)


@pytest.mark.parametrize("again", [False, True], ids=["known", "lost"])
def test_table_that_others_expire_while_it_is_read_is_read_again(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    sink = Sink(lake, name, upsert=True)
    sink.start()
    sink.put((1, "a"), (2, "b"))
    if again:
        sink = Sink(lake, name, upsert=True, folder=lake.folder / "elsewhere")
        sink.start()
    else:
        strangers.append(lake.table(name), (3, "theirs"))
    _expired_at(monkeypatch, lake, name, "read-marker")
    sink.put((1, "a2"), (4, "d"))
    theirs: list[tuple[int, str | None]] = [] if again else [(3, "theirs")]
    assert lake.rows(name) == [(1, "a2"), (2, "b"), *theirs, (4, "d")]


def test_file_that_is_gone_from_the_table_is_said_and_its_return_is_enough(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, upsert=True)
    sink.start()
    sink.put((1, "a"), (2, "b"))
    strangers.append(lake.table(name), (3, "theirs"))
    (file,) = (each.file for each in lake.table(name).scan("id = 3").plan_files())
    path = Path(file.file_path.removeprefix("file://"))
    path.rename(path.with_suffix(".away"))
    with pytest.raises(SinkqlError) as caught:
        sink.put((3, "mine"))
    assert (code_of(caught), caught.value.retryable) == ("SQ3556", True)
    assert str(path) in (caught.value.detail or "")
    path.with_suffix(".away").rename(path)
    sink.put((3, "mine"))
    assert lake.rows(name) == [(1, "a"), (2, "b"), (3, "mine")]


@pytest.mark.parametrize("step", ["claim", "commit"])
def test_list_of_manifests_that_is_gone_is_said_and_its_return_is_enough(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(Patience, "wait", lambda self, failures: None)
    sink = Sink(lake, name)
    sink.start()
    sink.put((1, "a"))
    head = lake.table(name).current_snapshot()
    assert head is not None
    path = Path(head.manifest_list.removeprefix("file://"))
    path.rename(path.with_suffix(".away"))
    with pytest.raises(SinkqlError) as caught:
        sink.start(epoch=2) if step == "claim" else sink.put((2, "b"))
    assert (code_of(caught), caught.value.retryable) == ("SQ3556", True)
    assert str(path) in (caught.value.detail or "")
    path.with_suffix(".away").rename(path)
    if step == "claim":
        sink.start(epoch=2)
    sink.put((2, "b"))
    assert lake.rows(name) == [(1, "a"), (2, "b")]


def test_expiry_that_others_were_faster_with_deletes_nothing(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_AT_ONCE", 1)
    sink = Sink(lake, name, options={"retain_snapshots": 2})
    sink.start()
    for number in range(6):
        sink.put((number, "mine"))
    known = lake.table(name)
    strangers.append(lake.table(name), (9, "theirs"))
    strangers.expire_all_but_head(lake.table(name))
    for snapshot in islice(ancestry(known), 2):  # their expiry deletes files in another order, and is still running
        Path(snapshot.manifest_list.removeprefix("file://")).unlink()
    sink.writer.maintenance.maintain()
    assert pyiceberg_rows(lake.table(name)) == [*((number, "mine") for number in range(6)), (9, "theirs")]


def test_expiry_leaves_manifests_to_snapshots_that_others_kept(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_AT_ONCE", 1)
    sink = Sink(lake, name, options={"retain_snapshots": 7})
    sink.start()
    for number in range(6):
        sink.put((number, "mine"))
    strangers.compact(lake.table(name))  # removes the earlier manifests from main, but not from earlier snapshots
    for number in range(6, 9):
        sink.put((number, "mine"))
    known = lake.table(name)
    gone = [*islice(ancestry(known), 6, None)]  # one more than the sink would expire
    known.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in gone]).commit()
    Path(gone[0].manifest_list.removeprefix("file://")).unlink()  # their expiry has not deleted the remaining files yet
    sink.writer.maintenance.maintain()
    table = lake.table(name)
    assert len(table.metadata.snapshots) == 6
    for snapshot in table.metadata.snapshots:
        table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()


def test_expiry_that_finds_files_gone_is_left_to_others(lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_AT_ONCE", 1)
    sink = Sink(lake, name, upsert=True, options={"retain_snapshots": 1})
    sink.start()
    first = sink.put((1, "a"), (2, "b"))
    table = lake.table(name)
    table.manage_snapshots().create_tag(first.snapshot, "first").commit()
    strangers.append(table, (3, "theirs"))  # so that later snapshots of main do not contain the tag's manifest
    strangers.compact(table)
    sink.put((1, "a2"))
    sink.put((1, "a3"))
    tagged = lake.table(name).snapshot_by_id(first.snapshot)
    assert tagged is not None
    for manifest in tagged.manifests(table.io):
        Path(manifest.manifest_path.removeprefix("file://")).unlink()
    assert sink.writer.maintenance.maintain() == []
    assert lake.rows(name) == [(1, "a3"), (2, "b"), (3, "theirs")]


# --- the checkpoint -----------------------------------------------------------------------------------------------


def test_rolled_back_table_stops_the_sink_everywhere(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name)
    sink.start()
    first = sink.put((1, "a"))
    sink.put((2, "b"))
    attempt = sink.attempt([(3, "c")])
    strangers.set_main(any_lake.table(name), first.snapshot)
    for refused in (
        lambda: sink.finish(attempt),
        sink.writer.refresh,
        sink.writer.load_checkpoint,
        Sink(any_lake, name).start,
    ):
        with pytest.raises(SinkqlError) as caught:
            refused()
        assert code_of(caught) == "SQ3501"
    assert pyiceberg_rows(any_lake.table(name)) == [(1, "a")]


def test_rollback_hidden_under_a_foreign_append_is_seen(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    first = sink.put((1, "a"))
    sink.put((2, "b"))
    strangers.set_main(lake.table(name), first.snapshot)
    strangers.append(lake.table(name), (9, "z"))
    with pytest.raises(SinkqlError) as caught:
        Sink(lake, name).start()
    assert code_of(caught) == "SQ3501"


def test_rollback_past_all_of_the_sinks_commits_is_seen(lake: Lake, name: str) -> None:
    catalog = lake.catalog()
    catalog.create_namespace(NAMESPACE)
    table = catalog.create_table((NAMESPACE, name), strangers.rows_of([]).schema)
    strangers.append(table, (1, "theirs"))
    before = table.metadata.current_snapshot_id
    assert before is not None
    sink = Sink(lake, name, options={"existing_rows": "keep"})
    sink.start()
    sink.put((2, "mine"))
    strangers.set_main(lake.table(name), before)
    with pytest.raises(SinkqlError) as caught:
        Sink(lake, name, options={"existing_rows": "keep"}).start()
    assert code_of(caught) == "SQ3501"


def test_rolled_forward_table_continues(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.start()
    first = sink.put((1, "a"))
    last = sink.put((2, "b"))
    strangers.set_main(lake.table(name), first.snapshot)
    strangers.set_main(lake.table(name), last.snapshot)
    sink.put((3, "c"))
    assert lake.rows(name) == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
def test_checkpoint_is_found_when_only_a_foreign_head_is_left(any_lake: Lake, name: str, *, upsert: bool) -> None:
    sink = Sink(any_lake, name, upsert=upsert)
    sink.start()
    last = sink.put((1, "a"), (2, "b")).checkpoint
    strangers.append(any_lake.table(name), (9, "z"))
    strangers.expire_all_but_head(any_lake.table(name))
    restarted = Sink(any_lake, name, upsert=upsert)
    claimed = restarted.start()
    assert (claimed.end, claimed.epoch) == (last.end, 2)
    restarted.put((9, "mine") if upsert else (3, "c"))
    expected = [(1, "a"), (2, "b"), (9, "mine")] if upsert else [(1, "a"), (2, "b"), (3, "c"), (9, "z")]
    assert any_lake.rows(name) == expected


def test_running_sink_continues_when_its_history_is_expired(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name, upsert=True)
    sink.start()
    sink.put((1, "a"), (2, "b"))
    attempt = sink.attempt([(1, "a2")])
    strangers.expire_all_but_head(any_lake.table(name))
    sink.finish(attempt)
    strangers.expire_all_but_head(any_lake.table(name))
    sink.put((2, "b2"))
    assert any_lake.rows(name) == [(1, "a2"), (2, "b2")]


def test_index_that_was_deleted_is_made_again(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, upsert=True)
    sink.start()
    sink.put((1, "a"), (2, "b"))
    restarted = Sink(lake, name, upsert=True, folder=lake.folder / "elsewhere")
    restarted.start()
    restarted.put((2, "b2"), (3, "c"))
    assert lake.rows(name) == [(1, "a"), (2, "b2"), (3, "c")]


# --- write access -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
def test_new_sink_on_its_predecessors_table_is_refused(any_lake: Lake, name: str, *, upsert: bool) -> None:
    old = Sink(any_lake, name, id="old", upsert=upsert)
    old.start()
    old.put((1, "a"))
    new = Sink(any_lake, name, id="new", upsert=upsert)
    with pytest.raises(SinkqlError) as caught:
        new.writer.open()
    assert code_of(caught) == "SQ3507"
    kept = Sink(any_lake, name, id="new", upsert=upsert, options={"existing_rows": "keep"})
    kept.start()
    kept.put((1, "b"))
    assert any_lake.rows(name) == ([(1, "b")] if upsert else [(1, "a"), (1, "b")])


def test_rows_that_come_before_the_first_claim_are_refused(lake: Lake, name: str) -> None:
    sink = Sink(lake, name)
    sink.writer.open()
    strangers.append(lake.table(name), (1, "a"))
    with pytest.raises(SinkqlError) as caught:
        sink.writer.claim(ClaimRequest({}, epoch=1))
    assert code_of(caught) == "SQ3507"


def test_another_sink_on_an_upsert_table_fences_the_first(any_lake: Lake, name: str) -> None:
    first = Sink(any_lake, name, id="first", upsert=True)
    first.start()
    attempt = first.attempt([(1, "a")])
    second = Sink(any_lake, name, id="second", upsert=True)
    second.start()
    for refused in (lambda: first.finish(attempt), first.writer.refresh):
        with pytest.raises(SinkqlError) as caught:
            refused()
        assert code_of(caught) == "SQ5102"
        assert isinstance(caught.value, FencedError)
    second.put((1, "b"))
    assert any_lake.rows(name) == [(1, "b")]


def test_foreign_append_right_after_a_commit_is_read_into_the_index(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(lake, name, upsert=True)
    sink.start()
    post = TargetTable.post

    def post_then_stranger(*arguments: Any) -> Table:  # same signature as the patched method
        after = post(*arguments)
        monkeypatch.undo()
        strangers.append(lake.table(name), (5, "theirs"))
        return after

    monkeypatch.setattr(TargetTable, "post", post_then_stranger)
    sink.put((1, "a"))
    sink.put((5, "mine"))
    assert lake.rows(name) == [(1, "a"), (5, "mine")]
