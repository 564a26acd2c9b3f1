"""Bytes and texts → Arrow rows of declared columns, for all connectors whose records have such.

* `columns`: the columns that a source declares → typed columns.
* `csv_options`: the options of FORMAT CSV → how records are written.
* `csv_records`, `csv`: CSV → records → texts of columns; records that fail apart.
* `json_lines`: lines of JSON → rows; lines that fail apart.
* `messages`: messages of JSON, CSV, text or bytes → a row each.
* `arrow_values`: columns with types of their own, as files and Avro have them → an Arrow array of each declared column.
* `parquet_footer`: the footer of a Parquet file → its row groups.
* `avro_schema`, `avro_schema`: schemas of Avro → the Arrow types of their values; what is nested too deeply.
* `messages`, `debezium`: messages that say how rows change → rows with `$diff`; those of Debezium in JSON.
* `columns`: texts and values of a sample → the type that they have.
* `text_column`, `text_value`: texts of a column → an Arrow array; one text → a value.
"""
