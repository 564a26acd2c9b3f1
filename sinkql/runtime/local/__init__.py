"""Run batches in this process, without Spark: for tests of pipelines, and for SinkQL's own tests.

* `engine`: Run the operators of a job over one batch.
* `map`: Compute a Map's expressions in Python.
* `task`: The tasks that read splits and write rows, which Spark's workers run too.
* `task_input`: Prepare the input of stateful operators.
* `possible`: Decide whether batches of a job can run without Spark.
* `in_process`: Run a small batch of a Spark sink in this process.
* `xxhash64`: Hash rows like Spark's xxhash64.
* `murmur3`: Put rows into buckets like Spark's shuffle.
"""
