"""What the processes that use one catalog tell each other through it.

* `process`: the time as text, and what tells a process from others.
* `control`: leases, desired states, statuses and progress of running sinks.
* `shared_store`: what those who run sinks, capture sources and ask for something leave for each other.
* `shared_store`: those of the timeline.
* `intent_log`: statements of several steps, finished after a crash.
"""
