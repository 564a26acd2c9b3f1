"""Compaction: many small files, or files with many dead rows → few of the same rows, committed by the sink itself.

* `selection`: which files are due; so that a row is written again a number of times logarithmic in the table's size.
* `compaction`: what a compaction replaces by what.
* `append`: files of an append sink → larger ones, in steps between batches.
* `upsert`: files and delete files of an upsert sink → larger ones, with the places of their rows in the key index.
"""
