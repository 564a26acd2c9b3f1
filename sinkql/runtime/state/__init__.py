"""State of operators: keyed rows in sorted runs, by bucket.

* `operator`: the operators with state, one class each, and the task that runs one in a bucket.
* `arithmetic`: groups of rows → exact sums and extremes; `multiset`: rows with multiplicities.
* `sort_key`: columns that rows are ordered by → numbers; `runtime.state.operator.head`: the first rows of keys, out of
  runs in such an order.
* `window`: functions of all rows of a key.
* `arrangement`: a bucket's runs, what they say of given keys, and their merging; `run`: a run ↔ its file.
* `side`: what a join keeps besides; `lookup`: keys → the rows that they have; `side`: one side of a join, before and
  after a batch; `join`: two sides → the changes of their join; `join`: the same of all rows with all.
* `report`: what a task attempt left behind; `manifest`: the runs that are live, under a name that a commit has.
"""
