"""Commits: exactly once, by whoever claimed the table last.

* `checkpoint`: what a snapshot says of its sink, and finding the one that holds.
* `manifest_cache`: what is known of a table's manifests from one commit to the next.
* `snapshot`: files → manifests, requirements and updates.
* `committer`: what others did meanwhile, and whether a sink may go on.
* `proposal`: a claim of the table, a batch, or a compaction.
* `table_facts`: does the catalog answer, and what is in the target table of a sink that is created or goes on.
* `committer`: a proposal → a known outcome, through lost replies and conflicts.
* `maintenance`: old snapshots go, with the files that only they reach.
* `maintenance`: so do files that killed and failed attempts left.
* `drop_table`, `drop_table`: what a table keeps for a sink that is dropped; the table itself, where it is empty.
"""
