"""Check which tables of dropped sinks are dropped too, for a catalog of any type."""

from __future__ import annotations

import pytest

from sinkql.connectors.iceberg.commit.drop_table import drop_table_if_empty
from sinkql.errors import SinkqlError
from support.lake import NAMESPACE, Lake, Sink


def check_dropping(lake: Lake, name: str) -> None:
    """Check that only the sink's own empty table is dropped, also if a new sink uses its name again."""
    sink, stranger = Sink(lake, name), Sink(lake, name, id="5f6e1c1e-0009")
    assert not drop_table_if_empty(sink.planned, sink.context, dry=True)  # the table does not exist yet
    sink.start()
    assert _refusal(stranger) == "SQ3571"
    assert drop_table_if_empty(sink.planned, sink.context, dry=True)
    assert _there(lake, name)
    assert drop_table_if_empty(sink.planned, sink.context, dry=False)
    assert not _there(lake, name)
    assert not drop_table_if_empty(sink.planned, sink.context, dry=False)

    again = Sink(lake, name, id="5f6e1c1e-0010")
    again.start()
    again.put((1, "a"))
    assert _refusal(again) == "SQ3570"
    assert [row.as_py() for row in lake.table(name).scan().to_arrow()["id"]] == [1]


def _there(lake: Lake, name: str) -> bool:
    return lake.catalog().table_exists((NAMESPACE, name))


def _refusal(sink: Sink) -> str:
    with pytest.raises(SinkqlError) as caught:
        drop_table_if_empty(sink.planned, sink.context, dry=False)
    return caught.value.code
