"""Avro.

* `decode`: Messages of Avro → a row each, read by the schema that each was written with, whose id stands before it.
* `resolution`: Avro schemas as Kafka Connect writes them → the same with Avro's own names of dates and times.
* `plan`: Columns → the schema of Avro that a sink registers for them.
* `plan`: FORMAT AVRO USING → the columns that the schema has, and the decoder's options.
* `column_reader`: A writer's Avro schema → what its values are read by, a column of all messages at a time, as
  arrays of Arrow's types.
* `columns`: An Avro schema → the columns that its records have in SQL.
* `cursor`: Messages of one Avro schema, all at once: where each is read next, and which of them are wrong and why.
* `decode`: Debezium's messages in Avro → rows that change.
* `encode`: Rows → messages of Avro, each with the id of its schema before it; a `MessageEncoder`.
* `plan`: FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY of a sink → what its encoder registers, and where.
* `resolution`: A writer's and a reader's Avro schema → the declared columns of messages, by the rules of schema
  resolution.
"""
