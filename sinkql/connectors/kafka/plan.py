"""Plan CREATE SOURCE … FROM KAFKA: the columns of key, value and metadata, and the reader's options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal

from sinkql import ast, logical
from sinkql.connector_api.options import bind, option_field, option_span
from sinkql.connector_api.planning import (
    FormatPlan,
    MessageFormat,
    OutsideAccess,
    PlanningContext,
    SourceMessages,
    SourcePlan,
)
from sinkql.connector_api.source_options import OnErrorOptions
from sinkql.connector_api.types import parse_type
from sinkql.connectors.kafka.connection import KIND
from sinkql.decode.columns import check_names, check_primary_key, declared
from sinkql.errors import SinkqlError, Span
from sinkql.machine import clock

OWNER = "sources from Kafka"
_HEADERS = parse_type("record(key text,value bytea) list")
_METADATA = {
    "PARTITION": logical.Type("integer"),
    "OFFSET": logical.Type("bigint"),
    "TIMESTAMP": logical.Type("timestamp"),
    "HEADERS": _HEADERS,
}
_ERROR = parse_type("record(description text)")
_ONE_COLUMN = ("JSON", "TEXT", "BYTES")


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """The options of FROM KAFKA CONNECTION."""

    topic: str = option_field("the name of the topic")
    start_offset: tuple[int, ...] = option_field("the first offset of each partition, as `(0, 10, 100)`", default=())
    start_timestamp: int | None = option_field(
        "the first time, in milliseconds since 1970; negative numbers count back from now",
        default=None,
    )
    group_id_prefix: str | None = option_field("the prefix of the consumer group id", default=None)
    topic_metadata_refresh_interval: timedelta = option_field(
        "how often to look for new partitions", default=timedelta(seconds=60)
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """The planned format of keys or values, with its columns."""

    kind: MessageFormat
    planned: FormatPlan
    columns: tuple[logical.Column, ...]
    format: ast.Format

    def as_plan(self) -> dict[str, Any]:
        return {"format": self.kind.name, **self.planned.options, "columns": [column.name for column in self.columns]}


def plan(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
    """Plan a source of a topic: append-only rows, or rows that later messages of their key overwrite."""
    options = _options(statement, planning)
    with_options = bind(statement.with_options, OnErrorOptions, owner=OWNER, span=statement.kind_span)
    envelope = _envelope(statement)
    _check_key(statement, envelope)
    _check_changes(statement, planning)
    key, value = _parts(statement, options.topic, facts, planning)
    columns = _ordered(statement, key, value, upsert=envelope != "none")
    error = _inline_error(statement)
    if error is not None:
        columns = tuple(replace(column, nullable=column.nullable or column in value.columns) for column in columns)
        columns = (*columns, error)
    included = tuple(_included(statement))
    columns = (*columns, *(column for column, _ in included))
    check_names([ast.Ident(column.name, _include_span(statement, column.name)) for column in columns])
    keys = _key_names(statement, key, value, columns, envelope)
    if envelope != "none":
        columns = tuple(replace(column, nullable=column.nullable and column.name not in keys) for column in columns)
    planned: dict[str, Any] = {
        "topic": options.topic,
        "envelope": envelope,
        "value": value.as_plan(),
        "include": {column.name: data for column, data in included},
        "tuning": {
            "on_error": with_options.on_error.lower(),
            "refresh_s": options.topic_metadata_refresh_interval.total_seconds(),
            "group": options.group_id_prefix or "",
        },
    }
    if key is not None:
        planned["key"] = key.as_plan()
    if error is not None:
        planned["error"] = error.name
    if "start" in facts:
        planned["start"] = facts["start"]
    elif options.start_offset:
        planned["start"] = {str(partition): offset for partition, offset in enumerate(options.start_offset)}
    change = logical.Change.APPEND if envelope == "none" else logical.Change.UPSERT
    return SourcePlan(planned, logical.Shape(columns, (frozenset(keys),) if keys else (), change))


def topic_facts(statement: ast.CreateSource, planning: PlanningContext, access: OutsideAccess) -> logical.Facts:
    """Check that the topic exists, and return the offsets of START TIMESTAMP."""
    from sinkql.connectors.kafka.admin import admin_of, missing_topic_error  # imports the client library
    from sinkql.connectors.kafka.client import Client

    options = _options(statement, planning)
    name = _connection_name(statement)
    connection = planning.connection(name, KIND)
    client = Client.planned(connection, access)
    try:
        admin = admin_of(client)
        topic = admin.topic(options.topic)
        if topic is None:
            raise missing_topic_error(client, options.topic)
        _check_offsets(options, len(topic.partitions))
        facts: dict[str, Any] = {}
        if options.start_timestamp is not None:
            at = options.start_timestamp
            at += clock.time_ms() if at < 0 else 0
            starts = admin.at_time(topic.name, topic.partitions, max(at, 0))
            facts["start"] = {str(partition): offset for partition, offset in starts.items()}
    except SinkqlError as error:
        if error.span is None:
            error.span = name.span
            if error.option is not None:
                error.span = option_span(statement.options, error.option, statement.kind_span)
        raise
    return facts


def _check_offsets(options: TopicOptions, partitions: int) -> None:
    """Raise SQ4279 for offsets of partitions that the topic does not have, which would have no effect."""
    offset_count = len(options.start_offset)
    if offset_count > partitions:
        count = "1 partition" if partitions == 1 else f"{partitions} partitions"
        raise SinkqlError(
            "SQ4279",
            f'START OFFSET has {offset_count} offsets, but topic "{options.topic}" has {count}',
            hint="Write one offset for each partition; partitions that are added later are read from their beginning.",
            option="START OFFSET",
        )


def ask_formats(statement: ast.CreateSource, planning: PlanningContext, access: OutsideAccess | None) -> logical.Facts:
    """Return what the formats need to know for planning: schemas in a registry."""
    options = _options(statement, planning)
    _check_key(statement, _envelope(statement))
    _check_changes(statement, planning)
    facts: dict[str, Any] = {}
    for part, format_, kind in _formats(statement, planning):
        if kind.facts is not None and access is not None:
            facts[part] = kind.facts(SourceMessages(part, options.topic, statement, format_, ()), planning, access)
    return facts


def _connection_name(statement: ast.CreateSource) -> ast.Name:
    """Return the name of the connection. Raise SQ2472 without one."""
    if statement.connection is None:
        raise SinkqlError(
            "SQ2472",
            f"{OWNER} require a connection",
            statement.kind_span,
            hint="Write FROM KAFKA CONNECTION name (TOPIC '…'), after CREATE CONNECTION name TO KAFKA (…).",
        )
    return statement.connection


def _options(statement: ast.CreateSource, planning: PlanningContext) -> TopicOptions:
    planning.connection(_connection_name(statement), KIND)
    options = bind(
        statement.options,
        TopicOptions,
        owner=OWNER,
        span=statement.kind_span,
        ignore=("START OFFSET", "START TIMESTAMP"),
    )
    offsets = _start_offsets(statement)
    at = _start_timestamp(statement)
    if offsets and at is not None:
        span = option_span(statement.options, "START TIMESTAMP", statement.kind_span)
        message = "START OFFSET and START TIMESTAMP cannot be combined"
        raise SinkqlError("SQ2473", message, span, hint="Keep one of them.")
    refresh = options.topic_metadata_refresh_interval
    if not timedelta(seconds=1) <= refresh <= timedelta(hours=1):
        raise SinkqlError(
            "SQ2309",
            "TOPIC METADATA REFRESH INTERVAL must be from 1 second to 1 hour",
            option_span(statement.options, "TOPIC METADATA REFRESH INTERVAL", statement.kind_span),
            hint="Write TOPIC METADATA REFRESH INTERVAL = '60s'.",
        )
    return replace(options, start_offset=offsets, start_timestamp=at)


def _start_offsets(statement: ast.CreateSource) -> tuple[int, ...]:
    option = _single_option(statement, "START OFFSET")
    if option is None:
        return ()
    items = option.value.items if isinstance(option.value, ast.Sequence) else (option.value,)
    numbers = [item.text for item in items if isinstance(item, ast.Number) and item.text.isdecimal()]
    if not items or len(numbers) < len(items):
        raise SinkqlError(
            "SQ2103",
            "option START OFFSET takes a list of whole numbers",
            option.value.span if option.value is not None else option.name_span,
            hint="Write START OFFSET = (0, 10, 100), one offset for each partition.",
        )
    return tuple(map(int, numbers))


def _start_timestamp(statement: ast.CreateSource) -> int | None:
    option = _single_option(statement, "START TIMESTAMP")
    if option is None:
        return None
    if isinstance(option.value, ast.Number) and option.value.text.removeprefix("-").isdecimal():
        return int(option.value.text)
    raise SinkqlError(
        "SQ2103",
        "option START TIMESTAMP takes a whole number of milliseconds",
        option.value.span if option.value is not None else option.name_span,
        hint="Write START TIMESTAMP = 1767225600000.",
    )


def _single_option(statement: ast.CreateSource, name: str) -> ast.Option | None:
    options = [option for option in statement.options if option.name == name]
    if len(options) > 1:
        raise SinkqlError("SQ2102", f"option {name} is specified twice", options[1].name_span, hint="Keep one of them.")
    return options[0] if options else None


def _envelope(statement: ast.CreateSource) -> str:
    envelope = (statement.envelope or "NONE").lower()
    if envelope == "materialize":
        raise SinkqlError(
            "SQ2973",
            "ENVELOPE MATERIALIZE is not supported yet",
            statement.kind_span,
            hint="Use ENVELOPE NONE, ENVELOPE UPSERT or ENVELOPE DEBEZIUM.",
        )
    return envelope


def _formats(
    statement: ast.CreateSource, planning: PlanningContext
) -> list[tuple[Literal["key", "value"], ast.Format, MessageFormat]]:
    """Return the format of values, and that of keys if keys are read."""
    if statement.format is None:
        raise SinkqlError(
            "SQ2410",
            f"{OWNER} require a FORMAT",
            statement.kind_span,
            hint="Add FORMAT JSON, FORMAT TEXT, FORMAT BYTES or FORMAT CSV WITH 3 COLUMNS.",
        )
    value = planning.message_format(statement.format)
    formats: list[tuple[Literal["key", "value"], ast.Format, MessageFormat]] = [("value", statement.format, value)]
    key = statement.key_format or (statement.format if value.keyed else None)
    if key is not None and _reads_keys(statement):
        formats.append(("key", key, planning.message_format(key)))
    return formats


def _reads_keys(statement: ast.CreateSource) -> bool:
    return statement.envelope in ("UPSERT", "DEBEZIUM") or any(include.name == "KEY" for include in statement.include)


def _check_key(statement: ast.CreateSource, envelope: str) -> None:
    include = next((item for item in statement.include if item.name == "KEY"), None)
    if include is not None and envelope != "none" and statement.primary_key:
        raise SinkqlError(
            "SQ2474",
            "INCLUDE KEY and PRIMARY KEY cannot be combined",
            include.span,
            hint="Leave out INCLUDE KEY: the columns of PRIMARY KEY are the key.",
        )
    if include is not None and envelope == "debezium":
        hint = "Leave out INCLUDE KEY: the rows contain the key's columns."
        raise SinkqlError("SQ2474", "ENVELOPE DEBEZIUM does not support INCLUDE KEY", include.span, hint=hint)


def _check_changes(statement: ast.CreateSource, planning: PlanningContext) -> None:
    """Raise SQ2476 for ENVELOPE DEBEZIUM with a format that does not support it, before a registry is asked."""
    if statement.envelope != "DEBEZIUM" or statement.format is None:
        return
    format_ = planning.message_format(statement.format)
    if format_.decoding.changes is None:
        raise SinkqlError(
            "SQ2476",
            f"FORMAT {format_.name} does not support ENVELOPE DEBEZIUM",
            statement.format.span,
            hint="Configure Debezium to write JSON or Avro, and write FORMAT JSON or FORMAT AVRO here.",
        )


def _parts(
    statement: ast.CreateSource, topic: str, facts: logical.Facts, planning: PlanningContext
) -> tuple[_Part | None, _Part]:
    """Plan the formats of key and value, each with its declared columns."""
    formats = {part: (format_, kind) for part, format_, kind in _formats(statement, planning)}
    columns = _declared(statement)
    upsert = statement.envelope in ("UPSERT", "DEBEZIUM")
    primary = {ident.value for ident in statement.primary_key}
    of_key = tuple(column for column in columns if column.name in primary) if upsert else ()
    of_value = columns
    if statement.envelope == "UPSERT":
        of_value = tuple(column for column in columns if column.name not in primary)
    key = None
    if "key" in formats:
        key = _part("key", formats["key"], of_key, statement, topic, facts, planning)
        include = next((item for item in statement.include if item.name == "KEY"), None)
        if include is not None and include.alias is not None and len(key.columns) == 1:
            key = replace(key, columns=(replace(key.columns[0], name=include.alias.value),))
    elif _reads_keys(statement) and not (statement.envelope == "DEBEZIUM" and primary):
        clause = f"ENVELOPE {statement.envelope}" if upsert else "INCLUDE KEY"
        format_, _ = formats["value"]
        raise SinkqlError(
            "SQ2475",
            f"{clause} requires the format of the keys",
            format_.span,
            hint="Declare PRIMARY KEY (…) NOT ENFORCED after the columns: CREATE SOURCE s (id bigint, name text, "
            "PRIMARY KEY (id) NOT ENFORCED) FROM KAFKA …."
            if statement.envelope == "DEBEZIUM"
            else f"Write KEY FORMAT TEXT VALUE FORMAT {format_.name}, or the format that the keys have.",
        )
    return key, _part("value", formats["value"], of_value, statement, topic, facts, planning)


def _part(
    part: Literal["key", "value"],
    parsed: tuple[ast.Format, MessageFormat],
    columns: tuple[logical.Column, ...],
    statement: ast.CreateSource,
    topic: str,
    facts: logical.Facts,
    planning: PlanningContext,
) -> _Part:
    format_, kind = parsed
    renamed = part == "value" and _renames(statement, kind.name)
    messages = SourceMessages(part, topic, statement, format_, () if renamed else columns, facts.get(part, {}))
    planned = kind.plan(messages, planning)
    part_columns = columns if planned.columns is None else planned.columns
    if renamed:
        (column,) = part_columns
        part_columns = (
            logical.Column(statement.columns[0].name.value, column.type, not statement.columns[0].not_null),
        )
    return _Part(kind, planned, part_columns, format_)


def _renames(statement: ast.CreateSource, format_: str) -> bool:
    """Return whether the only declared column has no type: the declaration renames the format's column."""
    return format_ in _ONE_COLUMN and len(statement.columns) == 1 and statement.columns[0].type is None


