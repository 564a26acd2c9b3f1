"""Jobs → running sinks. Only here is Spark; what tests run without it stands in modules of its own.

* `roster`: what is to run, as of now; what a running sink sees of a change.
* `supervisor`: a roster → outcomes; signals; a `child` process for each further cluster, or for each at all.
* `application`, `spark`: one cluster's sinks → a Spark session, a thread a sink, leases renewed.
* `cluster`, `runner`: what they share; one sink: lease, claim, query, tries again, its end.
* `launch`, `source`, `pacing`: a claimed sink → the streaming query whose one source says when a batch is due.
* `batch`: one micro-batch around the table's marker; no Spark in it.
* `rebuild`: lost state → state again, from the sources.
* `engine`: what an engine does with a batch; `operators` and `fusion` do it in Spark, `task` in its workers.
* `preparation`, `stateful`: the steps before an operator with state, and what its tasks have in common; `aggregate`,
  `grouping`: aggregates; `pick`: one row a key; `multiset`, `arithmetic`: rows with multiplicities, exact sums.
* `arrangement`, `run`, `report`, `state`: keyed state in runs, and the manifest that a commit names.
* `failure`, `diagnosis`: errors of other processes and of expressions → what the user sees.
* `daemon`: the parent of Spark's Python workers.
* `control`, `progress`: what a runner asks of the catalog, and tells its user.
"""
