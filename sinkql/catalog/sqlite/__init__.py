"""A catalog in a SQLite file, which several processes may write.

* `private_file`: Check and create the file, readable by its owner alone.
* `database`: An open catalog, its transactions, and copies of it.
* `connection`: A connection that returns rows by name.
* `schema`: The tables and views, and their upgrades.
* `item_names`: The names of items, for completion in an operating system's shell.
"""
