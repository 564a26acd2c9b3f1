"""Other programs roll back, write to and expire a table; only a sink that lost its last commit stops."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import BadRequestError
from pyiceberg.table import CommitTableResponse, Table

from sinkql.connectors.iceberg.table.sql_catalog import CachingCatalog
from sinkql.connectors.iceberg.table.tag import tag_name
from sinkql.errors import SinkqlError
from support import strangers
from support.lake import NAMESPACE, Lake, Sink
from support.readers import pyiceberg_rows
from support.seaweed import Seaweed

ID = Sink.id


def tag_of(table: Table, sink: str = ID) -> int | None:
    ref = table.metadata.refs.get(tag_name(sink))
    return ref.snapshot_id if ref is not None else None


def begun(lake: Lake, name: str, *, upsert: bool = False) -> Sink:
    """Return a sink after its claim and two batches."""
    sink = Sink(lake, name, upsert=upsert)
    sink.start()
    sink.put((1, "a"), (2, "b"))
    sink.put((1, "c") if upsert else (4, "c"), (3, "d"))
    return sink


def rolled_back(table: Table) -> None:
    """Roll main back by one commit."""
    head = table.current_snapshot()
    assert head is not None
    assert head.parent_snapshot_id is not None
    strangers.set_main(table, head.parent_snapshot_id)


@pytest.mark.share(5)
@pytest.mark.parametrize("commits", [1, 3])
@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
@pytest.mark.parametrize("tags", [True, False], ids=["tagged", "untagged"])
def test_a_rollback_that_commits_and_an_expiry_hide_is_told(
    lake: Lake, name: str, commits: int, *, upsert: bool, tags: bool
) -> None:
    sink = begun(lake, name, upsert=upsert)
    rolled_back(lake.table(name))
    for number in range(commits):
        strangers.append(lake.table(name), (70 + number, "theirs"))
    if not tags:
        strangers.forget_tags(lake.table(name))
    strangers.expire_all_but_head(lake.table(name))
    restarted = Sink(lake, name, upsert=upsert, folder=lake.folder / "other")
    for refused in (lambda: sink.put((9, "z")), restarted.start):
        with pytest.raises(SinkqlError) as caught:
            refused()
        assert caught.value.code == "SQ3501"


def test_the_error_names_the_last_commit_and_whether_the_table_has_it(lake: Lake, name: str) -> None:
    sink = begun(lake, name)
    last = sink.put((5, "e")).snapshot
    rolled_back(lake.table(name))
    with pytest.raises(SinkqlError) as caught:
        sink.put((9, "z"))
    assert (
        caught.value.detail
        == f"The sink's last commit is snapshot {last}. The table still has it, but it is not part of main."
    )
    strangers.forget_tags(lake.table(name))
    strangers.expire_all_but_head(lake.table(name))
    with pytest.raises(SinkqlError) as caught:
        sink.put((9, "z"))
    assert caught.value.detail == f"The sink's last commit is snapshot {last}, which the table no longer has."


@pytest.mark.soak
def test_a_rollback_is_told_as_far_back_as_a_table_keeps_its_metadata(lake: Lake, name: str) -> None:
    catalog = lake.catalog()
    catalog.create_namespace(NAMESPACE)
    catalog.create_table((NAMESPACE, name), strangers.rows_of([]).schema)
    sink = begun(lake, name)
    rolled_back(lake.table(name))
    for number in range(40):
        strangers.append(lake.table(name), (70 + number, "theirs"))
    strangers.expire_all_but_head(lake.table(name))
    with pytest.raises(SinkqlError) as caught:
        sink.put((9, "z"))
    assert caught.value.code == "SQ3501"


@pytest.mark.share(5)
@pytest.mark.parametrize("commits", [0, 2])
@pytest.mark.parametrize("upsert", [False, True], ids=["append", "upsert"])
@pytest.mark.parametrize("tags", [True, False], ids=["tagged", "untagged"])
def test_what_others_commit_and_expire_alone_stops_no_sink(
    lake: Lake, name: str, commits: int, *, upsert: bool, tags: bool
) -> None:
    sink = begun(lake, name, upsert=upsert)
    for number in range(commits):
        strangers.append(lake.table(name), (70 + number, "theirs"))
    strangers.compact(lake.table(name))
    if not tags:
        strangers.forget_tags(lake.table(name))
    strangers.expire_all_but_head(lake.table(name))
    sink.put((9, "z"))
    restarted = Sink(lake, name, upsert=upsert, folder=lake.folder / "other")
    restarted.start()
    restarted.put((10, "z"))
    assert len(pyiceberg_rows(lake.table(name))) == (3 if upsert else 4) + commits + 2


def _code(sink: Sink, number: int) -> str:
    """Return the code of a commit's error; empty if the commit succeeds."""
    try:
        sink.put((100 + number, "mine"))
    except SinkqlError as error:
        return error.code
    return ""


