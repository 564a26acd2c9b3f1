"""Plan subqueries in expressions.

* `subquery`: Plans the subqueries of one SELECT or ON as columns, or as semi and anti joins.
* `apply`: Joins a relation with a subquery's result for each of its rows.
* `decorrelate`: Rewrites a correlated relation as an uncorrelated one with join conditions.
"""
