"""What is understood and not run → an error that says what to use instead.

* `planner.unsupported`: statements and their clauses, for all of `planner`.
* `syntax_error`: a query that cannot be parsed, and the change after which it can.
* `unsupported`: parts of a query that are parsed and not translated.
"""
