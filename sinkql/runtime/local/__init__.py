"""Run batches in this process, without Spark: small batches of all sinks, tests of pipelines, and SinkQL's own tests.

* `engine`: Run a job's batches, or leave them to Spark.
* `size`: Decide whether a batch is too large for this process.
* `measured_engine`: Run a sink's batches by what earlier ones cost.
* `placement`: Decide where batches run, by their size and by what earlier ones cost.
* `batch`: Run the operators of a job over one batch.
* `map`: Compute a Map's expressions.
* `arrow_form`: Compute an expression over Arrow columns.
* `rows`: Run the other operators that keep no state.
* `task`: The tasks that read splits and write rows, which Spark's workers run too.
* `task_input`: Prepare the input of stateful operators.
* `xxhash64`: Hash rows like Spark's xxhash64.
* `murmur3`: Put rows into buckets like Spark's shuffle.
* `nested_hash`: Hash the values inside arrays and records.
"""
