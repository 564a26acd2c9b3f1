"""Lower an expression's tree to DuckDB's SQL, to check what Python evaluates."""
