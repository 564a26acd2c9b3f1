"""A query's text → relations over relations.

* `syntax`: the text → sqlglot's tree, each node with its place in the text.
* `plan`: a query: FROM, WITH, UNION, and what is not supported yet; `once`: one that runs once, ordered and limited.
* `from_`: the relations of a FROM; `join` and `on`: what a join is on; `pushdown`: where conditions are evaluated, and
  `failing`: which of them may fail on a row.
* `subquery`, `apply` and `correlate`: queries in expressions; `window` and `qualify`: window functions.
* `select`: one SELECT's clauses → filter, aggregate, projection; `aggregate`: its aggregates.
* `relation`: what projection, filter, grouping and union do to columns, keys and change kind.
* `scope`: what names mean in a SELECT.
* `translate`: a node that is an expression → its typed tree; `predicate`: conditions; `translation`: what handlers of
  nodes work with.
* `scalar`: an expression that stands alone.
* `text`: the same query with other names of items in it.
"""
