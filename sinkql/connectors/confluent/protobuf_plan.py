"""FORMAT PROTOBUF → the columns of a message, and the decoder's options."""

from __future__ import annotations

from typing import Any

from sinkql.connector_api.planning import FormatPlan, PlanningContext, SourceMessages
from sinkql.connectors.confluent.schema import check_declared, known, registry_options, unusable


def plan(messages: SourceMessages, planning: PlanningContext) -> FormatPlan:
    """Plan the columns of a message's fields, or those that are declared; raises SQ2470, SQ248x and SQ4266.

    The options: `schema` is a text, or descriptors in hexadecimal digits, `references` have names and texts, `message`
    is the name of the type.
    """
    from sinkql.connectors.confluent.protobuf_schema import Types, columns_of, compiled  # only where it is planned

    registry = registry_options(messages, planning)
    schema = known(messages)
    try:
        types = Types(compiled(schema.text, schema.references))
        message = types.at((0,)) if schema.message is None else types.named(schema.message)
        columns = columns_of(message)
    except ValueError as error:
        raise unusable(messages, error) from None
    options: dict[str, Any] = {
        "schema": schema.text,
        "references": [list(each) for each in schema.references.items()],
        "message": str(message.full_name),
        **registry,
    }
    if not messages.columns:
        return FormatPlan(options, columns)
    check_declared(messages, columns)
    return FormatPlan(options)
