"""One batch between two checkpoints of a sink's table, and the schedule of many sinks' batches. No Spark here.

* `pacing`: Decides when a batch is due and where it ends, and limits the time for maintenance.
* `timeline`: Lets jobs that share sources stop at common ticks.
* `clock`: Reads the time of a job's commits as one of its sources.
* `loop`: Runs a job's batches in order: start, batch after batch, full refresh.
* `resume`: Decides where a job resumes, and claims the table.
* `source_files`: Copies the files of the sources' positions to the table and back.
* `attempt`: Computes one batch and commits it with a new checkpoint.
* `engine`: Defines the input and the result of a batch, and the protocol of engines.
* `split_count`: Counts the records of one read of a split.
* `dead_letter`: Stores records that do not decode in the dead-letter table.
* `replay`: Decodes dead letters again and commits their rows.
* `lookup`: Finds the indexes of other jobs that a batch reads.
* `index`: Maintains the indexes of a materialized view.
* `state`: Loads, saves and recovers the state of a job's operators.
* `full_refresh`: Reads a job's sources again from the beginning.
* `accounting`: Accounts for all records of a batch before it commits.
* `maintenance`: Maintains the table and its files between batches.
* `metrics`: Measures a sink and reports its commits.
* `control`: Defines what a sink needs of the catalog.
* `events`: Defines the events that sinks report to users.
* `failure`: Turns errors of tasks and expressions into errors for users.
"""
