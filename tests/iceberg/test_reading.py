"""What a user is told of how to read a sink's table, and shown of its rows."""

from __future__ import annotations

from sinkql.connectors.iceberg.reading import lines, rows
from support.lake import Lake, Sink


def test_before_there_is_a_table_nothing_is_shown_of_it(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name)
    assert lines(sink.planned, sink.context) == []
    assert rows(sink.planned, sink.context, sink.columns, 10).num_rows == 0


def test_rows_and_a_way_to_read_them_are_shown_once_they_are_there(any_lake: Lake, name: str) -> None:
    sink = Sink(any_lake, name)
    sink.start()
    sink.put((1, "a"), (2, None))
    found = rows(sink.planned, sink.context, sink.columns, 10)
    assert found.column_names == ["id", "name"]
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == [(1, "a"), (2, None)]
    assert [line.split(":")[0] for line in lines(sink.planned, sink.context)] == ["DuckDB", "PyIceberg"]
