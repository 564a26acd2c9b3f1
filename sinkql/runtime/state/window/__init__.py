"""Functions of all rows of a key, in files of their own that are found by listing this folder.

* `rows`: rows of keys in an order, as a function gets them; `frame`: which of them each row has in its frame.
* `compute`: how a function is registered: one value a row, or one value a key.
* `row_functions`, `row_functions`, `aggregate`: row_number and the like, lag and the like, count and the like over
  frames.
* `compute`: rows and calls → columns.
"""
