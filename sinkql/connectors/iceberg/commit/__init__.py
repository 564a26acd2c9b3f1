"""Commits to a table: exactly once, by the sink run that claimed it last.

* `table_facts`: Checks the target table before a sink is created or altered, and reads its current rows.
* `checkpoint`: Stores a sink's checkpoint in snapshot summaries and table properties, and finds the valid one.
* `lineage`: Finds out whether main still contains a commit whose snapshot has expired.
* `proposal`: The proposals: a claim of the table, a batch, a compaction, and the publication of a branch.
* `committer`: Posts a proposal until its outcome is known, and checks whether other commits allow a retry.
* `snapshot`: Writes the manifests of a snapshot, and builds the requirements and updates to post.
* `manifest_cache`: Caches the contents of a table's manifests between commits.
* `removal`: Records in a snapshot which manifests and files it removed, and finds that out for other snapshots.
* `maintenance`: Expires old snapshots, and deletes the files that only they reach and orphan files.
* `drop_table`: Drops the empty table of a dropped sink, or removes the sink's tag from it.
"""
