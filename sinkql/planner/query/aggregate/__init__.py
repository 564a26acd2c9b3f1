"""Plan the aggregates of a SELECT.

* `grouping_sets`: Plans GROUP BY with GROUPING SETS, ROLLUP and CUBE as a union of aggregates.
* `aggregate`: Plans aggregates as calls of COUNT, SUM, MIN and MAX, with expressions over their results.
* `ordered_aggregate`: Plans aggregates over all rows of a group: ordered, over sorted values (WITHIN GROUP), or of
  bits.
"""
