"""Storage.

* `consolidate`: Batches of rows that came and went (`$diff`) → one batch without those that did both.
* `digest`: A file that nothing changes → a digest of its bytes, made as it is written.
* `failpoint`: Fault points: named places where a test may make this process die or fail.
* `files`: Bytes → a file that is there whole or not at all, also after the power failed.
* `key_value`: Small notes that processes leave for each other, each whole: in a folder, or where several hosts see
  them.
* `numbered_log`: Files of a folder that are numbered 1, 2, …, each made once: a log that several processes may want
  to write.
* `sorted_run`: Immutable runs of rows sorted by the hash of their key: order, look-up, merging in tiers, and
  sweeping.
* `spill`: Rows of a task that are too many for its memory → parts, each of a range of hashes, by way of a temporary
  file.
"""
