"""What is understood and not run → an error that says what to use instead.

* `statement`: statements and their clauses, for all of `planner`.
* `query`: a query that cannot be parsed, and the change after which it can.
* `expression`: parts of a query that are parsed and not translated.
"""
