"""Processes: who runs which sinks.

* `supervisor`: a roster → outcomes; signals; a child for each further cluster, or for each at all.
* `capture_processes`: the sources that are to be captured → a process each; `capture_processes`: who says which they
  are.
* `child`: a cluster → a forked process that runs it. `signals`: what such processes have in common.
* `signals`: a signal → what is set once a process is to stop.
* `application`: a cluster's sinks → a Spark session, a thread a sink, leases renewed.
"""
