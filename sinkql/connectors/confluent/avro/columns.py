"""Derive the SQL columns of an Avro schema."""

from __future__ import annotations

from sinkql import logical
from sinkql.connectors.confluent.avro.resolution import Parsed, is_duration
from sinkql.decode.arrow_values import inferred_type
from sinkql.decode.avro_schema import column_of_schema
from sinkql.logical.type import parse_type


def columns_of(parsed: Parsed) -> tuple[logical.Column, ...]:
    """Return a column for each field. Raise ValueError for a reserved name, or without fields."""
    columns = []
    for field in parsed.schema["fields"]:
        if field["name"].startswith("$"):
            raise ValueError(f'it has a field "{field["name"]}", but names with $ are reserved')
        schema = field["type"]
        arrow = column_of_schema(schema, parsed.names).type
        type_ = "interval" if is_duration(schema, parsed) else inferred_type(arrow)
        nullable = schema == "null" or (isinstance(schema, list) and "null" in schema)
        columns.append(logical.Column(field["name"], parse_type(type_), nullable))
    if not columns:
        raise ValueError("its record has no fields")
    return tuple(columns)


def rows_of(parsed: Parsed) -> Parsed:
    """Return the schema of the rows in a Debezium schema. Raise ValueError for another schema."""
    fields = {field["name"]: field["type"] for field in parsed.schema["fields"]}
    if "after" not in fields or not fields.keys() & {"op", "before"}:
        raise ValueError("it is not a Debezium schema, which has the fields after and op")
    rows = parsed.follow(fields["after"])
    if not (isinstance(rows, dict) and rows["type"] == "record"):
        raise ValueError("its field after is not a record")
    return Parsed(rows, parsed.names)
