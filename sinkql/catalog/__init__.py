"""The catalog: items with their plans, in memory and in a database.

Nothing is imported here, so that `memory` loads without sqlite3.

* `address`: Resolves the name of a catalog to a file or to a schema of a Postgres database.
* `open_store`: Opens or upgrades the database at an address.
* `store`: The interface of a catalog's database: transactions over the same tables in SQLite and Postgres.
* `sqlite`: A catalog in a SQLite file.
* `postgres`: A catalog in a Postgres database.
* `catalog`: The open catalog: stored items, which are planned when they are first used.
* `row`: Converts items to rows of the catalog's tables, and back.
* `memory`: The planned items in memory, and the sinks of each destination; all that compiling needs.
* `overlay`: A catalog with additional items for one statement.
* `replan`: Replaces statements of items, and plans all dependent items again.
* `operation`: The changes of a catalog, done immediately or first in a draft.
* `secret`: The values of secrets, encrypted or referenced.
* `coordination`: Leases, statuses and messages of the processes that use a catalog.
* `system`: The relations `mz_*`, `pg_*` and `information_schema`, and SELECT over them.
* `backup`: Backs up and restores a catalog with the rows of its tables.
* `verify`: Checks a catalog for damage.
"""
