"""Decide whether a text is a query, and return the forms that it is made of.

sqlglot accepts many texts that are not queries, or reads them differently. The grammar is that of Postgres with the
additions of Materialize; `cross_check` compares sqlglot's tree with the forms.

* `tokens`: Reads words and signs, and lists the words that are not names.
* `window`: Reads names of types, orders and windows.
* `special_form`: Reads expressions with special syntax, such as CASE and CAST.
* `expression`: Reads expressions, by the precedence of their operators.
* `select`: Reads queries and their clauses.
"""
