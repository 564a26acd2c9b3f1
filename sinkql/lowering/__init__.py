"""Lower logical plans to physical jobs, and physical plans to the input of tasks and to Spark SQL.

* `job`: Lowers a sink or a materialized view to its job.
* `context`: Collects shared operators, statements and connections of one job.
* `relation`: Lowers items and relations to operators.
* `join`: Lowers joins.
* `window`: Lowers ranks, windows and collected groups.
* `index`: Lowers indexes of materialized views, and uses them in joins.
* `common_subplan`: Shares equal operators, and names arrangements.
* `fused_join`: Fuses joins on one key into the tasks of the join above.
* `materialized_view`: Decides which views are jobs and read from their logs, and which inputs are read at ticks.
* `placement`: Decides whether batches of a job can run without Spark, and up to which size.
* `explain`: Prints a stage for EXPLAIN.
* `task_input`: Defines the input of a stateful operator's tasks.
* `join_input`: Defines the input of a join's tasks.
* `index_input`: Defines the input of an index's tasks.
* `spark`: Lowers expressions and physical plans to Spark SQL.
"""
