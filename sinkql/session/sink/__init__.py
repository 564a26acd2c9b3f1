"""Sinks run and watched.

* `run`: jobs to running sinks, under leases of the catalog; what they are doing.
* `workload`: what of the catalog is to run now.
* `process`: the process that runs sinks, and what it says; `process`: sinks that run in one while a `with` lasts.
"""
