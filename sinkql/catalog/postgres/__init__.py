"""A catalog in a Postgres database, for processes of several hosts: the same tables, by psycopg.

* `database`: `ServerDatabase`: an open one and its transactions. `failure`: what keeps it from answering, as an error.
* `connection`: a transaction's connection; `connection`: SQLite's statements as Postgres has them.
* `schema`: the schema of the tables, made and upgraded.
* `schema`: the rows of all tables ↔ a copy in memory, over which the system relations are.
"""
