"""CREATE SOURCE … FROM KAFKA → columns of key, value and metadata, and the reader's options."""

from __future__ import annotations

import time
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
from sinkql.decode.columns import check_names, declared
from sinkql.errors import SinkqlError, Span

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
    """A planned format of keys or values, and its columns."""

    kind: MessageFormat
    planned: FormatPlan
    columns: tuple[logical.Column, ...]

    def data(self) -> dict[str, Any]:
        return {"format": self.kind.name, **self.planned.options, "columns": [each.name for each in self.columns]}


def plan(statement: ast.CreateSource, facts: logical.Facts, planning: PlanningContext) -> SourcePlan:
    """Plan a source of a topic: rows that only come, or that are overwritten by their keys."""
    options = _options(statement, planning)
    given = bind(statement.with_options, OnErrorOptions, owner=OWNER, span=statement.kind_span)
    envelope = _envelope(statement)
    _check_key(statement, envelope)
    _check_changes(statement, planning)
    key, value = _parts(statement, options.topic, facts, planning)
    columns = _ordered(statement, key, value, upsert=envelope != "none")
    error = _inline_error(statement)
    if error is not None:
        columns = tuple(replace(each, nullable=each.nullable or each in value.columns) for each in columns)
        columns = (*columns, error)
    included = tuple(_included(statement))
    columns = (*columns, *(column for column, _ in included))
    check_names([ast.Ident(each.name, _include_span(statement, each.name)) for each in columns])
    keys = _key_names(statement, key, columns, envelope)
    if envelope != "none":
        columns = tuple(replace(each, nullable=each.nullable and each.name not in keys) for each in columns)
    planned: dict[str, Any] = {
        "topic": options.topic,
        "envelope": envelope,
        "value": value.data(),
        "include": {column.name: data for column, data in included},
        "tuning": {
            "on_error": given.on_error.lower(),
            "refresh_s": options.topic_metadata_refresh_interval.total_seconds(),
            "group": options.group_id_prefix or "",
        },
    }
    if key is not None:
        planned["key"] = key.data()
    if error is not None:
        planned["error"] = error.name
    if "start" in facts:
        planned["start"] = facts["start"]
    elif options.start_offset:
        planned["start"] = {str(place): offset for place, offset in enumerate(options.start_offset)}
    change = logical.Change.APPEND if envelope == "none" else logical.Change.UPSERT
    return SourcePlan(planned, logical.Shape(columns, (frozenset(keys),) if keys else (), change))


def find(statement: ast.CreateSource, planning: PlanningContext, access: OutsideAccess) -> logical.Facts:
    """Look for the topic, and where START TIMESTAMP is."""
    from sinkql.connectors.kafka.admin import admin_of, gone  # the client library, only where it is used
    from sinkql.connectors.kafka.client import Client

    options = _options(statement, planning)
    assert statement.connection is not None
    connection = planning.connection(statement.connection, KIND)
    client = Client.planned(connection, access)
    try:
        admin = admin_of(client)
        topic = admin.topic(options.topic)
        if topic is None:
            raise gone(client, options.topic)
        _check_offsets(options, len(topic.partitions))
        found: dict[str, Any] = {}
        if options.start_timestamp is not None:
            at = options.start_timestamp
            at += time.time_ns() // 1_000_000 if at < 0 else 0
            starts = admin.at_time(topic.name, topic.partitions, max(at, 0))
            found["start"] = {str(partition): offset for partition, offset in starts.items()}
    except SinkqlError as error:
        if error.span is None:
            error.span = statement.connection.span
            if error.option is not None:
                error.span = option_span(statement.options, error.option, statement.kind_span)
        raise
    return found


def _check_offsets(options: TopicOptions, partitions: int) -> None:
    """Refuse offsets of partitions that the topic does not have, which would count for nothing: SQ4279."""
    given = len(options.start_offset)
    if given > partitions:
        count = "1 partition" if partitions == 1 else f"{partitions} partitions"
        raise SinkqlError(
            "SQ4279",
            f'START OFFSET has {given} offsets, and topic "{options.topic}" has {count}',
            hint="Give an offset for each partition; those that come later are read from their beginning.",
            option="START OFFSET",
        )


def ask_formats(statement: ast.CreateSource, planning: PlanningContext, access: OutsideAccess | None) -> logical.Facts:
    """Let the formats ask for what they must know before anything is planned: schemas in a registry."""
    options = _options(statement, planning)
    _check_key(statement, _envelope(statement))
    _check_changes(statement, planning)
    found: dict[str, Any] = {}
    for part, format_, kind in _formats(statement, planning):
        if kind.facts is not None and access is not None:
            found[part] = kind.facts(SourceMessages(part, options.topic, statement, format_, ()), planning, access)
    return found


