"""An Avro schema → the columns that its records have in SQL."""

from __future__ import annotations

from sinkql import logical
from sinkql.connectors.confluent.avro.resolution import Parsed, duration
from sinkql.decode.arrow_values import inferred_type
from sinkql.decode.avro_schema import column_of_schema
from sinkql.logical.type import parse_type


def columns_of(parsed: Parsed) -> tuple[logical.Column, ...]:
    """Return a column for each field; raises ValueError for names that no column can have."""
    found = []
    for field in parsed.schema["fields"]:
        if field["name"].startswith("$"):
            raise ValueError(f'it has a field "{field["name"]}", and names with $ are reserved')
        schema = field["type"]
        told = column_of_schema(schema, parsed.names).type
        type_ = "interval" if duration(schema, parsed) else inferred_type(told)
        nullable = schema == "null" or (isinstance(schema, list) and "null" in schema)
        found.append(logical.Column(field["name"], parse_type(type_), nullable))
    if not found:
        raise ValueError("its record has no fields")
    return tuple(found)


def rows_of(parsed: Parsed) -> Parsed:
    """Return the schema of the rows that change, of that of Debezium's messages; raises ValueError."""
    fields = {each["name"]: each["type"] for each in parsed.schema["fields"]}
    if "after" not in fields or not fields.keys() & {"op", "before"}:
        raise ValueError("it is not one of Debezium's, which has the fields after and op")
    rows = parsed.follow(fields["after"])
    if not (isinstance(rows, dict) and rows["type"] == "record"):
        raise ValueError("its field after is not a record")
    return Parsed(rows, parsed.names)
