"""A query's text → the forms that it is made of; raises where the text is not a query.

This is the judge of what is a query: sqlglot takes much that is none, and reads it as something else. The grammar is
that of Postgres with what the dialect adds; `account`, beside it, holds sqlglot's tree against the forms.

* `tokens`: words and signs one after the other, and which words are no names where.
* `window`, `window`, `special_form`: names of types, orders and windows, and expressions that have words of their own.
* `expression`: expressions, by the `tokens` of their operators.
* `select`: queries and their clauses.
"""
