"""Typed expressions put together: what an operator, a cast or a literal means for operands of these types.

* `typed_expression`: a tree with the type that the user sees, and how trees are made.
* `literal`, `literal`: the text of a constant and the type it takes → its value; conversions that happen unasked.
* `cast`: conversions that are asked for.
* `operator`: arithmetic, comparison and the like: operands brought to the types that a function of the list takes.
* `assign`: a value put into a table's column: a plain value where it can be, a tree if not.
"""
