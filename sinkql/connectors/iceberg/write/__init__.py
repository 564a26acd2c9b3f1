"""Write a sink's table: the writer of a job, and the tasks of append and upsert sinks.

* `writer`: Opens and claims the table of a job's `Write`, and commits its batches.
* `claimed_table`: Holds the last load of the table and the sink's checkpoint in it, and commits snapshots.
* `mode`: Declares what differs between append and upsert sinks, and commits the files of a batch.
* `append`: Commits and compacts the data files of append sinks.
* `append_task`: Writes one bucket of an append sink's batch.
* `table_index`: Keeps the key index of an upsert sink between batches.
* `upsert`: Creates the tasks of upsert sinks, and turns their results into files to commit.
* `upsert_task`: Writes one bucket of a keyed batch: data files, delete files and a run of the index.
* `refresh`: Commits a full refresh of an upsert sink.
* `refresh_collect`: Stages the rows of one bucket and one part of a full refresh.
* `refresh_rows`: Reads the table's rows and the staged rows in ranges of key hashes.
* `refresh_diff`: Compares both sides and writes the differences.
* `replacement`: Reads back and replaces the data files of an append sink.
* `table_files`: Keeps copies of source files in the metadata folder of the table.
* `maintenance`: Maintains the table between batches: compaction, expiry, orphan files.
* `compaction`: Runs compactions in steps, and commits each between two batches.
* `upsert_compactor`: Chooses and rewrites the files of an upsert sink, with its index.
"""
