"""Statements that show.

* `show`: SHOW; `listing`: how each kind of items is listed.
* `explain`: EXPLAIN.
"""
