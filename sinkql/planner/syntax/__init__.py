"""Parse queries, and explain syntax errors and unsupported expressions.

* `sqlglot_tree`: Parses a query's text into sqlglot's tree, with ranges of the text.
* `grammar`: Decides whether a text is a query, by the grammar of Postgres.
* `cross_check`: Compares sqlglot's tree with the forms of the grammar.
* `syntax_error`: Explains why a query does not parse, with a hint.
* `unsupported`: Explains nodes that are parsed and not translated.
* `file_query`: Finds the files that a query names in FROM.
"""
