"""What statements say of Iceberg: options → plans. No pyiceberg in it.

* `connection`: CREATE CONNECTION … TO ICEBERG CATALOG, checked by catalog type.
* `sink`: CREATE SINK … INTO ICEBERG CATALOG, with the type of each of the table's columns.
"""
