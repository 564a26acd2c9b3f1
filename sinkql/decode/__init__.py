"""Decode bytes and texts to Arrow rows of declared columns, for all connectors.

* `columns`: Type the columns that a source declares, and find the type that the values of a sample have.
* `csv_options`: Plan FORMAT CSV with its options.
* `csv_records`: Cut a stream of CSV into blocks of whole records.
* `csv`: Decode CSV records to rows, and collect the records that fail.
* `json_lines`: Decode lines of JSON to rows, and collect the lines that fail.
* `messages`: Decode messages of JSON, CSV, text or bytes to a row each, and messages of changes to rows with `$diff`.
* `debezium`: Decode Debezium's messages in JSON to changes of rows.
* `debezium_value`: Convert the values of their columns to Arrow arrays.
* `text_column`: Convert the texts of a column to an Arrow array.
* `text_value`: Convert one text to a value.
* `arrow_values`: Convert typed columns of files and Avro to arrays of the declared types.
* `avro_schema`: Map Avro schemas to Arrow types, and refuse values that are nested too deeply.
* `parquet_footer`: Read the row groups in the footer of a Parquet file.
* `columnar`: Build Arrow arrays from offsets in a block of bytes.
"""
