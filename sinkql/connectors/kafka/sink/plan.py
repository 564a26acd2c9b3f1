"""Plan CREATE SINK … INTO KAFKA: the formats of keys and values, and the writer's options (`options.WriteOptions`).

An option without a value is missing in the plan and has its default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from sinkql import ast, logical, physical
from sinkql.connector_api.options import bind, option_field, option_span
from sinkql.connector_api.planning import OutsideAccess, PlanningContext, SinkMessages, SinkPlan
from sinkql.connector_api.sink_options import SinkOptions
from sinkql.connectors.kafka.connection import KIND
from sinkql.connectors.kafka.options import KafkaConnection, WriteOptions
from sinkql.connectors.kafka.sink.partition import OPTION, plan_partition
from sinkql.errors import SinkqlError, Span
from sinkql.logical.type import Field, parse_type, record_type

OWNER = "sinks into Kafka"
AT_CREATION = ("SNAPSHOT",)
_LATER = ("LEGACY IDS",)
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_SHARED = ("replication", "compression", "transactional_id", "group", "progress_topic", "progress_replication")
_LARGE = str(8 << 20)
"""The message limit of a topic of dead letters: a record doubles in size, since its bytes are hexadecimal digits."""
_REFRESH = "TOPIC METADATA REFRESH INTERVAL"
_MOST = {"TOPIC PARTITION COUNT": 2**31 - 1, "TOPIC REPLICATION FACTOR": 2**15 - 1}
"""The limits of the protocol; brokers have far lower ones."""
_HEADERS = ("map[text=>text]", "map[text=>bytea]")


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """The options of INTO KAFKA CONNECTION."""

    topic: str = option_field("the name of the topic; the sink creates it if needed")
    topic_partition_count: int | None = option_field(
        "the partitions of a new topic; the brokers' default otherwise", default=None
    )
    topic_replication_factor: int | None = option_field(
        "the replication factor of a new topic; the brokers' default otherwise", default=None
    )
    topic_config: dict[str, str] = field(default_factory=dict, metadata={"help": "settings of a new topic"})
    compression_type: Literal["NONE", "GZIP", "SNAPPY", "LZ4", "ZSTD"] = option_field(
        "the compression of messages", default="LZ4"
    )
    transactional_id_prefix: str | None = option_field("the prefix of the transactional id", default=None)
    progress_group_id_prefix: str | None = option_field(
        "the prefix of the group id that reads the progress topic", default=None
    )
    partition_by: ast.Expression | None = option_field(
        "the partition of a message, modulo their number; the hash of the key by default",
        default=None,
    )
    legacy_ids: bool = option_field("not supported yet", default=False)
    topic_metadata_refresh_interval: timedelta | None = option_field(
        "how often to look for new partitions; 5 minutes by default", default=None
    )


@dataclass(frozen=True, slots=True)
class KafkaSinkOptions(SinkOptions):
    """The options of WITH (…)."""

    commit_interval: timedelta = option_field("the time between two transactions", default=timedelta(seconds=1))


def plan_sink(
    statement: ast.CreateSink, shape: logical.Shape, facts: logical.Facts, planning: PlanningContext
) -> SinkPlan:
    """Bind the options and plan the formats. Raise SQ21xx, SQ2360 to SQ2368 or SQ2995."""
    for option in statement.options:
        if option.name in _LATER and option.value != ast.Boolean(value=False):
            message = f"{option.name} of {OWNER} is not supported yet"
            raise SinkqlError("SQ2995", message, option.span, hint="Leave it out.")
    options_given = [option for option in statement.options if not _is_default_count(option)]
    options = bind(options_given, TopicOptions, owner=OWNER, span=statement.kind_span, ignore=(OPTION,))
    partition_by = _single_option([option for option in options_given if option.name == OPTION])
    _check_topic(statement, options)
    refresh = _refresh(statement, options)
    common = bind(statement.with_options, KafkaSinkOptions, owner=OWNER, span=statement.kind_span)
    connection = KafkaConnection.from_plan(planning.connection(statement.connection, KIND).options)
    if options.topic == connection.progress_topic:
        raise SinkqlError(
            "SQ2361",
            f'topic "{options.topic}" is the progress topic of the connection',
            option_span(statement.options, "TOPIC", statement.kind_span),
            hint="Write to another topic, or specify another PROGRESS TOPIC in CREATE CONNECTION.",
        )
    planned = {
        "topic": options.topic,
        "partitions": options.topic_partition_count,
        "replication": options.topic_replication_factor,
        "config": dict(options.topic_config) or None,
        **_formats(statement, shape, options.topic, facts.get("comments", {}), planning),
        "headers": _headers(statement, shape),
        "partition_by": plan_partition(partition_by, statement, shape) if partition_by is not None else None,
        "compression": options.compression_type.lower(),
        "refresh_ms": refresh,
        "transactional_id": options.transactional_id_prefix,
        "group": options.progress_group_id_prefix,
        "progress_topic": connection.progress_topic,
        "progress_replication": connection.progress_replication,
    }
    return SinkPlan({name: value for name, value in planned.items() if value is not None}, shape.columns, common)


def _single_option(options: Sequence[ast.Option]) -> ast.Option | None:
    if len(options) > 1:
        message = f"option {options[1].name} is specified twice"
        raise SinkqlError("SQ2102", message, options[1].name_span, hint="Keep one of them.")
    return options[0] if options else None


def _is_default_count(option: ast.Option) -> bool:
    """Return whether an option is a count of -1, which means the default of the brokers."""
    count = option.name in ("TOPIC PARTITION COUNT", "TOPIC REPLICATION FACTOR")
    return count and isinstance(option.value, ast.Number) and option.value.text == "-1"


def dead_letter_write(write: physical.Write, columns: Sequence[physical.Column]) -> physical.Write:
    """Return the write of a sink's dead letters: as JSON into the topic `<topic>__errors`."""
    topic = WriteOptions.from_plan(write.options).topic
    shared = {name: value for name, value in write.options.items() if name in _SHARED}
    form: dict[str, Any] = {"value_format": "JSON", "value_options": {}, "config": {"max.message.bytes": _LARGE}}
    return write.of_dead_letters(columns, {**shared, **form, "topic": f"{topic}__errors", "letters": True})


