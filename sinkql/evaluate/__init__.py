"""Meaning → values in Python: what is plain needs no engine to be known.

* `relation`: a relation → its rows, out of the rows of the items that it reads.
* `expression`: an expression's tree → a function of a row; None where the set below does not have all of it.
* `operator`, `number`, `text`, `time`, `nested`, `nested`, `json`: what is had of the list of functions, by id;
  `cast`: of the casts.
* `failure`: what a row may fail with; a value that only an engine is sure of counts as a failure here.

The set is closed, and gives just what the lowered SQL gives: exact decimals are computed to 38 digits or are an error,
and AND, OR, IN, CASE and COALESCE leave an operand alone that is not asked for. NULL is None.
"""

from __future__ import annotations

from sinkql.evaluate.cast import conversion
from sinkql.evaluate.expression import function_of
from sinkql.evaluate.failure import EvaluationError, NotEvaluableError
from sinkql.evaluate.operator import comparable, order_key
from sinkql.evaluate.relation import rows_of

__all__ = ["EvaluationError", "NotEvaluableError", "comparable", "conversion", "function_of", "order_key", "rows_of"]
