"""Subquery.

* `apply`: A relation and what a subquery gives for each of its rows → joins: rows that have some, or values behind
  the columns.
* `apply`: A condition with subqueries → comparisons of rows with a value that is the same for all of them.
* `decorrelate`: A relation that speaks of columns of a query around it → one that does not, and conditions between
  the two.
* `subquery`: A join's ON that has subqueries → conditions without any, over sides that have what the subqueries give.
* `subquery`: Subqueries in the expressions of one SELECT → columns, which `attached` puts behind those of its rows;
  in WHERE and HAVING also joins with what there must be, or must not be.
"""
