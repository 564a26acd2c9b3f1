"""Statements over rows.

* `query`: SELECT. `dml`: INSERT, UPDATE, DELETE.
* `inputs`: the rows that an item has now.
"""
