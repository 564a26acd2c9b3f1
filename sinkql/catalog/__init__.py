"""The catalog: items with their plans, in memory and in a file.

* `memory`: `MemoryCatalog`: planned items that refer to each other; all that compiling needs.
* `replan`: new statements in the place of items, and all that depends on them planned again.
* `address`: what names a catalog; `open_store`: the open database there; `store`: what is asked of any.
* `sqlite`: the catalog file: opening it, and its tables. `postgres`: the same in a Postgres database.
* `coordination`: what the runners of sinks write in it.
* `backup`: a copy of a catalog, and back.
* `secret`: secrets' values, encrypted or referred to.
* `catalog`: `Catalog`: the items that are stored, each planned when it is asked for.
* `operation`: what changes a catalog; `operation`: `Draft`: a copy in which operations are tried first.
* `verify`: what is wrong in a catalog.
* `system`: the relations `mz_*`, `pg_*` and `information_schema`, and SELECT over them.

Nothing is imported here: `memory` loads without sqlite3.
"""
