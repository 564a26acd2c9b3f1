"""Execute one batch in Spark.

* `batch`: A batch as Spark executes it, and the tasks that read its sources.
* `staged_rows`: Rows of the driver's machine for tasks on other machines.
* `task_rows`: Compute a batch in Python tasks alone.
* `exchange`: Exchange rows between tasks as Arrow blobs.
* `frames`: Compute a batch with Spark SQL.
"""