def _declared(statement: ast.CreateSource) -> tuple[logical.Column, ...]:
    columns = declared(statement.columns, owner=OWNER)
    check_primary_key(statement, [column.name for column in columns])
    return columns


def _ordered(
    statement: ast.CreateSource, key: _Part | None, value: _Part, *, upsert: bool
) -> tuple[logical.Column, ...]:
    """Return the columns of key and value; declared columns are in the order of the statement."""
    if statement.envelope == "DEBEZIUM" or key is None:
        return value.columns
    if upsert and statement.primary_key:
        by_name = {column.name: column for column in (*key.columns, *value.columns)}
        order = [declaration.name.value for declaration in statement.columns]
        return tuple(
            sorted(by_name.values(), key=lambda column: order.index(column.name) if column.name in order else -1)
        )
    return (*key.columns, *value.columns)


def _inline_error(statement: ast.CreateSource) -> logical.Column | None:
    inline_errors = statement.inline_errors
    if inline_errors is None:
        return None
    return logical.Column(inline_errors.alias.value if inline_errors.alias is not None else "error", _ERROR)


def _included(statement: ast.CreateSource) -> list[tuple[logical.Column, dict[str, Any]]]:
    """Return the columns that INCLUDE adds after key and value, and the options of each (`options.Metadata`)."""
    columns = []
    for include in statement.include:
        if include.name == "KEY":
            continue
        name = include.alias.value if include.alias is not None else include.name.lower()
        data: dict[str, Any] = {"part": include.name.lower()}
        if include.name == "HEADER":
            data |= {"name": include.header, "binary": include.binary}
            type_ = logical.Type("bytea" if include.binary else "text")
        else:
            type_ = _METADATA[include.name]
        columns.append((logical.Column(name, type_, include.name not in ("PARTITION", "OFFSET")), data))
    return columns


def _include_span(statement: ast.CreateSource, name: str) -> Span:
    """Return the span of the clause that names a column."""
    for include in statement.include:
        if name == (include.alias.value if include.alias is not None else include.name.lower()):
            return include.span
    for column in statement.columns:
        if column.name.value == name:
            return column.span
    return statement.kind_span


def _key_names(
    statement: ast.CreateSource, key: _Part | None, value: _Part, columns: Sequence[logical.Column], envelope: str
) -> tuple[str, ...]:
    """Return the columns of the key; none if the rows have no key."""
    if statement.primary_key:
        return tuple(ident.value for ident in statement.primary_key)
    if envelope == "none" or key is None:
        return ()
    names = {column.name for column in columns}
    missing = [column.name for column in key.columns if column.name not in names]
    if missing:
        raise SinkqlError(
            "SQ2477",
            f'the rows have no column "{missing[0]}", which is in the key',
            value.format.span,
            hint=f"Declare PRIMARY KEY (…) NOT ENFORCED with the columns that are the key of {statement.name.text}.",
        )
    return tuple(column.name for column in key.columns)
