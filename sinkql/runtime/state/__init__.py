"""The state of operators: keyed rows in sorted runs, by bucket.

* `operator`: The stateful operators, and the task that runs one of them in a bucket.
* `window`: Functions of all rows of a key.
* `arrangement`: The runs of a bucket: look-ups, and merging.
* `ordered_run`: Runs sorted by a value or a time, which are read in slices.
* `run`: One run and its file.
* `manifest`: The list of live runs that a commit refers to.
* `report`: The reports of stateful tasks.
* `row_identity`: The hashes that identify keys and rows.
* `sort_key`: Numbers that sort like columns.
* `multiset`: Changes of rows with multiplicities.
* `arithmetic`: Exact sums, extremes and comparisons of groups of rows.
* `pre_aggregation`: Add up rows before an exchange.
* `lookup`: The rows of given keys in a bucket's runs.
* `side`: One side of a join before and after a batch.
* `join`: The changes of a join of two sides.
* `unchanged_values`: Values that a server omitted from a change.
"""
