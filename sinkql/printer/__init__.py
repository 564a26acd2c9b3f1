"""Print statements as canonical SQL; parsed again, the text gives the same statement.

* `statement`: Print a statement; other modules print families of statements.
* `create`: Print CREATE of sources, tables from sources, views and sinks.
* `dml`: Print tables, indexes, and the statements that change rows.
* `alter`: Print ALTER and its actions.
* `clause`: Print names, values and options.
* `redaction`: Replace the secrets of a statement before it is printed.
"""

from sinkql.printer.statement import to_sql as to_sql
