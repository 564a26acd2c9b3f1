"""Meaning → Spark SQL, which is written here and nowhere else.

* `sql`: names, strings and types as Spark SQL has them; forms, and how they are filled.
* `expression`: an expression's tree → its text, by the forms of its functions.
* `sql`, `cast`: constants and conversions.
* `operator`, `operator`, `number`, `number`, `string`, `string`, `time`, `json`: the forms of functions
  by id, a family each.
* `query`: a relation → one query, for what runs once.
* `task_input`: what goes into the tasks of an operator with state.
* `query`: all of a job, to be read.
"""
