"""CREATE SINK … INTO KAFKA → the formats of keys and values, and the writer's options.

The planned options, which `physical.Write.options` carries: `topic`; `partitions`, `replication` and `config` of a
topic that the sink makes; `key_format` and `key_options` if there is a key, `value_format` and `value_options`; `row`,
with ENVELOPE DEBEZIUM the type of a whole row; `headers`, a column; `partition_by`, a tree and its columns;
`compression`; `refresh_ms`; `transactional_id` and `group`, what ids begin with; `progress_topic` and
`progress_replication`; `letters`, where they are of the topic beside the sink's.
What is left out is as usual.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

import msgspec

from sinkql import ast, logical, physical
from sinkql.connector_api.options import bind, option_field, option_span
from sinkql.connector_api.planning import OutsideAccess, PlanningContext, SinkMessages, SinkPlan
from sinkql.connector_api.sink_options import SinkOptions
from sinkql.connectors.kafka.connection import KIND
from sinkql.connectors.kafka.sink.partition import OPTION, plan_partition
from sinkql.errors import SinkqlError, Span
from sinkql.logical.type import Field, parse_type, record_type

OWNER = "sinks into Kafka"
AT_CREATION = ("SNAPSHOT",)
_LATER = ("LEGACY IDS",)
_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_OF_BOTH = ("replication", "compression", "transactional_id", "group", "progress_topic", "progress_replication")
_LARGE = str(8 << 20)
"""Of a topic of letters: a record is twice as large in them, as its bytes are written in hexadecimal digits."""
_REFRESH = "TOPIC METADATA REFRESH INTERVAL"
_MOST = {"TOPIC PARTITION COUNT": 2**31 - 1, "TOPIC REPLICATION FACTOR": 2**15 - 1}
"""What the protocol has room for; brokers refuse far less."""
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
    """What WITH (…) says."""

    commit_interval: timedelta = option_field("the time between two transactions", default=timedelta(seconds=1))


def plan_sink(
    statement: ast.CreateSink, shape: logical.Shape, facts: logical.Facts, planning: PlanningContext
) -> SinkPlan:
    """Bind the options, and plan the formats; raises SQ21xx, SQ2360 to SQ2368 and SQ2995."""
    for option in statement.options:
        if option.name in _LATER and option.value != ast.Boolean(value=False):
            message = f"{option.name} of {OWNER} is not supported yet"
            raise SinkqlError("SQ2995", message, option.span, hint="Leave it out.")
    given = [option for option in statement.options if not _as_usual(option)]
    options = bind(given, TopicOptions, owner=OWNER, span=statement.kind_span, ignore=(OPTION,))
    partition_by = _only([option for option in given if option.name == OPTION])
    _check_topic(statement, options)
    refresh = _refresh(statement, options)
    common = bind(statement.with_options, KafkaSinkOptions, owner=OWNER, span=statement.kind_span)
    connection = planning.connection(statement.connection, KIND)
    if options.topic == connection.options["progress_topic"]:
        raise SinkqlError(
            "SQ2361",
            f'topic "{options.topic}" is the one in which sinks of the connection keep how far they are',
            option_span(statement.options, "TOPIC", statement.kind_span),
            hint="Write to another topic, or name another PROGRESS TOPIC in CREATE CONNECTION.",
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
        "progress_topic": connection.options["progress_topic"],
        "progress_replication": connection.options.get("progress_replication"),
    }
    return SinkPlan({name: value for name, value in planned.items() if value is not None}, shape.columns, common)


def _only(given: Sequence[ast.Option]) -> ast.Option | None:
    if len(given) > 1:
        message = f"option {given[1].name} is given twice"
        raise SinkqlError("SQ2102", message, given[1].name_span, hint="Keep one of them.")
    return given[0] if given else None


def _as_usual(option: ast.Option) -> bool:
    """Tell whether a count is -1: as the brokers have it."""
    count = option.name in ("TOPIC PARTITION COUNT", "TOPIC REPLICATION FACTOR")
    return count and isinstance(option.value, ast.Number) and option.value.text == "-1"


def letters(write: physical.Write, columns: Sequence[physical.Column]) -> physical.Write:
    """Return what writes the records that a sink's sources could not decode: as JSON to the topic `<topic>__errors`."""
    kept = {name: write.options[name] for name in _OF_BOTH if name in write.options}
    form: dict[str, Any] = {"value_format": "JSON", "value_options": {}, "config": {"max.message.bytes": _LARGE}}
    return msgspec.structs.replace(
        write,
        input=physical.Read("letters", "", {}, tuple(columns)),
        columns=tuple(columns),
        mode="append",
        change="append",
        key=(),
        proven=False,
        options={**kept, **form, "topic": f"{write.options['topic']}__errors", "letters": True},
    )