def check_brokers(
    statement: ast.CreateSink, sink: logical.Sink, access: OutsideAccess, *, job: physical.Job | None = None
) -> logical.Facts:
    """Check that the brokers answer, and return no facts."""
    from sinkql.connectors.kafka.admin import planned_admin  # imports the client library

    connection = access.connection(sink.connection)
    try:
        planned_admin(connection, access).check()
    except SinkqlError as error:
        error.span = error.span or statement.connection.span
        raise
    return {}


def destination(sink: logical.Sink) -> logical.Destination:
    """Return the topic; other sinks may write into it, too."""
    return logical.Destination("topic", (WriteOptions.from_plan(sink.options).topic,))


def _check_topic(statement: ast.CreateSink, options: TopicOptions) -> None:
    """Raise SQ2361 for an invalid name of a topic and for counts out of range."""
    span = option_span(statement.options, "TOPIC", statement.kind_span)
    if _NAME.fullmatch(options.topic) is None or options.topic in (".", ".."):
        raise SinkqlError(
            "SQ2361",
            f'invalid topic "{options.topic}"',
            span,
            hint="Write 1 to 249 letters, digits, dots, underscores and hyphens.",
        )
    for name, value in (
        ("TOPIC PARTITION COUNT", options.topic_partition_count),
        ("TOPIC REPLICATION FACTOR", options.topic_replication_factor),
    ):
        if value is not None and not 0 < value <= _MOST[name]:
            span = option_span(statement.options, name, statement.kind_span)
            message = f"{name} must be at least 1" if not value else f"{name} must be at most {_MOST[name]}"
            raise SinkqlError(
                "SQ2361",
                message,
                span,
                hint=f"Write {name} = {1 if not value else _MOST[name]} or {'more' if not value else 'less'}.",
            )


def _refresh(statement: ast.CreateSink, options: TopicOptions) -> int | None:
    """Return the interval in milliseconds. Raise SQ2309 if it is not from a second to an hour."""
    interval = options.topic_metadata_refresh_interval
    if interval is None or timedelta(seconds=1) <= interval <= timedelta(hours=1):
        return None if interval is None else interval // timedelta(milliseconds=1)
    raise SinkqlError(
        "SQ2309",
        f"{_REFRESH} must be from 1 second to 1 hour",
        option_span(statement.options, _REFRESH, statement.kind_span),
        hint=f"Write {_REFRESH} = '60s'.",
    )


