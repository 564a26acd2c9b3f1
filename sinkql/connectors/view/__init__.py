"""Maintain materialized views that are separate jobs. The table of a view job is a log, which sinks read as a source.

* `writer`: Write claims and commits as entries of the log, and delete what no reader needs.
* `attached_files`: Keep copies of source files beside the log.
* `task`: Write the changes of a bucket as a run, and merge runs; compare all rows in a full refresh.
* `rows`: Consolidate changes of rows, and write and read runs.
* `log`: Read and publish the entries of a log, and move it to STATE.
* `reader_positions`: Store the positions of the readers.
* `reader`: Read the changes between two offsets, or the contents.
* `options`: Convert planned options to typed ones.
"""

from __future__ import annotations

from sinkql import physical
from sinkql.connector_api.planning import Connector
from sinkql.connector_api.stream import Context, Reader, Writer


def _open_reader(read: physical.Read, context: Context) -> Reader:
    from sinkql.connectors.view.reader import ViewReader  # pyarrow, only when a job runs

    return ViewReader.of(read, context)


def _open_writer(write: physical.Write, context: Context) -> Writer:
    from sinkql.connectors.view.writer import ViewWriter  # pyarrow, only when a job runs

    return ViewWriter.of(write, context)


connector = Connector(
    "view",
    readers={physical.VIEW: _open_reader},
    writers={physical.VIEW: _open_writer},
    tasks=("sinkql.connectors.view.task",),
)
