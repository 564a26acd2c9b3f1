"""Transform the parser's trees into statements, with one module for each module of `ast`.

* `statement`: Transform a statement's tree; other modules transform families of statements.
* `create`: Transform CREATE of sources, tables from sources, views and sinks.
* `dml`: Transform tables, indexes, schemas, and the statements that change rows.
* `alter`: Transform ALTER and its actions.
* `value`: Transform values, options, and the values of secrets.
"""
