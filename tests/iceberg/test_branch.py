"""Sinks on a branch of a table: main stays unchanged until the branch is published."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyspark.sql import SparkSession

from iceberg.test_expire import on_disk, reachable, removed_by_kept
from sinkql.connector_api.stream import ClaimRequest
from sinkql.connectors.iceberg.commit.proposal import publish
from sinkql.connectors.iceberg.table.sql_catalog import CachingCatalog
from sinkql.connectors.iceberg.table.target import Patience, TargetTable
from sinkql.errors import FencedError, SinkqlError
from support import strangers
from support.lake import NAMESPACE, Lake, Sink
from support.readers import Rows, duckdb_folder, spark_rows

pytestmark = pytest.mark.long

AUDIT = {"branch": "audit"}


def at(table: Table, ref: str) -> Rows:
    """Return the rows that PyIceberg reads at a ref; in a local folder, check that DuckDB reads the same."""
    found = table.scan().use_ref(ref).to_arrow().to_pylist()
    rows = sorted((row["id"], row["name"]) for row in found)
    if table.location().startswith("file://"):
        snapshot = table.metadata.refs[ref].snapshot_id
        assert duckdb_folder(table.location(), "id, name", snapshot=snapshot) == rows
    return rows


def on_audit(lake: Lake, name: str, **options: object) -> Sink:
    sink = Sink(lake, name, options={**AUDIT, **options})
    sink.start()
    return sink


def begun(lake: Lake, name: str) -> Sink:
    """Start a sink on a branch of a table whose main branch has one row."""
    first = Sink(lake, name, id="first")
    first.start()
    first.put((0, "main"))
    return on_audit(lake, name, existing_rows="keep")


@pytest.mark.share(3)
@pytest.mark.parametrize(("upsert", "version"), [(False, 2), (True, 2), (True, 3)])
def test_what_is_written_is_published_as_a_whole(any_lake: Lake, name: str, *, upsert: bool, version: int) -> None:
    sink = Sink(any_lake, name, upsert=upsert, options={**AUDIT, "format_version": version})
    sink.start()
    sink.put((1, "a"))
    sink.put((1, "b"), (2, "b"))
    written = [(1, "b"), (2, "b")] if upsert else [(1, "a"), (1, "b"), (2, "b")]
    table = any_lake.table(name)
    assert at(table, "audit") == written
    assert table.metadata.current_snapshot_id is None
    assert table.scan().to_arrow().num_rows == 0
    head = table.metadata.refs["audit"].snapshot_id
    done = publish(sink.planned, sink.context)
    assert (done.table, done.snapshot, done.moved) == (f"{NAMESPACE}.{name}", head, True)
    assert any_lake.rows(name) == written
    assert not publish(sink.planned, sink.context).moved
    sink.put((1, "c"))
    assert any_lake.rows(name) == written
    again = Sink(any_lake, name, upsert=upsert, options={**AUDIT, "format_version": version})
    assert again.start().end == {"numbers": {"batch": 3}}
    again.put((4, "d"))
    publish(again.planned, again.context)
    assert any_lake.rows(name) == ([(1, "c"), (2, "b"), (4, "d")] if upsert else sorted([*written, (1, "c"), (4, "d")]))


def test_a_branch_begins_where_main_is(any_lake: Lake, name: str) -> None:
    first = Sink(any_lake, name, id="first")
    first.start()
    first.put((0, "main"))
    with pytest.raises(SinkqlError, match="rows that this sink did not write"):
        Sink(any_lake, name, options=AUDIT).start()
    sink = on_audit(any_lake, name, existing_rows="keep")
    sink.put((1, "a"))
    table = any_lake.table(name)
    assert at(table, "main") == [(0, "main")]
    assert at(table, "audit") == [(0, "main"), (1, "a")]
    publish(sink.planned, sink.context)
    assert any_lake.rows(name) == [(0, "main"), (1, "a")]


@pytest.mark.spark
def test_spark_reads_the_branch_and_main(lake: Lake, name: str, spark: SparkSession) -> None:
    sink = Sink(lake, name, upsert=True, options=AUDIT)
    sink.start()
    sink.put((1, "a"), (2, "a"))
    publish(sink.planned, sink.context)
    sink.put((2, "b"))
    assert spark_rows(spark, lake.table(name)) == [(1, "a"), (2, "a")]
    assert spark_rows(spark, lake.table(name), branch="audit") == [(1, "a"), (2, "b")]


def test_main_that_others_write_to_stays_as_it_is(any_lake: Lake, name: str) -> None:
    sink = begun(any_lake, name)
    sink.put((1, "a"))
    before = any_lake.table(name).metadata.current_snapshot_id
    assert before is not None
    strangers.append(any_lake.table(name), (9, "stranger"))
    sink.put((2, "b"))
    with pytest.raises(SinkqlError) as raised:
        publish(sink.planned, sink.context)
    assert raised.value.code == "SQ3523"
    table = any_lake.table(name)
    assert at(table, "main") == [(0, "main"), (9, "stranger")]
    assert at(table, "audit") == [(0, "main"), (1, "a"), (2, "b")]
    strangers.set_main(table, before)
    assert publish(sink.planned, sink.context).moved
    assert any_lake.rows(name) == [(0, "main"), (1, "a"), (2, "b")]


def test_main_can_be_set_back_when_what_the_branch_began_with_has_expired(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinkql.connectors.iceberg.commit.maintenance._AT_ONCE", 2)
    begun(lake, name)
    sink = Sink(lake, name, options={**AUDIT, "retain_snapshots": 3})
    sink.start()
    sink.put((1, "a"))
    before = lake.table(name).metadata.current_snapshot_id
    assert before is not None
    strangers.append(lake.table(name), (9, "stranger"))
    for each in range(2, 10):
        sink.put((each, "a"))
        sink.writer.maintenance.maintain()
    strangers.set_main(lake.table(name), before)
    assert publish(sink.planned, sink.context).moved
    assert lake.rows(name) == [(0, "main"), *((each, "a") for each in range(1, 10))]


@pytest.mark.share(2)
@pytest.mark.parametrize("version", [2, 3])
def test_sinks_on_two_branches_that_always_meet_both_get_through(
    any_lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch, *, version: int
) -> None:
    each = {"format_version": version, "existing_rows": "keep"}
    sink, other = (Sink(any_lake, name, id=id_, options={**each, "branch": id_}) for id_ in ("one", "other"))
    sink.start()
    other.start()
    post, ahead = TargetTable.post, iter(range(9))

    def overtaken(target: TargetTable, *asked: Any) -> Table:
        if target.branch == "one" and (number := next(ahead, None)) is not None:
            other.put((number, "other"))
        return post(target, *asked)

    monkeypatch.setattr(TargetTable, "post", overtaken)
    monkeypatch.setattr(Patience, "wait", lambda patience, failures: pytest.fail("the commit waited for a retry"))
    sink.put((1, "one"))
    table = any_lake.table(name)
    assert at(table, "one") == [(1, "one")]
    assert at(table, "other") == [(number, "other") for number in range(9)]


def test_who_publishes_while_others_always_come_before_is_told_to_do_so_again(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = on_audit(lake, name)
    sink.put((1, "a"))
    post = TargetTable.post

    def overtaken(target: TargetTable, *asked: Any) -> Table:
        if target.branch is None:
            sink.put((2, "b"))
        return post(target, *asked)

    monkeypatch.setattr(TargetTable, "post", overtaken)
    with pytest.raises(SinkqlError) as raised:
        publish(sink.planned, sink.context)
    assert raised.value.code == "SQ5203"
    assert "Run ALTER SINK … PUBLISH again" in (raised.value.hint or "")


def test_branch_that_is_kept_otherwise_than_main_is_published_once(lake: Lake, name: str) -> None:
    sink = on_audit(lake, name)
    sink.put((1, "a"))
    table = lake.table(name)
    head = table.metadata.refs["audit"].snapshot_id
    table.manage_snapshots().create_branch(head, "audit", min_snapshots_to_keep=5).commit()
    assert publish(sink.planned, sink.context).moved
    assert not publish(sink.planned, sink.context).moved


@pytest.mark.parametrize("ref", ["main", "audit"])
def test_what_others_say_of_a_branch_stays(lake: Lake, name: str, ref: str) -> None:
    sink = Sink(lake, name, options={} if ref == "main" else {"branch": ref})
    sink.start()
    table = lake.table(name)
    head = table.metadata.refs[ref].snapshot_id
    table.manage_snapshots().create_branch(head, ref, min_snapshots_to_keep=5).commit()
    sink.put((1, "a"))
    found = lake.table(name).metadata.refs[ref]
    assert (found.min_snapshots_to_keep, found.snapshot_id == head) == (5, False)


def test_rows_of_main_that_are_replaced_stay_there_until_then(any_lake: Lake, name: str) -> None:
    first = Sink(any_lake, name, id="first")
    first.start()
    first.put((0, "main"))
    sink = on_audit(any_lake, name, existing_rows="replace")
    sink.put((1, "a"))
    table = any_lake.table(name)
    assert at(table, "main") == [(0, "main")]
    assert at(table, "audit") == [(1, "a")]
    publish(sink.planned, sink.context)
    assert any_lake.rows(name) == [(1, "a")]


def test_there_is_nothing_to_publish_before_the_first_commit(lake: Lake, name: str) -> None:
    sink = Sink(lake, name, options=AUDIT)
    for _ in range(2):
        with pytest.raises(SinkqlError) as raised:
            publish(sink.planned, sink.context)
        assert raised.value.code == "SQ3522"
        sink.writer.open()  # creates the table


def test_a_tag_is_no_branch(lake: Lake, name: str) -> None:
    first = Sink(lake, name, id="first")
    first.start()
    table = lake.table(name)
    assert table.metadata.current_snapshot_id is not None
    table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "audit").commit()
    with pytest.raises(SinkqlError) as raised:
        Sink(lake, name, options=AUDIT).start()
    assert raised.value.code == "SQ3521"


def test_a_later_claim_of_the_branch_fences_the_earlier(any_lake: Lake, name: str) -> None:
    sink = on_audit(any_lake, name)
    attempt = sink.attempt([(1, "a")])
    other = Sink(any_lake, name, options=AUDIT)
    other.start(epoch=2)
    with pytest.raises(FencedError):
        sink.finish(attempt)
    other.put((1, "b"))
    assert at(any_lake.table(name), "audit") == [(1, "b")]


def test_two_claims_of_a_new_table_do_not_both_begin_the_branch(any_lake: Lake, name: str) -> None:
    sink, other = (Sink(any_lake, name, id=each, options={**AUDIT, "existing_rows": "keep"}) for each in ("a", "b"))
    sink.writer.open()
    stale = sink.writer.table.load()
    other.start()
    other.put((2, "b"))
    sink.writer.table.load = lambda: stale  # type: ignore[method-assign]  # the table before the other claim
    sink.writer.claim(ClaimRequest({"numbers": {"batch": 0}}, epoch=1))
    del sink.writer.table.load
    sink.put((1, "a"))
    assert at(any_lake.table(name), "audit") == [(1, "a"), (2, "b")]


def test_a_branch_begins_where_main_is_when_the_claim_arrives(any_lake: Lake, name: str) -> None:
    first = Sink(any_lake, name, id="first")
    first.start()
    sink = Sink(any_lake, name, options={**AUDIT, "existing_rows": "keep"})
    sink.writer.open()
    stale = sink.writer.table.load()
    first.put((0, "main"))
    sink.writer.table.load = lambda: stale  # type: ignore[method-assign]  # the table before main moved
    sink.writer.claim(ClaimRequest({"numbers": {"batch": 0}}, epoch=1))
    assert at(any_lake.table(name), "audit") == [(0, "main")]


@pytest.mark.soak
def test_what_is_published_beside_a_sink_that_runs_is_always_whole_batches(
    any_lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinkql.connectors.iceberg.commit.maintenance._AT_ONCE", 5)
    sink = Sink(any_lake, name, upsert=True, options={**AUDIT, "retain_snapshots": 3})
    sink.start()

    def write() -> None:
        for batch in range(60):
            sink.put(*((key, f"{batch}") for key in range(3)))
            sink.writer.maintenance.maintain()

    seen: list[int] = []
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        while not writing.done():
            publish(sink.planned, sink.context)
            found = {row["name"] for row in any_lake.table(name).scan().to_arrow().to_pylist()}
            assert len(found) <= 1
            seen += [int(each) for each in found]
        writing.result()
    publish(sink.planned, sink.context)
    assert seen == sorted(seen)
    assert any_lake.rows(name) == [(key, "59") for key in range(3)]


def test_expiry_keeps_main_and_the_branch_and_what_is_known_of_them(
    any_lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinkql.connectors.iceberg.commit.maintenance._AT_ONCE", 2)
    begun(any_lake, name)
    sink = Sink(any_lake, name, options={**AUDIT, "retain_snapshots": 3})
    sink.start()
    for each in range(1, 9):
        sink.put((each, "a"))
        sink.writer.maintenance.maintain()
    assert at(any_lake.table(name), "main") == [(0, "main")]
    publish(sink.planned, sink.context)
    for each in range(9, 17):
        sink.put((each, "a"))
        sink.writer.maintenance.maintain()
    table = any_lake.table(name)
    assert len(table.metadata.snapshots) <= 1 + 3 + 2
    assert at(table, "main") == [(0, "main"), *((each, "a") for each in range(1, 9))]
    strangers.expire_all_but_head(any_lake.table(name))
    table = any_lake.table(name)
    assert {each.snapshot_id for each in table.metadata.snapshots} == {
        each.snapshot_id for each in table.metadata.refs.values()
    }
    assert len(table.metadata.snapshots) == 3  # heads of main and the branch, and the sink's last commit on main
    sink.put((17, "a"))
    publish(sink.planned, sink.context)
    assert any_lake.rows(name) == [(0, "main"), *((each, "a") for each in range(1, 18))]


@pytest.mark.share(2)
@pytest.mark.parametrize("version", [2, 3])
def test_files_of_a_branch_that_is_dropped_unpublished_go_with_its_snapshots(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch, *, version: int
) -> None:
    monkeypatch.setattr("sinkql.connectors.iceberg.commit.maintenance._AT_ONCE", 2)
    each = {"format_version": version, "existing_rows": "keep", "retain_snapshots": 3}
    first = Sink(lake, name, id="first", upsert=True, options=each)
    first.start()
    first.put((0, "main"), (1, "main"), (2, "main"))
    wrong, right = (Sink(lake, name, id=id_, upsert=True, options={**each, "branch": id_}) for id_ in ("one", "other"))
    wrong.start()
    for number in range(4):
        wrong.put((0, f"{number}"), (number + 10, "wrong"))
    right.start()
    first.writer.table.target.load().manage_snapshots().remove_branch("one").commit()
    for number in range(6):
        right.put((1, f"{number}"))
        right.writer.maintenance.maintain()
    table = lake.table(name)
    assert reachable(table) <= on_disk(lake, name)
    assert on_disk(lake, name) - reachable(table) <= removed_by_kept(table)
    assert at(table, "other") == [(0, "main"), (1, "5"), (2, "main")]
    assert at(table, "main") == [(0, "main"), (1, "main"), (2, "main")]


def test_a_branch_that_was_set_back_stops_its_sink(lake: Lake, name: str) -> None:
    sink = begun(lake, name)
    sink.put((1, "a"))
    table = lake.table(name)
    assert table.metadata.current_snapshot_id is not None
    table.manage_snapshots().remove_branch("audit").create_branch(table.metadata.current_snapshot_id, "audit").commit()
    with pytest.raises(SinkqlError) as raised:
        sink.put((2, "b"))
    assert raised.value.code == "SQ3501"
    assert 'branch "audit"' in (raised.value.detail or "")


def test_a_branch_dropped_after_it_was_published_begins_again(any_lake: Lake, name: str) -> None:
    sink = begun(any_lake, name)
    sink.put((1, "a"))
    publish(sink.planned, sink.context)
    any_lake.table(name).manage_snapshots().remove_branch("audit").commit()
    sink.put((2, "b"))
    table = any_lake.table(name)
    assert at(table, "main") == [(0, "main"), (1, "a")]
    assert at(table, "audit") == [(0, "main"), (1, "a"), (2, "b")]


def test_a_catalog_without_branches_of_tables_is_told_before_there_are_rows(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = CachingCatalog.commit_table

    def on_main(self: Any, table: Table, requirements: Any, updates: Any) -> Any:
        moved = [each for each in updates if isinstance(each, SetSnapshotRefUpdate)]
        others = [each for each in updates if each not in moved]
        on_main = [each.model_copy(update={"ref_name": "main"}) for each in moved]
        return commit(self, table, (), (*others, *on_main))

    monkeypatch.setattr(CachingCatalog, "commit_table", on_main)
    for _ in range(2):
        with pytest.raises(SinkqlError) as raised:
            Sink(lake, name, options={"branch": "audit"}).start()
        assert (raised.value.code, raised.value.retryable) == ("SQ3524", False)
    assert lake.rows(name) == []
