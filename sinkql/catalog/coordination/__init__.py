"""Coordination of the processes that use one catalog.

* `process`: Identify a process, and format times.
* `control`: Leases, desired states, statuses and progress of sinks.
* `shared_store`: The key-value stores and timelines that processes share.
* `intent_log`: Finish statements of several steps after a crash.
"""
