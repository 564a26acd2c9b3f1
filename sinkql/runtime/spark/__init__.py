"""Spark.

* `folder`, `java`, `jvm`, `session`: settings of a cluster → a Spark session that leaks no secret, and ends for sure;
  `archive`: what Java starts faster with; `rehearsal`: the program that makes it.
* `remote`: a master elsewhere → what its executors are given, and whether they run it; `master`: whether it is there;
  `package`: the archive of SinkQL for executors.
* `lane`: a streaming query in which the conductor runs batches.
* `engine`: operators and splits → Spark's work; `fusion`: jobs that need none of it; `task`: what runs in workers;
  `here`: what is too small for that; `placing`: how a task knows its bucket.
* `diagnosis`: a failed batch → the expression of the user's SQL, and a row on which it fails.
* `daemon`: the parent of Spark's Python workers.
* `adhoc`: queries that run once.
"""
