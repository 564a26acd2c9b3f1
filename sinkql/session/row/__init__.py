"""Statements over rows.

* `query`: SELECT. `modify`: INSERT, UPDATE, DELETE.
* `inputs`: the rows that an item has now.
"""
