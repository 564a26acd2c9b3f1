"""ast → canonical SQL: parsed again, it is the same statement.

* `redaction`: a statement to the same without its secrets.
* `statement`: a statement to its text; those that have no family are written here.
* `dml`: tables, indexes, and the statements that change rows.
* `create`: sources, formats, tables that a source feeds.
* `create`: views and sinks.
* `alter`: ALTER and its actions.
* `clause`: names, values and options to their text.
"""

from sinkql.printer.statement import to_sql as to_sql
