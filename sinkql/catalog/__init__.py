"""The catalog: items with their plans, in memory and in a file.

* `memory`: `MemoryCatalog`: planned items that refer to each other; all that compiling needs.
* `replan`: new statements in the place of items, and all that depends on them planned again.
* `file`: the catalog file: opening it, its tables and rows, what the runners of sinks write in it.
* `secret`: secrets' values, encrypted or referred to.
* `catalog`: `Catalog`: the items of a file, each planned when it is asked for.
* `operation`: what changes a catalog; `draft`: `Draft`: a copy in which operations are tried first.
* `verify`: what is wrong in a file.
* `system`: the relations `mz_*`, `pg_*` and `information_schema`, and SELECT over them.

Nothing is imported here: `memory` loads without sqlite3.
"""
