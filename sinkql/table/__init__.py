"""Tables: rows that users insert, update and delete, and the log of these changes, in one SQLite file a table.

* `row`: a row's values ↔ the text that is stored, its keys, Arrow columns.
* `file`: the file of a table: rows, keys, change log; one statement is one transaction.
* `reader`: ranges of the change log → rows that come and go. A job reads a table as it reads a source.
"""

from sinkql import physical
from sinkql.connector_api.stream import Context, Reader
from sinkql.planner.item.table import KIND as KIND


def open_reader(read: physical.Read, context: Context) -> Reader:
    """Return the reader of a planned table."""
    from sinkql.table.reader import TableReader  # pyarrow, only where a job runs

    return TableReader.of(read, context)
