"""The key index: a cache of an upsert sink's table that maps each key to its live row.

* `key_hash`: Describes the key's columns; keys are compared by their hash under the catalog's secret
  (`sinkql.row_hash`).
* `change`: Computes the changes of a batch per key, and writes the rows that die as delete files or deletion vectors.
* `run`: Writes, maps, probes and merges the sorted run files of hashed keys.
* `layer`: Records the changes of commits to the table's files, in layers.
* `index`: Combines runs and layers to an index, and stores it as a manifest for each commit.
* `compaction`: Merges the runs of an index.
* `rebuild`: Builds the index from a table, or brings it up to date with other writers' commits.
"""
