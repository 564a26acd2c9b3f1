"""Files of a table.

* `data`: rows → a Parquet file and the entry that a manifest has of it. Runs in tasks.
* `place`: rows → their partitions; `order`: in which order they stand there; `spread`: rows as they come → files.
* `read`: a Parquet file → its rows as the table has them now; `name`: which sink wrote a file.
* `delete`: positions of dead rows ↔ position-delete files; the files of a table's current snapshot.
"""
