"""Spark.

* `scratch_folder`, `java`, `jvm`, `session`: settings of a cluster → a Spark session that leaks no secret, and ends for
  sure; `class_archive`: what Java starts faster with; `class_archive_run`: the program that makes it.
* `cluster`: a master elsewhere → what its executors are given, and whether they run it; `master`: whether it is there;
  `package`: the archive of SinkQL for executors.
* `batch_worker`: a streaming query in which the conductor runs batches.
* `engine`: operators and splits → Spark's work; `runtime.local.fusion`: jobs that need none of it;
  `runtime.local.task`: what runs in workers; `runtime.local.in_process`: what is too small for that; `arrow`: how a
  task knows its bucket.
* `diagnosis`: a failed batch → the expression of the user's SQL, and a row on which it fails.
* `daemon`: the parent of Spark's Python workers.
* `adhoc`: queries that run once.
"""
