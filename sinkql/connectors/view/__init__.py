"""Materialized views that are jobs of their own: the table of such a job is a log, which sinks read as a source.

* `log`: the entries of a view's log, each made once; `reader_positions`: who reads it, and how far.
* `rows`: changes of rows, added up; runs of them as files.
* `task`: the changes of one bucket → a run, and the runs that are the view's contents by now.
* `writer`: claims and commits, each an entry of the log; what nobody needs any more goes.
* `log`: a view whose cluster gets STATE → its log, which goes on there.
* `task`: all rows again → the changes that make the contents just these.
* `reader`: offsets in the log → rows that came and went; from the beginning, the contents.
"""

from __future__ import annotations

from sinkql import physical
from sinkql.connector_api.planning import Connector
from sinkql.connector_api.stream import Context, Reader, Writer


def _open_reader(read: physical.Read, context: Context) -> Reader:
    from sinkql.connectors.view.reader import ViewReader  # pyarrow, only where a job runs

    return ViewReader.of(read, context)


def _open_writer(write: physical.Write, context: Context) -> Writer:
    from sinkql.connectors.view.writer import ViewWriter  # as above

    return ViewWriter.of(write, context)


connector = Connector(
    "view",
    readers={physical.VIEW: _open_reader},
    writers={physical.VIEW: _open_writer},
    tasks=("sinkql.connectors.view.task",),
)
