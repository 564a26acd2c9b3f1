"""Arrays and lists within each other as tables have them, NULL at every level, and of parts of other columns."""

from __future__ import annotations

import pyarrow as pa

from sinkql.connectors.iceberg.file.data import cast


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
