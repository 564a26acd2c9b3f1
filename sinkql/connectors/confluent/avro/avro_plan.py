"""FORMAT AVRO USING → the columns that the schema has, and the decoder's options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sinkql import logical
from sinkql.connector_api.options import bind
from sinkql.connector_api.planning import FormatPlan, PlanningContext, SourceMessages
from sinkql.connectors.confluent.schema import check_declared, known, registry_options, unusable


@dataclass(frozen=True, slots=True)
class InlineOptions:
    """The options of FORMAT AVRO USING SCHEMA: whether a zero and the id of a schema stand before each message."""

    confluent_wire_format: bool = True


def plan(messages: SourceMessages, planning: PlanningContext) -> FormatPlan:
    """Plan the columns of a schema's fields, or those that are declared; raises SQ2413 and SQ248x.

    The options: `schema` and `references` are texts, `wire` tells whether ids stand before messages, `name` what a
    value is called that is no record.
    """
    registry = registry_options(messages, planning)
    schema = known(messages)
    given = messages.format.schema
    wire = True
    if given is not None and given.registry is None:
        wire = bind(given.options, InlineOptions, owner="schemas in statements", span=given.span).confluent_wire_format
    name = "key" if messages.part == "key" else "data"
    references = list(schema.references.values())
    options: dict[str, Any] = {"schema": schema.text, "references": references, "wire": wire, "name": name}
    columns = _columns(messages, options)
    options |= registry
    if not messages.columns:
        return FormatPlan(options, columns)
    check_declared(messages, columns)
    return FormatPlan(options)


def _columns(messages: SourceMessages, options: dict[str, Any]) -> tuple[logical.Column, ...]:
    """Return the columns of the schema; with ENVELOPE DEBEZIUM of the rows in it."""
    from sinkql.connectors.confluent.avro.columns import columns_of, rows_of  # fastavro, only where it is planned
    from sinkql.connectors.confluent.avro.resolution import parse

    try:
        parsed = parse(options["schema"], options["references"]).as_record(options["name"])
        if messages.part == "value" and messages.statement.envelope == "DEBEZIUM":
            parsed = rows_of(parsed)
        return columns_of(parsed)
    except ValueError as error:
        raise unusable(messages, error) from None
