"""Nested arrays and lists as Iceberg stores them, with NULL at every level, also in slices of columns."""

from __future__ import annotations

import pyarrow as pa

from sinkql import physical
from sinkql.connectors.iceberg.file.data_file import cast
from sinkql.connectors.iceberg.table.schema import table_schema
from sinkql.logical.type import parse_type


def test_an_array_is_a_struct_at_every_level() -> None:
    struct = pa.struct([("items", pa.list_(pa.int64())), ("dimensions", pa.int32())])
    lists = [None, [], [[1, None], None, []], [[2]], None]
    rows = pa.table({"l": pa.array(lists, pa.list_(pa.list_(pa.int32())))})
    one, none = {"items": [1, None], "dimensions": 1}, {"items": [], "dimensions": 0}
    expected = [None, [], [one, None, none], [{"items": [2], "dimensions": 1}], None]
    wanted = pa.schema([("l", pa.list_(struct))])
    assert cast(rows, wanted).column("l").to_pylist() == expected
    assert cast(rows.slice(2, 2), wanted).column("l").to_pylist() == expected[2:4]
    assert cast(rows, wanted).column("l").null_count == 2


def test_an_array_of_lists_has_the_items_that_it_is_made_of() -> None:
    struct = pa.struct([("items", pa.list_(pa.list_(pa.string()))), ("dimensions", pa.int32())])
    rows = pa.table({"a": pa.array([None, [], [["x"], None, []]], pa.list_(pa.list_(pa.string())))})
    assert cast(rows, pa.schema([("a", struct)])).column("a").to_pylist() == [
        None, {"items": [], "dimensions": 0}, {"items": [["x"], None, []], "dimensions": 1}
    ]  # fmt: skip


def test_what_is_within_a_column_has_its_ids_before_the_next_column() -> None:
    columns = [physical.Column(name, parse_type(type_)) for name, type_ in (
        ("r", "int4range"), ("x", "integer[][] list"), ("n", "numrange[]"), ("z", "text"),
    )]  # fmt: skip
    schema = table_schema(columns, changelog=False)
    names = [schema.find_column_name(number) for number in range(1, schema.highest_field_id + 1)]
    bounds = ["lower", "upper", "lower_inclusive", "upper_inclusive", "empty"]
    assert names == [
        "r", *(f"r.{name}" for name in bounds),
        "x", "x.element", "x.element.items", "x.element.items.element", "x.element.dimensions",
        "n", "n.items", "n.items.element", *(f"n.items.element.{name}" for name in bounds), "n.dimensions", "z",
    ]  # fmt: skip
