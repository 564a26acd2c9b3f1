"""A catalog's table: opened, made, read, and held against what a sink writes.

* `catalog`, `sql_catalog`, `rest_catalog`, `glue_catalog`, `failure`: a planned connection → an open catalog; its
  failures → coded errors.
* `target`: one table of a catalog: loaded, posted to, and tidied after a commit.
* `schema`, `schema`, `table`: SQL columns and PARTITION BY → schema and spec; the table is created, or compared with
  it.
* `metadata_file`: small files beside the table's metadata.
* `reader`: how to read a sink's table, and its rows.
"""
