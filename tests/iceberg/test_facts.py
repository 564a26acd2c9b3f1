"""What CREATE SINK asks its catalog before the sink exists."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyiceberg.types import StringType

from sinkql import ast, logical
from sinkql.connector.types import parse_type
from sinkql.connectors.iceberg.facts import find
from sinkql.errors import SinkqlError, Span
from support.lake import Lake, Sink

CONNECTION_SPAN = Span(40, 44)
STATEMENT = ast.CreateSink(
    relation=ast.Name((ast.Ident("numbers"),)),
    kind="ICEBERG CATALOG",
    connection=ast.Name((ast.Ident("lake"),), CONNECTION_SPAN),
)


class World:
    """Know one connection."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def secret(self, full_name: str) -> str:
        raise KeyError(full_name)

    def connection(self, full_name: str) -> logical.Connection:
        connection = self._lake.connection
        return logical.Connection(connection.name, connection.kind, connection.options)

    def store(self, full_name: str) -> Any:
        raise KeyError(full_name)


def sink(table: str, **options: Any) -> logical.Sink:
    columns = (
        logical.Column("id", parse_type("bigint"), nullable=False),
        logical.Column("name", parse_type("text")),
    )
    return logical.Sink(
        name="materialize.public.s",
        relation="materialize.public.numbers",
        kind="ICEBERG CATALOG",
        connection="lake",
        aws_connection=None,
        cluster="quickstart",
        mode=logical.SinkMode.APPEND,
        changelog=False,
        key=(),
        enforced=False,
        commit_interval=timedelta(seconds=1),
        options={"namespace": "shop", "table": table, **options},
        shape=logical.Shape(columns),
    )


def refusal(lake: Lake, planned: logical.Sink) -> SinkqlError:
    with pytest.raises(SinkqlError) as caught:
        find(STATEMENT, planned, World(lake))
    assert caught.value.span == CONNECTION_SPAN
    return caught.value


def test_absent_table_is_no_fact(lake: Lake, name: str) -> None:
    assert find(STATEMENT, sink(name), World(lake)) == {"table": None}


def test_table_without_rows_is_described(lake: Lake, name: str) -> None:
    Sink(lake, name).start()
    table = lake.table(name)
    assert find(STATEMENT, sink(name), World(lake)) == {
        "table": {
            "uuid": str(table.metadata.table_uuid),
            "location": table.location(),
            "columns": {"id": "long", "name": "string"},
        }
    }


def test_table_with_rows_is_refused_unless_they_are_kept(lake: Lake, name: str) -> None:
    other = Sink(lake, name)
    other.start()
    other.put((1, "a"))
    assert refusal(lake, sink(name)).code == "SQ3507"
    assert find(STATEMENT, sink(name, existing_rows="keep"), World(lake))["table"] is not None


def test_table_with_other_columns_is_refused(lake: Lake, name: str) -> None:
    Sink(lake, name).start()
    with lake.table(name).update_schema() as update:
        update.add_column("city", StringType())
    assert refusal(lake, sink(name)).code == "SQ3504"
