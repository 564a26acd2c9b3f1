"""One micro-batch around the marker of a sink's table, without Spark.

* `scheduler`: many sinks in a few lanes; `pacing`: when a batch is due, and how far it goes.
* `loop`: start, claim, batch after batch; `resume`: where a job goes on, by its table; `source_files`: the files of
  sources' positions; `state`: that of operators; `state`: lost state again, from the sources; `full_refresh`: all
  rows again.
* `pacing`: how much time goes into the table between batches.
* `engine`: what an engine does with a batch.
* `control`, `events`: what a sink asks of the catalog, and tells its user; `metrics`: how far it is in its sources.
* `failure`: errors of other processes → the one that a user sees.
"""
