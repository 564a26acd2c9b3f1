"""Sources that keep nothing for their readers: one process reads a server once, and keeps a log that all sinks read.

* `stream`: what a capture asks of a connector: changes in commit order, chunks of tables, positions.
"""
