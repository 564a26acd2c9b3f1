"""Aggregate.

* `aggregate`: Aggregates of a SELECT → calls of COUNT, SUM, MIN and MAX, and what is computed from them above.
* `grouping_sets`: GROUP BY with GROUPING SETS, ROLLUP and CUBE → a union of what each set of columns is grouped by.
* `ordered_aggregate`: Aggregates over all rows of a group: in an order, as string_agg; of sorted values (WITHIN
  GROUP); and of bits.
* `aggregate`: Variance of a count, a sum and a sum of squares, all of them exact.
"""
