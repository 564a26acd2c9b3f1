"""Plan function calls as entries of `logical.function`'s list.

* `call`: Resolves a function name and its overload.
* `argument`: Checks the number, types and constants of arguments.
* `number`: Plans numeric functions with special arguments.
* `text`: Plans functions of text and bytes, LIKE and regular expressions.
* `time`: Plans functions of dates and times.
* `condition`: Plans COALESCE, NULLIF, GREATEST, LEAST and similar functions.
* `json`: Plans functions and operators of jsonb.
* `nested`: Plans functions and operators of arrays, lists, maps and records.
* `range`: Plans functions and operators of ranges.
* `set_returning`: Plans set-returning functions as arrays.
"""
