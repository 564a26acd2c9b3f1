"""Jobs → running sinks. Each room uses those below it alone; only the first three have Spark in them.

* `process`: who runs which sinks: a roster → processes, an application of Spark in each, a thread a sink.
* `sink`: one sink of a cluster: lease, claim, a seat at the conductor, tries again, its end.
* `spark`: the session, the lanes in which batches run, and the engine that runs their operators.
* `local`: an engine without Spark, for tests of pipelines and SinkQL's own.
* `batch`: one micro-batch around the marker of the sink's table, by any engine, and which sink has one when.
* `state`: what operators keep between batches, and the operators that do.
"""
