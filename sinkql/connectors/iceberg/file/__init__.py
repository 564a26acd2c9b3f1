"""The data files, delete files and manifests of a table.

* `partition`: Divides rows into the partitions of a table's spec.
* `sort_order`: Sorts the rows of a data file by the table's sort order.
* `arrow_types`: Converts nested values and ranges from SinkQL's Arrow types to the table's.
* `data_file`: Writes a Parquet file in a task, with the manifest entry for it; names the sinks that wrote a file.
* `partitioned_writer`: Writes rows to one data file per partition, as they arrive.
* `deletes`: Reads and writes position-delete files and deletion vectors, and lists the current files of a table.
* `manifest`: Reads and writes manifests and manifest lists of format versions 2 and 3.
* `reader`: Reads the rows of a data file with the current columns of its table.
"""
