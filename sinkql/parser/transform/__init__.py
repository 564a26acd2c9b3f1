"""Lark's tree → ast, a module for each module of `ast`.

* `statement`: a statement's tree to the statement; those that have no family are built here.
* `dml`: tables, indexes, schemas, and the statements that change rows.
* `create`: sources, tables that are fed by one, formats and envelopes.
* `create`: views and sinks.
* `alter`: ALTER and its actions.
* `value`: values, options, and the values of secrets.
"""
