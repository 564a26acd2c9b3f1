"""One sink's life.

* `workload`: what is to run, as of now; what a running sink sees of a change.
* `host`: what users want of sinks, asked for all of them at once.
* `host`: whose turn it is to open its table.
* `host`: what the sinks of an application share, and how one ends.
* `runner`: lease → claim → batches, again after what may pass, to the end.
"""
