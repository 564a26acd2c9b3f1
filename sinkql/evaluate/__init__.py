"""Evaluate relations and expressions in Python, for plans that need no engine.

* `relation`: The rows of a relation, from the rows of the items that it reads.
* `expression`: An expression as a function of a row; None if one of its calls is not implemented.
* `failure`: The errors of a row; a value that only an engine can compute counts as one.
* `operator`: Logic, comparisons, concatenation and conditions.
* `number`: Functions of numbers.
* `exact_numeric`: Exact arithmetic of numerics.
* `text`: Functions of text, and LIKE.
* `time`: Functions of dates, times and intervals.
* `nested`: Functions of arrays, lists, maps and records.
* `range`: Functions of ranges.
* `json`: Functions of jsonb.
* `cast`: Casts.

The functions are a subset of `logical.function`, by id. They return the same values as the lowered SQL: exact decimals
have at most 38 digits or are an error, and AND, OR, IN, CASE and COALESCE skip operands that are not needed. NULL is
None.
"""

from __future__ import annotations

from sinkql.evaluate.cast import conversion
from sinkql.evaluate.expression import function_of
from sinkql.evaluate.failure import EvaluationError, NotEvaluableError
from sinkql.evaluate.operator import comparable, order_key
from sinkql.evaluate.relation import rows_of

__all__ = ["EvaluationError", "NotEvaluableError", "comparable", "conversion", "function_of", "order_key", "rows_of"]
