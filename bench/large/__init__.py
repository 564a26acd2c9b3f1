"""The measurements of `bench.scale` on one machine: a module for each thing that grows.

* `process`: memory, threads and open files of a process and its descendants.
* `files`: a commit of many data files.
* `backlog`: a backlog of very many rows.
* `probes`: look-ups in the key index.
* `keys`: an upsert sink of very many keys.
* `sinks`: many sinks in one catalog.
* `executors`: the same batches on different numbers of executors.
"""
