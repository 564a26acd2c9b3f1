"""Statements that change what is there.

* `qualify`: a CREATE statement → the same with names written in full, as it is stored, or as items are called now.
* `alter`, `alter`: ALTER → the item's new statement; what it sets and resets of the options.
* `rename`: new names; what ALTER … OWNER TO and COMMENT ON speak of.
* `drop`: what DROP takes away, in which order.
* `dml`: INSERT, UPDATE and DELETE → rows that come, go and change.
* `transaction`: what is said of BEGIN, COMMIT and ROLLBACK.
"""
