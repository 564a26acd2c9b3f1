"""Interpret statements: resolve names, check rules, and return the operation of each statement.

This is the only interpreter of statements. `session` executes operations in the catalog and the runtime; the compiler,
lint and deployments apply them in memory.

* `operation`: The operations of statements.
* `plan`: Plan a statement as an operation, against the items of a catalog.
* `references`: Plan how the tables of a source change.
* `read`: Check queries, SHOW and EXPLAIN without rows.
* `in_memory`: Apply operations to items in memory.
"""
