"""Plan a CREATE statement as an item.

* `statement`: Plans any CREATE statement, and compares it with an existing item.
* `secret`: Plans CREATE SECRET.
* `connection`: Plans CREATE CONNECTION and CREATE CLUSTER.
* `source`: Plans CREATE SOURCE and its progress subsource.
* `table`: Plans CREATE TABLE.
* `view`: Plans CREATE VIEW and CREATE INDEX, and warns about expensive queries.
* `sink`: Plans CREATE SINK, and expands CREATE SINKS.
* `sink_rules`: Checks a sink's key and mode against its relation.
* `setting`: Plans ALTER SYSTEM SET and SET.
"""
