"""Run batches with Spark.

Starting Spark:
* `settings`: The settings of a Spark application, without Spark.
* `application`: A cluster's Spark in this process: when it starts, and when it rests.
* `session`: Start a Spark session with the settings of a cluster, and stop it.
* `java`: Find the Java for Spark.
* `jvm`: Start, end and kill a JVM.
* `internals`: The private members of pyspark that have no public counterpart.
* `scratch_folder`: The private folder of a Spark application.
* `setting_path`: Make relative paths in Spark's settings absolute.
* `class_archive`: The archive of classes that shortens Java's start.
* `class_archive_run`: The program that makes the archive.

Executors elsewhere:
* `master`: Check that a master answers, and find this machine's address.
* `cluster`: The settings of executors, and whether they run.
* `package`: The archive of SinkQL for executors.
* `daemon`: The parent of Spark's Python workers.
* `task_modules`: The modules that it loads.

Running batches:
* `batch_worker`: A streaming query in which the batch scheduler runs batches.
* `engine`: Run a batch in Spark by the way that costs least.
* `execution`: The ways of computing a batch, and the exchange of its rows.
* `arrow`: Convert rows between Arrow and Spark, and give each task its bucket.
* `python_function`: Python functions for Spark SQL.
* `task_report`: Reports of tasks to this process.
* `diagnosis`: Find the expression and the row of a failed batch.
* `adhoc`: Run single queries.
"""
