"""A catalog in a Postgres database, for processes of several hosts.

* `database`: An open catalog and its transactions.
* `connection`: A connection that runs the statements of SQLite in Postgres.
* `schema`: Create and upgrade the tables, and copy their rows to memory for system relations.
* `failure`: Convert the errors of a server that does not answer.
* `item_names`: The names of items, for completion in an operating system's shell.
"""
