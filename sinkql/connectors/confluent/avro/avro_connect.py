"""Avro schemas as Kafka Connect writes them → the same with Avro's own names of dates and times."""

from __future__ import annotations

from typing import Any

from sinkql.decode.avro_schema import ZONED

ConnectSchema = Any  # as JSON has it: a name, a list of branches, or an object

_TIME = "io.debezium.time."
_LOGICAL = {
    ("int", f"{_TIME}Date"): "date",
    ("int", f"{_TIME}Time"): "time-millis",
    ("long", f"{_TIME}MicroTime"): "time-micros",
    ("long", f"{_TIME}Timestamp"): "local-timestamp-millis",
    ("long", f"{_TIME}MicroTimestamp"): "local-timestamp-micros",
    ("long", f"{_TIME}NanoTimestamp"): "local-timestamp-nanos",
    ("string", f"{_TIME}ZonedTimestamp"): ZONED,
}


def named(schema: ConnectSchema) -> ConnectSchema:
    """Return a schema where numbers and texts that Debezium means as dates and times say so."""
    if isinstance(schema, list):
        return [named(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: named(each) if key in ("type", "items", "values") else each for key, each in schema.items()}
    if isinstance(found.get("fields"), list):
        found["fields"] = [named(each) for each in found["fields"]]
    kind, said = found.get("type"), found.get("connect.name")
    if isinstance(kind, str) and isinstance(said, str) and (kind, said) in _LOGICAL:
        found.setdefault("logicalType", _LOGICAL[kind, said])
    return found
