"""Plan and open FORMAT JSON, CSV, TEXT and BYTES of messages, for sources and sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sinkql import codec, logical, physical
from sinkql.connector_api.planning import FormatPlan, MessageFormat, MessageWriting, PlanningContext, SourceMessages
from sinkql.connector_api.stream import (
    ChangeDecoder,
    Context,
    MessageDecoder,
    MessageDecoding,
    MessageEncoder,
    MessageEncoding,
)
from sinkql.connectors.kafka.sink.plan import plan_bytes, plan_json, plan_text
from sinkql.decode.columns import check_names
from sinkql.decode.csv_options import CsvOptions, csv_form
from sinkql.errors import SinkqlError


def _plan_json(messages: SourceMessages, planning: PlanningContext) -> FormatPlan:
    """Plan the members of objects by name, or one column for the whole value without declared columns."""
    if messages.format.array:
        raise SinkqlError(
            "SQ2902",
            "FORMAT JSON ARRAY for messages is not supported yet",
            messages.format.span,
            hint="Write FORMAT JSON: each message is one JSON value.",
        )
    if messages.columns:
        return FormatPlan({"whole": False})
    if messages.part == "value" and messages.statement.envelope == "DEBEZIUM":
        raise SinkqlError(
            "SQ2413",
            "ENVELOPE DEBEZIUM of JSON requires a list of columns",
            messages.format.span,
            hint="Declare the columns of the table: CREATE SOURCE s (id bigint, name text, PRIMARY KEY (id) NOT "
            "ENFORCED) FROM KAFKA ….",
        )
    return FormatPlan({"whole": True}, (_column(messages, "data", "jsonb"),))


def _plan_text(messages: SourceMessages, planning: PlanningContext) -> FormatPlan:
    """Plan one column: the declared one, or `text`."""
    return _single(messages, "text", "text")


def _plan_bytes(messages: SourceMessages, planning: PlanningContext) -> FormatPlan:
    """Plan one column `data` of type bytea."""
    planned = _single(messages, "data", "bytea")
    wrong = next((column for column in messages.columns if column.type.name != "bytea"), None)
    if wrong is not None:
        raise SinkqlError(
            "SQ2470",
            f'FORMAT BYTES returns bytea, but column "{wrong.name}" is declared as {wrong.type}',
            messages.format.span,
            hint="Declare the column as bytea, or write FORMAT TEXT.",
        )
    return planned


def _single(messages: SourceMessages, name: str, type_: str) -> FormatPlan:
    if len(messages.columns) > 1:
        raise SinkqlError(
            "SQ2470",
            f"FORMAT {messages.format.name} returns one column, but {len(messages.columns)} are declared",
            messages.format.span,
            hint="Declare one column, or write FORMAT JSON or FORMAT CSV WITH n COLUMNS.",
        )
    return FormatPlan({}, None if messages.columns else (_column(messages, name, type_),))


def _plan_csv(messages: SourceMessages, planning: PlanningContext) -> FormatPlan:
    """Plan fields by position: the declared columns, or the format's number of text columns."""
    format_ = messages.format
    if format_.header or format_.names:
        raise SinkqlError(
            "SQ2471",
            "CSV messages have no header",
            format_.span,
            hint="Write FORMAT CSV WITH 3 COLUMNS, or declare the columns and write FORMAT CSV.",
        )
    options = {"header": False, **csv_form(format_, owner="CSV messages")}
    if messages.columns:
        if format_.column_count not in (None, len(messages.columns)):
            raise SinkqlError(
                "SQ2470",
                f"FORMAT CSV has {format_.column_count} columns, but {len(messages.columns)} are declared",
                format_.span,
                hint="Write FORMAT CSV without a number: it is the number of the declared columns.",
            )
        return FormatPlan(options)
    check_names(format_.names)
    count = format_.column_count
    if count is None:
        raise SinkqlError(
            "SQ2413",
            "a CSV source requires a list of columns",
            format_.span,
            hint="Write FORMAT CSV WITH 3 COLUMNS, or declare the columns of the source.",
        )
    prefix = "key" if messages.part == "key" else "column"
    names = [f"{prefix}{index + 1}" for index in range(count)]
    return FormatPlan(options, tuple(logical.Column(name, logical.Type("text")) for name in names))


@dataclass(frozen=True, slots=True)
class _JsonOptions:
    """The options of FORMAT JSON: whether a value is one column."""

    whole: bool


@dataclass(frozen=True, slots=True)
class _SingleOptions:
    """The options of FORMAT TEXT and FORMAT BYTES in sinks."""

    part: Literal["key", "value"]


def _column(messages: SourceMessages, name: str, type_: str) -> logical.Column:
    return logical.Column("key" if messages.part == "key" else name, logical.Type(type_))


def _open_json(options: Mapping[str, Any], columns: Sequence[physical.Column], context: Context) -> MessageDecoder:
    from sinkql.decode.messages import JsonMessages  # imports pyarrow

    return JsonMessages(tuple(columns), codec.convert(options, _JsonOptions).whole)


def _open_json_changes(
    options: Mapping[str, Any], columns: Sequence[physical.Column], key: Sequence[str], context: Context
) -> ChangeDecoder:
    from sinkql.decode.debezium import JsonChanges

    return JsonChanges(tuple(columns), tuple(key))


def _open_csv(options: Mapping[str, Any], columns: Sequence[physical.Column], context: Context) -> MessageDecoder:
    from sinkql.decode.messages import CsvMessages

    return CsvMessages(options, tuple(columns))


def _open_text(options: Mapping[str, Any], columns: Sequence[physical.Column], context: Context) -> MessageDecoder:
    from sinkql.decode.messages import TextMessages

    return TextMessages(columns[0])


def _open_bytes(options: Mapping[str, Any], columns: Sequence[physical.Column], context: Context) -> MessageDecoder:
    from sinkql.decode.messages import BytesMessages

    return BytesMessages(columns[0])


def _write_json(options: Mapping[str, Any], columns: Sequence[physical.Column], context: Context) -> MessageEncoder:
    from sinkql.connectors.kafka.sink.encode import JsonRows

    return JsonRows(tuple(columns))


def _write_text(options: Mapping[str, Any], columns: Sequence[physical.Column], context: Context) -> MessageEncoder:
    from sinkql.connectors.kafka.sink.encode import TextRows

    return TextRows(columns[0], _null(options))


def _write_bytes(options: Mapping[str, Any], columns: Sequence[physical.Column], context: Context) -> MessageEncoder:
    from sinkql.connectors.kafka.sink.encode import BytesRows

    return BytesRows(columns[0], _null(options))


def _null(options: Mapping[str, Any]) -> bytes | None:
    """Return the bytes of NULL: a message without a value would delete its row."""
    return None if codec.convert(options, _SingleOptions).part == "key" else b""


FORMATS = (
    MessageFormat(
        "JSON",
        _plan_json,
        MessageDecoding(_open_json, _open_json_changes),
        writing=MessageWriting(plan_json, MessageEncoding(_write_json)),
    ),
    MessageFormat("CSV", _plan_csv, MessageDecoding(_open_csv), options=CsvOptions),
    MessageFormat(
        "TEXT",
        _plan_text,
        MessageDecoding(_open_text),
        writing=MessageWriting(plan_text, MessageEncoding(_write_text)),
    ),
    MessageFormat(
        "BYTES",
        _plan_bytes,
        MessageDecoding(_open_bytes),
        writing=MessageWriting(plan_bytes, MessageEncoding(_write_bytes)),
    ),
)
