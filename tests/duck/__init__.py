"""An expression's tree → DuckDB's SQL: a lowering of the tests' own, which judges what Python evaluates."""
