"""Store the rows of tables, which users change with DML, and a log of the changes. Each table has one SQLite file.

* `file`: Read and change the rows, keys and change log of a table; one statement is one transaction.
* `row`: Encode rows as text, compute keys, and convert rows to Arrow.
* `reader`: Read the change log of a table as the source of a job.
"""

from sinkql import physical
from sinkql.connector_api.stream import Context, Reader
from sinkql.planner.item.table import KIND as KIND


def open_reader(read: physical.Read, context: Context) -> Reader:
    """Return the reader of a planned table."""
    from sinkql.table.reader import TableReader  # loads pyarrow, which only jobs need

    return TableReader.of(read, context)
