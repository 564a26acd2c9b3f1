"""A claim changes the table's columns in one commit, in a local and a REST catalog, and fences older epochs."""

from __future__ import annotations

import pytest

from sinkql import physical
from sinkql.connector_api.stream import Checkpoint, ClaimRequest, PlanChange
from sinkql.errors import FencedError, SinkqlError
from sinkql.logical.type import BIGINT, INTEGER, TEXT, parse_type
from support.lake import Lake, Sink

_NARROW = (physical.Column("id", INTEGER, nullable=False), physical.Column("name", TEXT))
_WIDE = (physical.Column("id", BIGINT, nullable=False), physical.Column("title", TEXT))
_MORE = physical.Column("more", parse_type("numeric(9,2)"))
_MANY = 1 << 40


def _claim(sink: Sink, epoch: int, renamed: dict[str, str]) -> Checkpoint:
    sink.writer.open()
    return sink.writer.claim(
        ClaimRequest({"numbers": {"batch": 0}}, epoch=epoch, switch=PlanChange("plan", {"plan": renamed}))
    )


def test_columns_are_renamed_widened_and_added_by_claims(any_lake: Lake, name: str) -> None:
    old = Sink(any_lake, name, upsert=True, columns=_NARROW)
    old.start()
    old.put((1, "a"), (2, "b"))
    late = old.attempt([(1, "late")])
    new = Sink(any_lake, name, upsert=True, columns=_WIDE)
    _claim(new, 2, {"name": "title"})
    with pytest.raises(FencedError):
        old.finish(late)
    new.put((1, "a2"), (_MANY, "c"))
    assert any_lake.rows(name, ("id", "title")) == [(1, "a2"), (2, "b"), (_MANY, "c")]
    _claim(Sink(any_lake, name, upsert=True, columns=(_WIDE[0], _MORE, _WIDE[1])), 3, {})
    table = any_lake.table(name)
    assert [(each.name, each.field_id) for each in table.schema().fields] == [("id", 1), ("more", 3), ("title", 2)]
    assert [each.schema_id for each in table.metadata.snapshots] == [0, 0, 1, 1, 2]
    assert any_lake.rows(name, ("id", "more", "title")) == [(1, None, "a2"), (2, None, "b"), (_MANY, None, "c")]


def test_another_plan_changes_no_column(lake: Lake, name: str) -> None:
    old = Sink(lake, name, columns=_NARROW)
    old.start()
    old.put((1, "a"))
    new = Sink(lake, name, columns=_WIDE)
    new.writer.open()
    with pytest.raises(SinkqlError) as refused:
        new.writer.claim(ClaimRequest({}, epoch=2, switch=PlanChange("third", {"second": {"name": "title"}})))
    assert refused.value.code == "SQ3504"
    assert lake.table(name).schema().column_names == ["id", "name"]


def test_columns_that_other_programs_changed_are_told(lake: Lake, name: str) -> None:
    old = Sink(lake, name, columns=_NARROW)
    old.start()
    old.put((1, "a"))
    with lake.table(name).update_schema() as update:
        update.rename_column("name", "stranger")
    new = Sink(lake, name, columns=_WIDE)
    with pytest.raises(SinkqlError) as refused:
        _claim(new, 2, {"name": "title"})
    assert (refused.value.code, refused.value.detail) == ("SQ3504", 'column "stranger" is only in the table')
