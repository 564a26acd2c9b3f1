"""Meaning → DuckDB's SQL: a lowering of the tests' own, so that DuckDB can play the engine.

* `expression`: an expression's tree → DuckDB's SQL, by the functions' ids.
* `preparation`: what goes into the tasks of operators with state → the same.
"""
