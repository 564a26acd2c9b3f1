"""LOAD GENERATOR sources: rows that are a pure function of their index.

* `plan`: the statement's options → the reader's, and the generator's columns.
* `reader`: options → the rows of any range of indexes.
"""

from sinkql import physical
from sinkql.connector.plan import Connector, SourceKind
from sinkql.connector.stream import Context, Offsets, Reader
from sinkql.connectors.generator.plan import CounterOptions, plan


def _open_reader(read: physical.Read, context: Context) -> Reader:
    from sinkql.connectors.generator.reader import CounterReader  # numpy and pyarrow, only where a job runs

    return CounterReader.of(read)


def _first(start: Offsets, rows: int) -> Offsets:
    return {**start, "count": start["count"] + rows}


connector = Connector(
    "generator", sources=(SourceKind("LOAD GENERATOR", plan, _open_reader, first=_first, takes=CounterOptions),)
)
