"""Compaction: rewrite many small files, or files with many dead rows, into few files with the same rows.

* `selection`: Selects the files that are due, so that a row is rewritten a logarithmic number of times.
* `compaction`: Describes a compaction: its attempt, its files and its failures.
* `append`: Rewrites the files of append sinks, in steps between batches.
* `upsert`: Rewrites data and delete files of upsert sinks, and updates the key index.
"""
