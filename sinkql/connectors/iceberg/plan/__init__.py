"""Plan catalog connections and sinks from the options of their statements, without pyiceberg.

* `connection`: Checks CREATE CONNECTION … TO ICEBERG CATALOG by catalog type, and plans its options.
* `sink`: Checks CREATE SINK … INTO ICEBERG CATALOG, and plans its options and the type of each column.
* `layout`: Plans PARTITION BY and SORT BY.
* `options`: The planned options as dataclasses, for the users of a plan.
"""