def find(
    statement: ast.CreateSink, sink: logical.Sink, access: OutsideAccess, *, job: physical.Job | None = None
) -> logical.Facts:
    """Look whether the brokers answer; nothing is kept."""
    from sinkql.connectors.kafka.admin import admin_of  # the client library, only where it is used
    from sinkql.connectors.kafka.client import Client

    connection = access.connection(sink.connection)
    try:
        admin_of(Client.planned(connection, access)).check()
    except SinkqlError as error:
        error.span = error.span or statement.connection.span
        raise
    return {}


def destination(sink: logical.Sink) -> logical.Destination:
    """Return the topic, into which other sinks may write as well."""
    return logical.Destination("topic", (sink.options["topic"],))


def _check_topic(statement: ast.CreateSink, options: TopicOptions) -> None:
    """Refuse what Kafka takes for no name of a topic, and counts of 0 (SQ2361)."""
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
    """Return the interval in milliseconds; SQ2309 where it is not from a second to an hour."""
    found = options.topic_metadata_refresh_interval
    if found is None or timedelta(seconds=1) <= found <= timedelta(hours=1):
        return None if found is None else found // timedelta(milliseconds=1)
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
        given = statement.key_format or statement.format
        planned |= _planned(SinkMessages("key", topic, statement, given, columns, names, comments), planning)
    values = shape.columns
    row = record_type(Field(each.name, each.type, nullable=each.nullable) for each in values)
    debezium = statement.mode is not None and statement.mode.mode == "debezium"
    if debezium:
        planned["row"] = str(row)
        values = (logical.Column("before", row), logical.Column("after", row))
    return planned | _planned(
        SinkMessages("value", topic, statement, statement.format, values, names, comments), planning
    )


def _planned(encoded: SinkMessages, planning: PlanningContext) -> dict[str, Any]:
    kind = planning.message_format(encoded.format)
    if kind.writing is None:
        raise SinkqlError(
            "SQ2363",
            f"{OWNER} do not write FORMAT {kind.name}",
            encoded.format.span,
            hint="Write FORMAT JSON, AVRO, TEXT or BYTES.",
        )
    options = dict(kind.writing.plan(encoded, planning))
    return {f"{encoded.part}_format": kind.name, f"{encoded.part}_options": options}


def one_column(encoded: SinkMessages) -> logical.Column:
    """Return the only column of what is written as it is; SQ2364 where there are several."""
    if len(encoded.columns) == 1 and not encoded.columns[0].type.nested:
        return encoded.columns[0]
    debezium = encoded.statement.mode is not None and encoded.statement.mode.mode == "debezium"
    held = "an array, a record or a map" if len(encoded.columns) == 1 else f"{len(encoded.columns)} columns"
    held = "before and after" if debezium and encoded.part == "value" else held
    part = encoded.part.upper()
    raise SinkqlError(
        "SQ2364",
        f"FORMAT {encoded.format.name} writes one value, and the {encoded.part} has {held}",
        encoded.format.span,
        hint="Write FORMAT JSON." if encoded.statement.key_format is None else f"Write {part} FORMAT JSON.",
    )


def plan_json(encoded: SinkMessages, planning: PlanningContext) -> Mapping[str, Any]:
    """Plan objects of all columns."""
    if encoded.format.array:
        hint = "Write FORMAT JSON: each message is an object."
        raise SinkqlError("SQ2363", f"{OWNER} do not write FORMAT JSON ARRAY", encoded.format.span, hint=hint)
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
            f'FORMAT BYTES writes bytea, and column "{column.name}" has type {column.type}',
            encoded.format.span,
            hint="Write FORMAT TEXT.",
        )
    return {"part": encoded.part}


def encoded(
    write: physical.Write, part: Literal["key", "value"]
) -> tuple[str, Mapping[str, Any], tuple[physical.Column, ...]] | None:
    """Return the format of keys or values, its options, and the columns that it writes; None for keys without KEY."""
    columns = write.columns
    if part == "key":
        if not write.key:
            return None
        by_name = {column.name: column for column in columns}
        columns = tuple(by_name[name] for name in write.key)
    elif write.mode == "debezium":
        row = parse_type(write.options["row"])
        columns = (physical.Column("before", row), physical.Column("after", row))
    return write.options[f"{part}_format"], write.options[f"{part}_options"], columns


def _headers(statement: ast.CreateSink, shape: logical.Shape) -> str | None:
    """Return the column of HEADERS; raises SQ2365 where it is not a map."""
    if statement.headers is None:
        return None
    name = statement.headers.value
    column = next((each for each in shape.columns if each.name == name), None)
    if column is None:
        raise _no_headers(f'column "{name}" of HEADERS does not exist', statement.headers.span)
    if str(column.type) not in _HEADERS:
        raise _no_headers(f'column "{name}" of HEADERS has type {column.type}', statement.headers.span)
    return name


def _no_headers(message: str, span: Span) -> SinkqlError:
    return SinkqlError("SQ2365", message, span, hint="Name a column of type map[text => text] or map[text => bytea].")
