"""The catalog file: SQLite, opened, kept up to date, and written by many processes.

* `database`: `Database`: an open file and its transactions. `connection`: one of SQLite, with rows by name.
* `schema`: the tables and views that it has; `schema`: its tables.
* `private_file`: what is checked and made before a file is open. `database`: copies of it.
* `item_names`: names of items for a shell that completes commands, without any of this.
"""
