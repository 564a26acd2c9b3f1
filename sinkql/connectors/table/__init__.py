"""Tables: rows that users insert, update and delete, and the log of these changes, in one SQLite file a table.

* `row`: a row's values ↔ the text that is stored, its keys, Arrow columns.
* `file`: the file: rows, keys, change log; one statement is one transaction.
* `reader`: ranges of the change log → rows that come and go.
"""

from sinkql import ast, logical, physical
from sinkql.connector.plan import Connector, Planning, SourceKind, SourcePlan
from sinkql.connector.stream import Context, Reader


def _plan(statement: ast.CreateSource, facts: logical.Facts, planning: Planning) -> SourcePlan:
    raise AssertionError("tables are planned by CREATE TABLE")


def _open_reader(read: physical.Read, context: Context) -> Reader:
    from sinkql.connectors.table.reader import TableReader  # pyarrow, only where a job runs

    return TableReader.of(read, context)


connector = Connector("table", sources=(SourceKind("TABLE", _plan, _open_reader),))
