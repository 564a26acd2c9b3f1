"""logical → physical, and physical → the text that an engine runs.

* `job`: a sink → its job: views put in line, operators chosen.
* `explain`: EXPLAIN → the text of a stage.
* `task_input`: what goes into the tasks of an operator with state, as data.
* `spark`: expressions, relations and preparations → Spark SQL.
"""