def _formats(
    statement: ast.CreateSink, shape: logical.Shape, topic: str, comments: Mapping[str, str], planning: PlanningContext
) -> dict[str, Any]:
    if statement.format is None:
        raise SinkqlError(
            "SQ2360", f"{OWNER} require a FORMAT", statement.kind_span, hint="Write FORMAT JSON before ENVELOPE."
        )
    if statement.key_format is not None and statement.key is None:
        hint = "Write KEY (…), or FORMAT without KEY FORMAT."
        raise SinkqlError("SQ2362", "KEY FORMAT requires a KEY", statement.key_format.span, hint=hint)
    by_name = {column.name: column for column in shape.columns}
    names = tuple(by_name)
    planned: dict[str, Any] = {}
    if statement.key is not None:
        columns = tuple(by_name[column.value] for column in statement.key.columns)
        key_format = statement.key_format or statement.format
        planned |= _plan_format(SinkMessages("key", topic, statement, key_format, columns, names, comments), planning)
    values = shape.columns
    row = record_type(Field(column.name, column.type, nullable=column.nullable) for column in values)
    debezium = statement.mode is not None and statement.mode.mode == "debezium"
    if debezium:
        planned["row"] = str(row)
        values = (logical.Column("before", row), logical.Column("after", row))
    return planned | _plan_format(
        SinkMessages("value", topic, statement, statement.format, values, names, comments), planning
    )


def _plan_format(encoded: SinkMessages, planning: PlanningContext) -> dict[str, Any]:
    kind = planning.message_format(encoded.format)
    if kind.writing is None:
        raise SinkqlError(
            "SQ2363",
            f"{OWNER} do not support FORMAT {kind.name}",
            encoded.format.span,
            hint="Write FORMAT JSON, AVRO, TEXT or BYTES.",
        )
    options = dict(kind.writing.plan(encoded, planning))
    return {f"{encoded.part}_format": kind.name, f"{encoded.part}_options": options}


def one_column(encoded: SinkMessages) -> logical.Column:
    """Return the single column of a key or value that is written unencoded. Raise SQ2364 if there are several."""
    if len(encoded.columns) == 1 and not encoded.columns[0].type.nested:
        return encoded.columns[0]
    debezium = encoded.statement.mode is not None and encoded.statement.mode.mode == "debezium"
    contents = "an array, a record or a map" if len(encoded.columns) == 1 else f"{len(encoded.columns)} columns"
    contents = "before and after" if debezium and encoded.part == "value" else contents
    part = encoded.part.upper()
    raise SinkqlError(
        "SQ2364",
        f"FORMAT {encoded.format.name} writes one value, but the {encoded.part} has {contents}",
        encoded.format.span,
        hint="Write FORMAT JSON." if encoded.statement.key_format is None else f"Write {part} FORMAT JSON.",
    )


def plan_json(encoded: SinkMessages, planning: PlanningContext) -> Mapping[str, Any]:
    """Plan objects of all columns."""
    if encoded.format.array:
        hint = "Write FORMAT JSON: each message is an object."
        raise SinkqlError("SQ2363", f"{OWNER} do not support FORMAT JSON ARRAY", encoded.format.span, hint=hint)
    return {}


def plan_text(encoded: SinkMessages, planning: PlanningContext) -> Mapping[str, Any]:
    """Plan the text of one column."""
    one_column(encoded)
    return {"part": encoded.part}


def plan_bytes(encoded: SinkMessages, planning: PlanningContext) -> Mapping[str, Any]:
    """Plan the bytes of one column."""
    column = one_column(encoded)
    if column.type.name != "bytea":
        raise SinkqlError(
            "SQ2364",
            f'FORMAT BYTES writes bytea, but column "{column.name}" has type {column.type}',
            encoded.format.span,
            hint="Write FORMAT TEXT.",
        )
    return {"part": encoded.part}


def encoded(
    write: physical.Write, part: Literal["key", "value"]
) -> tuple[str, Mapping[str, Any], tuple[physical.Column, ...]] | None:
    """Return the format of keys or values, its options, and the columns that it writes; None for keys without KEY."""
    options, columns = WriteOptions.from_plan(write.options), write.columns
    if part == "key":
        if not write.key or options.key_format is None:
            return None
        by_name = {column.name: column for column in columns}
        return options.key_format, options.key_options or {}, tuple(by_name[name] for name in write.key)
    if options.row is not None:
        row = parse_type(options.row)
        columns = (physical.Column("before", row), physical.Column("after", row))
    return options.value_format, options.value_options, columns


def _headers(statement: ast.CreateSink, shape: logical.Shape) -> str | None:
    """Return the column of HEADERS. Raise SQ2365 if it is not a map."""
    if statement.headers is None:
        return None
    name = statement.headers.value
    column = next((column for column in shape.columns if column.name == name), None)
    if column is None:
        raise _headers_error(f'column "{name}" of HEADERS does not exist', statement.headers.span)
    if str(column.type) not in _HEADERS:
        raise _headers_error(f'column "{name}" of HEADERS has type {column.type}', statement.headers.span)
    return name


def _headers_error(message: str, span: Span) -> SinkqlError:
    return SinkqlError("SQ2365", message, span, hint="Name a column of type map[text => text] or map[text => bytea].")
