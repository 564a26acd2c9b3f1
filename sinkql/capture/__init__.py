"""Change data capture: one process reads a server, and all sinks of its tables read the capture log that it writes.

The interface to connectors, and the planning of a captured source, are in `sinkql.connector_api.cdc`.

The capture's process:

* `control`: the interface to the process that runs a capture, its subscribed sinks, and its times and sizes.
* `runner`: holds the lease, runs one session after another, and waits after errors.
* `session`: owns the order of the steps over one connection to the server.
* `recovery`: finds the position where the log continues, for the log, its sinks and pushed rows.
* `buffer`: receives changes, and ends an entry at the position of each sink after the log's end.
* `unchanged_values`: fills values that the server left out of updates with a changed key.
* `snapshot`: reads tables in chunks for initial snapshots, decides which ones sinks may join, and records changed
  columns of tables.
* `publisher`: writes the received changes to the log as its next entry.
* `retention`: reads the sinks' positions, and decides what the server and the log may delete.
* `metrics`: measures how far behind the sinks are, and the time left of initial snapshots.
* `reporter`: sends the status to sinks, and reports the progress to users.

The log:

* `log`: the entries of a log, and its one writer.
* `log_store`: the storage of entries and data files, in a folder of this machine.
* `object_log_store`: the same in an object store; chooses the store of a source.
* `data_file`: writes and reads the files of rows that entries name, and groups them into splits.

The sinks:

* `messages`: the messages between the sinks and the capture, and the store that they go through.
* `position`: the position of a sink in a log, and after each entry.
* `sink_messages`: sends a sink's messages, and receives the capture's replies and errors.
* `subscription`: a table of a captured source as a sink reads it.
* `log_scan`: finds the entries that a sink reads next, stops it if columns that it uses have changed, and finds its
  position in a log that has begun again.
* `reader`: the source connector's reader of a captured table.
"""

from sinkql import physical
from sinkql.connector_api.stream import Context, Reader


def open_reader(read: physical.Read, context: Context) -> Reader:
    """Return the reader of a captured table, which reads the log and never the server."""
    from sinkql.capture.reader import LogReader  # pyarrow, only where a job runs

    return LogReader.from_read(read, context)