@pytest.mark.share(2)
@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(6, 300))])
def test_a_sink_stops_where_its_last_commit_is_lost_and_nowhere_else(tmp_path: Path, seed: int) -> None:
    """The sink may continue if an expiry hides the loss; it never stops without a loss."""
    chance, lake = random.Random(seed), Lake(tmp_path)
    sink = begun(lake, "t", upsert=chance.random() < 0.5)
    parents: dict[int, int | None] = {}

    def known() -> Table:
        table = lake.table("t")
        for each in table.metadata.snapshots:
            parents.setdefault(each.snapshot_id, each.parent_snapshot_id)
        return table

    last = known().metadata.current_snapshot_id
    for step in range(8):
        match chance.choice(["commit", "append", "append", "compact", "roll", "forward", "expire", "expire"]):
            case "commit":
                here = known().metadata.current_snapshot_id
                while here is not None and here != last:
                    here = parents[here]
                found = _code(sink, step)
                assert found in (("", "SQ3501") if here is None else ("",))
                if found:
                    return
                last = known().metadata.current_snapshot_id
            case "append":
                strangers.append(known(), (50 + step, "theirs"))
            case "compact":
                strangers.compact(known())
            case "roll":
                table = known()
                head = table.current_snapshot()
                if head is not None and table.snapshot_by_id(head.parent_snapshot_id or -1) is not None:
                    rolled_back(table)
            case "forward":
                table = known()
                if last is not None and table.snapshot_by_id(last) is not None:
                    strangers.set_main(table, last)
            case _:
                strangers.expire_all_but_head(known())
        known()


def test_each_commit_moves_the_tag_and_no_old_snapshot_stays_for_it(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sinkql.connectors.iceberg.commit.maintenance._AT_ONCE", 1)
    sink = Sink(lake, name, options={"retain_snapshots": 2})
    for number in range(6):
        if number % 3 == 0:
            sink.start()
            assert tag_of(lake.table(name)) == lake.table(name).metadata.current_snapshot_id
        assert tag_of(lake.table(name)) is not None
        assert sink.put((number, "a")).snapshot == tag_of(lake.table(name))
        sink.writer.maintenance.maintain()
    assert len(lake.table(name).metadata.snapshots) == 2


def test_sinks_of_one_table_have_a_tag_each_and_branches_have_theirs(lake: Lake, name: str) -> None:
    options: dict[str, Any] = {"existing_rows": "keep"}
    sinks = [Sink(lake, name, id=each, options=options) for each in ("one", "two")]
    sinks.append(Sink(lake, name, id="three", options={**options, "branch": "draft"}))
    last: list[int] = []
    for sink in sinks:
        sink.start()
        last.append(sink.put((len(last), sink.id)).snapshot)
    table = lake.table(name)
    assert [tag_of(table, each.id) for each in sinks] == last
    assert table.metadata.refs["draft"].snapshot_id == last[2]
    assert table.metadata.current_snapshot_id == last[1]
    for sink in sinks:
        sink.put((len(last), sink.id))
        last.append(0)


def test_a_catalog_that_refuses_tags_gets_commits_without(
    lake: Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, refused = CachingCatalog.commit_table, []

    def commit(catalog: CachingCatalog, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        if any(getattr(each, "ref_name", "main") != "main" for each in updates):
            refused.append(True)
            raise BadRequestError("no tags here")
        return really(catalog, table, requirements, updates)

    monkeypatch.setattr(CachingCatalog, "commit_table", commit)
    sink = begun(lake, name)
    assert len(refused) == 1
    assert tag_of(lake.table(name)) is None
    strangers.append(lake.table(name), (7, "theirs"))
    strangers.expire_all_but_head(lake.table(name))
    sink.put((8, "z"))
    rolled_back(lake.table(name))
    with pytest.raises(SinkqlError) as caught:
        sink.put((9, "z"))
    assert caught.value.code == "SQ3501"


@pytest.mark.server
def test_a_rollback_is_told_through_a_catalog_of_its_own_server(server: Seaweed, tmp_path: Path, name: str) -> None:
    lake = Lake(tmp_path, server)
    sink = begun(lake, name)
    assert tag_of(lake.table(name)) == lake.table(name).metadata.current_snapshot_id
    rolled_back(lake.table(name))
    for number in range(2):
        strangers.append(lake.table(name), (70 + number, "theirs"))
    strangers.expire_all_but_head(lake.table(name))
    with pytest.raises(SinkqlError) as caught:
        sink.put((9, "z"))
    assert caught.value.code == "SQ3501"
