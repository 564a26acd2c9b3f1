"""The table of a sink in its catalog: open the catalog, create or check the table, and read it.

* `catalog`: Opens the catalog of a connection; types `sql` and `memory` here.
* `sql_catalog`: Implements SQL catalogs, whose cost does not grow with a table's history.
* `rest_catalog`: Opens REST catalogs, including S3 Tables.
* `glue_catalog`: Opens catalogs in AWS Glue.
* `hive_catalog`: Opens catalogs in Hive metastores.
* `format_v3`: Writes metadata files with a seal, also in format version 3.
* `failure`: Converts exceptions of catalogs and their storage into coded errors.
* `target`: Loads the target table, posts commits to it, and tidies up after them.
* `branch`: Shows a table on a branch as if the branch were main.
* `tag`: Names the tag at a sink's last commit, and tracks whether the catalog accepts it.
* `schema`: Converts columns, PARTITION BY and SORT BY to Iceberg's schema, spec and sort order.
* `table`: Creates the table or compares it with the sink, and finds the schema of a changed sink.
* `metadata_file`: Writes and reads small files beside the table's metadata.
* `reader`: Reads a sink's table, and writes lines that read it with other programs.
"""