def _options(statement: ast.CreateSource, planning: PlanningContext) -> TopicOptions:
    if statement.connection is None:
        raise SinkqlError(
            "SQ2472",
            f"{OWNER} require a connection",
            statement.kind_span,
            hint="Write FROM KAFKA CONNECTION name (TOPIC '…'), with a connection made by CREATE CONNECTION name TO "
            "KAFKA (…).",
        )
    planning.connection(statement.connection, KIND)
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
        message = "START OFFSET and START TIMESTAMP both say where to begin"
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
    option = _once(statement, "START OFFSET")
    if option is None:
        return ()
    items = option.value.items if isinstance(option.value, ast.Sequence) else (option.value,)
    numbers = [each.text for each in items if isinstance(each, ast.Number) and each.text.isdecimal()]
    if not items or len(numbers) < len(items):
        raise SinkqlError(
            "SQ2103",
            "option START OFFSET takes a list of whole numbers",
            option.value.span if option.value is not None else option.name_span,
            hint="Write START OFFSET = (0, 10, 100), an offset for each partition.",
        )
    return tuple(map(int, numbers))


def _start_timestamp(statement: ast.CreateSource) -> int | None:
    option = _once(statement, "START TIMESTAMP")
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


def _once(statement: ast.CreateSource, name: str) -> ast.Option | None:
    given = [option for option in statement.options if option.name == name]
    if len(given) > 1:
        raise SinkqlError("SQ2102", f"option {name} is given twice", given[1].name_span, hint="Keep one of them.")
    return given[0] if given else None


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
    """Return the format of values, and that of keys if these are read."""
    if statement.format is None:
        raise SinkqlError(
            "SQ2410",
            f"{OWNER} require a FORMAT",
            statement.kind_span,
            hint="Add FORMAT JSON, FORMAT TEXT, FORMAT BYTES or FORMAT CSV WITH 3 COLUMNS.",
        )
    value = planning.message_format(statement.format)
    found: list[tuple[Literal["key", "value"], ast.Format, MessageFormat]] = [("value", statement.format, value)]
    key = statement.key_format or (statement.format if value.keyed else None)
    if key is not None and _reads_keys(statement):
        found.append(("key", key, planning.message_format(key)))
    return found


def _reads_keys(statement: ast.CreateSource) -> bool:
    return statement.envelope in ("UPSERT", "DEBEZIUM") or any(each.name == "KEY" for each in statement.include)


def _check_key(statement: ast.CreateSource, envelope: str) -> None:
    include = next((each for each in statement.include if each.name == "KEY"), None)
    if include is not None and envelope != "none" and statement.primary_key:
        raise SinkqlError(
            "SQ2474",
            "INCLUDE KEY and PRIMARY KEY both say what the key is",
            include.span,
            hint="Leave out INCLUDE KEY: the columns of PRIMARY KEY have it.",
        )
    if include is not None and envelope == "debezium":
        hint = "Leave out INCLUDE KEY: the rows have the key's columns."
        raise SinkqlError("SQ2474", "ENVELOPE DEBEZIUM has no INCLUDE KEY", include.span, hint=hint)


def _check_changes(statement: ast.CreateSource, planning: PlanningContext) -> None:
    """Refuse ENVELOPE DEBEZIUM of a format that changes are not read in, before a registry is asked: SQ2476."""
    if statement.envelope != "DEBEZIUM" or statement.format is None:
        return
    format_ = planning.message_format(statement.format)
    if format_.decoding.changes is None:
        raise SinkqlError(
            "SQ2476",
            f"FORMAT {format_.name} has no ENVELOPE DEBEZIUM",
            statement.format.span,
            hint="Have Debezium write JSON or Avro, and write FORMAT JSON or FORMAT AVRO here.",
        )


