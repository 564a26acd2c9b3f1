"""Processes: who runs which sinks.

* `supervisor`: a roster → outcomes; signals; a child for each further cluster, or for each at all.
* `child`: a cluster → a forked process that runs it.
* `application`: a cluster's sinks → a Spark session, a thread a sink, leases renewed.
"""
