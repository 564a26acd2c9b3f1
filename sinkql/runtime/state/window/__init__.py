"""Functions of all rows of a key; the package finds them by listing its folder.

* `rows`: The rows of keys in an order, as a function receives them.
* `frame`: The rows in each row's frame.
* `compute`: Register functions, and compute the columns of calls.
* `row_functions`: Functions of one row's place, like row_number and lag.
* `aggregate`: Aggregates over frames.
* `ordered_aggregate`: Aggregates over all rows of a key in an order.
"""
