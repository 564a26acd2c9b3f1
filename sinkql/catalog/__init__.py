"""The catalog: items with their plans, in memory and in a file.

* `memory`: `MemoryCatalog`: planned items that refer to each other; all that compiling needs.
* `store`: `Catalog`: the items of a file, planned again as they are read; what changes them.
* `database`, `schema`, `migrations`: the catalog file, opened, checked, brought up to date; its tables.
* `change`: what changes it, as operations; `draft`: `Draft`: a copy in which they are tried first.
* `verify`: what is wrong in a file.
* `update`: new statements in the place of items, and all that depends on them planned again.
* `row`: items as rows of the file; `reader`: the catalog as DROP sees it.
* `detail`: what the system relations show of an item.
* `secret`: secrets' values, encrypted; a type that does not show them.
* `journal`: statements of several steps, finished after a crash.
* `control`: leases, desired states, statuses and progress of running sinks.
* `system`, `query`: the relations `mz_*`, and SELECT over them.
* `glance`: names of items for a shell that completes commands, without any of this.
* `clock`: times as text, and what tells a process from others.

Nothing is imported here: `memory` loads without SQLAlchemy.
"""
