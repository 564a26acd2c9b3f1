"""Plan statements that change items and rows.

* `qualify`: Rewrites the names in a CREATE statement as full names, or as new names.
* `alter`: Plans ALTER as the item's new statement, and finds the sink of ALTER SINK … PUBLISH.
* `rename`: Plans new names, and finds the items of ALTER … OWNER TO and COMMENT ON.
* `drop`: Plans the items that DROP removes, and their order.
* `dml`: Plans INSERT, UPDATE and DELETE as changes of rows.
* `transaction`: Checks statements within BEGIN and COMMIT.
"""
