"""Durable files on this machine, and rows in files: what all layers above build on. It imports nothing of SinkQL.

* `files`: Write files atomically and durably.
* `digest`: Compute the digest of a file as it is written or read.
* `key_value`: Store small values under names, each replaced whole.
* `numbered_log`: Keep logs of numbered files that several processes may write, and decode their entries.
* `sorted_run`: Sort, look up, merge and sweep runs of rows sorted by key hash.
* `spill`: Write the rows of a task to a temporary file if they exceed its memory.
* `consolidate`: Add the diffs of equal rows and drop zeros.
* `failpoint`: Stop, kill or fail a process at named places, in tests.
"""
