"""Schedule the batches of many sinks in a few workers: in threads of this process, and in streaming queries of Spark.

* `event`: The events of the schedule, and its answers.
* `schedule`: Decides which sink's batch runs next, where and when: a state machine.
* `scheduler`: Carries out the decisions in threads.
* `thread_worker`: A worker of this process: a thread.
* `placed_engine`: Runs a batch in this process if it can, and in Spark otherwise.
"""
