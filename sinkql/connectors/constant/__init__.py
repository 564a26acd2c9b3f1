"""Rows that a query contains, as VALUES does: each is read once and is never deleted.

* `reader`: Read the rows from their texts.
"""

from __future__ import annotations

from sinkql import physical
from sinkql.connector_api.planning import Connector
from sinkql.connector_api.stream import Context, Reader


def _open_reader(read: physical.Read, context: Context) -> Reader:
    from sinkql.connectors.constant.reader import ConstantReader  # pyarrow, only where a job runs

    return ConstantReader.of(read)


connector = Connector(
    "constant", readers={physical.CONSTANT: _open_reader}, tasks=("sinkql.connectors.constant.reader",)
)
