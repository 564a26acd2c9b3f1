"""A query's text → relations over relations.

* `planner.syntax.sqlglot_tree`: the text → sqlglot's tree, each node with its place in the text.
* `plan`: a query: FROM, WITH, UNION, and what is not supported yet; `plan`: one that runs once, ordered and limited.
* `from_clause`: the relations of a FROM; `join` and `planner.query.subquery.on`: what a join is on; `pushdown`: where
  conditions are evaluated, and `can_fail`: which of them may fail on a row.
* `planner.query.subquery.subquery`, `planner.query.subquery.apply` and `planner.query.subquery.decorrelate`: queries in
  expressions; `window` and `window`: window functions.
* `select`: one SELECT's clauses → filter, aggregate, projection; `planner.query.aggregate.aggregate`: its aggregates.
* `relation`: what projection, filter, grouping and union do to columns, keys and change kind.
* `scope`: what names mean in a SELECT.
* `translate`: a node that is an expression → its typed tree; `predicate`: conditions; `expression_context`: what
  handlers of nodes work with.
* `translate`: an expression that stands alone.
* `rename`: the same query with other names of items in it.
"""
