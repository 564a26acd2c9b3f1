"""Plan, decode and encode Avro messages.

* `plan`: Plan FORMAT AVRO of sources and sinks, and derive the schema that a sink registers.
* `columns`: Derive the SQL columns of a schema.
* `resolution`: Parse schemas, and resolve a writer's schema to the declared columns.
* `decode`: Decode messages to rows, and Debezium's messages to changes, with the schemas of their writers.
* `column_reader`: Read the values of a field for many messages together, as Arrow arrays.
* `cursor`: Keep the read positions of many messages, and collect their errors.
* `encode`: Encode rows as messages.
"""
