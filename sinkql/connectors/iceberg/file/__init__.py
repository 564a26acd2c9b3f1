"""Files of a table.

* `data_file`: rows → a Parquet file and the entry that a manifest has of it. Runs in tasks.
* `partition`: rows → their partitions; `sort_order`: in which order they stand there; `partitioned_writer`: rows as
  they come → files.
* `reader`: a Parquet file → its rows as the table has them now; `data_file`: which sink wrote a file.
* `deletes`: positions of dead rows ↔ position-delete files; the files of a table's current snapshot.
"""
