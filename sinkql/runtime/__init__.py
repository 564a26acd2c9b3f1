"""Run jobs as sinks. Each package uses only those below it in this list; only `spark` imports Spark, when it starts.

* `process`: Runs the sinks of a workload in processes, one for each cluster.
* `sink`: Runs one sink of a cluster: lease, claim, batches, retries, end.
* `schedule`: Decides which sink's batch runs next, where and when.
* `spark`: Starts the session, and executes the operators of batches in Spark.
* `local`: Executes the operators of batches in this process, without Spark.
* `batch`: Commits batches with any engine, and schedules them.
* `state`: Holds the state of operators between batches, and the operators that have state.
"""
