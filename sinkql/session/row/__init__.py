"""Run the statements that read or change rows.

* `query`: Run SELECT in SQLite, Python or Spark.
* `files`: Resolve the files that a query names.
* `view_contents`: Read the rows of materialized view jobs from their logs.
* `local_query`: Run a query once in this process.
* `inputs`: Read the present rows of items, files and views for one statement.
* `dml`: Run INSERT, UPDATE and DELETE on tables.
* `subscribe`: Run SUBSCRIBE, which follows the changes of a view.
"""