def _parts(
    statement: ast.CreateSource, topic: str, facts: logical.Facts, planning: PlanningContext
) -> tuple[_Part | None, _Part]:
    """Plan the formats of key and value, each with the declared columns that are its own."""
    formats = {part: (format_, kind) for part, format_, kind in _formats(statement, planning)}
    given = _declared(statement)
    upsert = statement.envelope in ("UPSERT", "DEBEZIUM")
    primary = {each.value for each in statement.primary_key}
    of_key = tuple(each for each in given if each.name in primary) if upsert else ()
    of_value = given
    if statement.envelope == "UPSERT":
        of_value = tuple(each for each in given if each.name not in primary)
    key = None
    if "key" in formats:
        key = _part("key", formats["key"], of_key, statement, topic, facts, planning)
        include = next((each for each in statement.include if each.name == "KEY"), None)
        if include is not None and include.alias is not None and len(key.columns) == 1:
            key = replace(key, columns=(replace(key.columns[0], name=include.alias.value),))
    elif _reads_keys(statement) and not (statement.envelope == "DEBEZIUM" and primary):
        what = f"ENVELOPE {statement.envelope}" if upsert else "INCLUDE KEY"
        assert statement.format is not None
        raise SinkqlError(
            "SQ2475",
            f"{what} requires the format of the keys",
            statement.format.span,
            hint="Declare PRIMARY KEY (…) NOT ENFORCED after the columns: CREATE SOURCE s (id bigint, name text, "
            "PRIMARY KEY (id) NOT ENFORCED) FROM KAFKA …."
            if statement.envelope == "DEBEZIUM"
            else f"Write KEY FORMAT TEXT VALUE FORMAT {statement.format.name}, or what the keys are.",
        )
    return key, _part("value", formats["value"], of_value, statement, topic, facts, planning)


def _part(
    part: Literal["key", "value"],
    found: tuple[ast.Format, MessageFormat],
    columns: tuple[logical.Column, ...],
    statement: ast.CreateSource,
    topic: str,
    facts: logical.Facts,
    planning: PlanningContext,
) -> _Part:
    format_, kind = found
    renamed = part == "value" and _renames(statement, kind.name)
    asked = SourceMessages(part, topic, statement, format_, () if renamed else columns, facts.get(part, {}))
    planned = kind.plan(asked, planning)
    own = columns if planned.columns is None else planned.columns
    if renamed:
        (one,) = own
        own = (logical.Column(statement.columns[0].name.value, one.type, not statement.columns[0].not_null),)
    return _Part(kind, planned, own)


def _renames(statement: ast.CreateSource, format_: str) -> bool:
    """Tell whether the one column that is declared only gives its name."""
    return format_ in _ONE_COLUMN and len(statement.columns) == 1 and statement.columns[0].type is None


def _declared(statement: ast.CreateSource) -> tuple[logical.Column, ...]:
    columns = declared(statement.columns, owner=OWNER)
    names = [each.name for each in columns]
    for ident in statement.primary_key:
        if ident.value not in names:
            raise SinkqlError(
                "SQ2204",
                f'column "{ident.value}" of source "{statement.name.text}" does not exist',
                ident.span,
                hint=f"Its columns are {', '.join(names)}.",
            )
    return columns


def _ordered(
    statement: ast.CreateSource, key: _Part | None, value: _Part, *, upsert: bool
) -> tuple[logical.Column, ...]:
    """Return key, then value; those that are declared in the order of the statement."""
    if statement.envelope == "DEBEZIUM" or key is None:
        return value.columns
    if upsert and statement.primary_key:
        known = {each.name: each for each in (*key.columns, *value.columns)}
        order = [each.name.value for each in statement.columns]
        return tuple(sorted(known.values(), key=lambda each: order.index(each.name) if each.name in order else -1))
    return (*key.columns, *value.columns)


def _inline_error(statement: ast.CreateSource) -> logical.Column | None:
    given = statement.inline_errors
    if given is None:
        return None
    return logical.Column(given.alias.value if given.alias is not None else "error", _ERROR)


def _included(statement: ast.CreateSource) -> list[tuple[logical.Column, dict[str, Any]]]:
    """Return the columns that INCLUDE adds behind the others, and what the reader puts into each."""
    found = []
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
        found.append((logical.Column(name, type_, include.name not in ("PARTITION", "OFFSET")), data))
    return found


def _include_span(statement: ast.CreateSource, name: str) -> Span:
    """Return where a column's name comes from."""
    for include in statement.include:
        if name == (include.alias.value if include.alias is not None else include.name.lower()):
            return include.span
    for column in statement.columns:
        if column.name.value == name:
            return column.span
    return statement.kind_span


def _key_names(
    statement: ast.CreateSource, key: _Part | None, columns: Sequence[logical.Column], envelope: str
) -> tuple[str, ...]:
    """Return the columns that tell rows apart; none where nothing does."""
    if statement.primary_key:
        return tuple(each.value for each in statement.primary_key)
    if envelope == "none" or key is None:
        return ()
    names = {each.name for each in columns}
    missing = [each.name for each in key.columns if each.name not in names]
    if missing:
        assert statement.format is not None
        raise SinkqlError(
            "SQ2477",
            f'the rows have no column "{missing[0]}", which is in their key',
            statement.format.span,
            hint=f"Declare PRIMARY KEY (…) NOT ENFORCED with the columns that are the key of {statement.name.text}.",
        )
    return tuple(each.name for each in key.columns)
