"""The key index: a cache of an upsert sink's table, which says where the live row of each key is.

* `key_hash`: the key's columns; what tells keys apart is their hash under the catalog's secret (`sinkql.row_hash`).
* `change`: the changes of a batch to what becomes of each key.
* `run`: sorted hashes ↔ run files.
* `layer`: what commits changed about the files, newest first.
* `index`: which runs and files an index is made of, in a manifest of each commit.
* `compaction`: all runs of an index → one.
* `rebuild`: a table → its index, rebuilt or brought up to date.
"""
