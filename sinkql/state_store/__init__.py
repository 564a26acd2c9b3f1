"""State store.

* `directory`: A sink's state in its folder here, and in a store that any host reaches → what a batch needs is in the
  one, what a marker names in the other.
* `numbered_log`: Numbered files (`sinkql.storage.numbered_log`) that a store has, and a folder here as far as they were
  made or read here.
"""
