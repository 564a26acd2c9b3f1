"""One sink of a cluster: its lease, its incarnations, its retries and its end.

* `workload`: Returns the sinks that must run, and follows changes of one sink's assignment.
* `host`: Holds what the sinks of one Spark application share.
* `runner`: Runs one sink from its lease to its outcome.
* `incarnation`: Claims the table and runs batches under the scheduler.
* `wait_for_views`: Waits until the views that a sink reads have all present input.
* `control`: Watches what users want of the sink and whether it has its lease, and answers requests.
* `requests`: Runs OPTIMIZE SINK and REPLAY ERRORS, and answers waits.
* `life`: Decides what the sink does next, and when it retries after an error: a state machine.
* `status`: Reports the sink's status, events and progress.
"""
