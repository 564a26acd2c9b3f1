"""Processes: which of them runs which sinks.

* `supervisor`: Runs the sinks of a workload, one process for each cluster, and handles signals.
* `capture_processes`: Runs a capture process for each source that sinks read.
* `child`: Runs the sinks of a cluster in a forked process.
* `signals`: Blocks and handles the signals of forked processes.
* `application`: Runs the sinks of one cluster: Spark, a thread for each sink, the renewal of leases.
"""
