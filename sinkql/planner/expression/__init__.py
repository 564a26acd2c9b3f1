"""Build typed expressions: operators, casts and literals over operands of given types.

* `typed_expression`: Defines a typed expression, and builds trees.
* `literal`: Reads literals as values of a type, and casts implicitly.
* `cast`: Plans explicit casts, and fields and comparisons of records.
* `operator`: Plans operators, with operands cast to common types.
* `scale`: Computes the scale that Postgres shows for a numeric result.
* `exact_numeric`: Combines numeric arithmetic so that it keeps all digits.
* `assign`: Converts a value for a table's column.
"""
