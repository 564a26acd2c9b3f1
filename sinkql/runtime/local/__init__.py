"""Batches in this process, without Spark: for tests of pipelines, and SinkQL's own.

* `engine`: a job and one batch → rows written and new state.
* `expression`: a Map's expressions → values in Python, an error that names what only Spark has.
* `task_input`: what goes into the tasks of operators with state → the same; `task_input`: of joins.
"""
