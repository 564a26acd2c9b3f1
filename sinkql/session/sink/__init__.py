"""Sinks run and watched.

* `running`: jobs to running sinks, under leases of the catalog; what they are doing.
* `roster`: what of the catalog is to run now.
* `process`: the process that runs sinks, and what it says; `started`: sinks that run in one while a `with` lasts.
"""
