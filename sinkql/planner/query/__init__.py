"""Plan a query's text as relations over relations.

* `plan`: Plans a query or a one-shot query: WITH, set operations, and clauses that are not supported yet.
* `query_context`: Defines the context of a query and the interface of the query planner.
* `from_clause`: Plans a FROM as one relation with its scope.
* `scope`: Resolves names in one SELECT.
* `rename`: Rewrites the item names in a query's text.
* `select`: Plans the clauses of one SELECT: filter, aggregate and projection.
* `set_returning`: Plans set-returning functions in FROM and in a select list.
* `set_operation`: Plans INTERSECT, EXCEPT and VALUES.
* `subquery`: Plans subqueries in expressions.
* `aggregate`: Plans aggregates and grouping sets.
* `window`: Plans window functions, their frames, and QUALIFY.
* `distinct_on`: Plans DISTINCT ON.
* `order_by`: Plans ORDER BY, LIMIT, OFFSET and FETCH.
* `expression_context`: Defines what the handlers of sqlglot nodes use.
* `translate`: Translates an expression's nodes into a typed tree.
* `predicate`: Translates comparisons, NULL tests, IN, BETWEEN, rows and patterns.
* `temporal_filter`: Plans conditions on mz_now().
* `top_n`: Plans a condition on a row number as the top rows of each partition.
* `relation`: Builds relations: the effect of each operation on columns, keys and change kind.
* `join`: Plans joins: equalities, functional dependencies, and conditions that reject NULLs.
* `keys`: Derives the keys of filters and joins.
* `pushdown`: Pushes conditions down and orders joins.
* `can_fail`: Decides whether an expression can fail on a row.
"""
