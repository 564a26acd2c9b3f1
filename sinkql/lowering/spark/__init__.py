"""Write Spark SQL; no other package contains it.

* `query`: A relation as one query for a single run, or all of a job as text for EXPLAIN.
* `window`: Ranks, windows and ordered aggregates of a query for a single run.
* `task_input`: The queries that prepare the input of stateful operators.
* `expression`: Expressions, by the forms of their functions.
* `sql`: Names, strings, types and constants; forms, and how operands are inserted.
* `operator`: Operators, comparisons and the parts of aggregates.
* `number`: Numeric functions.
* `string`: Functions of text and bytes.
* `time`: Functions of dates, times and intervals.
* `nested`: Arrays, lists, maps and records.
* `range`: Ranges.
* `json`: Operators and functions of jsonb.
* `cast`: Casts.
"""
