"""Sources that keep nothing for their readers: one process reads a server once, and keeps a log that all sinks read.

What a capture asks of a connector, and how a connector plans such a source, is in `sinkql.connector_api.cdc`.

* `runner`, `session`: a source → its capture, for as long as a sink of it runs; one reading of the server.
* `buffer`, `log`, `data_file`: changes as they come → entries, made once each, and the files of rows that they name.
* `object_log_store`: a source → where its log lies, in the `log_store` that is a folder or a `object_log_store`.
* `recovery`: rows that others send → whether only the machine that took them can go on.
* `unchanged_values`: rows whose keys changed, followed through an entry.
* `reader`, `subscription`: a log → splits of what a table's sink reads; `position`, `log_scan`: how far the sink is,
  and where that is in a log that has begun again; `log_scan`: the entries that follow, up to a batch's end;
  `data_file`, `storage.consolidate`: the rows of their files, without those that came and went within a batch.
* `snapshot`: a table → chunks in the log; `recovery`: after which chunk it goes on, for all of its sinks; `metrics`:
  how long it will take.
* `messages`, `retention`: how far sinks are → what the server may forget; `retention`: whether the log has room for
  more; `control`: what a capture is told, and tells; `metrics`: what it tells of how far behind the sinks are.
* `decode.columnar`: places of values in a block of bytes → Arrow arrays, for decoders of binary formats.
"""

from sinkql import physical
from sinkql.connector_api.stream import Context, Reader


def open_reader(read: physical.Read, context: Context) -> Reader:
    """Return the reader of a table of a captured source: it reads the log, and never the server."""
    from sinkql.capture.reader import LogReader  # pyarrow, only where a job runs

    return LogReader.of(read, context)
