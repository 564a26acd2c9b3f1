"""Write a connection for an address of brokers, and a source for each topic by its messages, for `sinkql init`."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sinkql import ast, logical
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connector_api.scaffold import (
    Address,
    ConnectionScaffold,
    ScaffoldRequest,
    SourceScaffold,
    option,
    relation_name,
)
from sinkql.decode.columns import type_of_texts, type_of_values
from sinkql.errors import SinkqlError
from sinkql.printer.clause import ident, text

if TYPE_CHECKING:
    from sinkql.connectors.kafka.admin import Admin

_MESSAGES = 200
"""How many of the last messages of a partition are read."""
_PARTITIONS = 4
_MAGIC = b"\0"
_FRAME = 5
_DELIMITERS = (",", ";", "\t", "|")
_RECORDS = 2
"""Fewer texts are not recognized as records."""
_PORT = 9092


def scaffold_connection(address: Address) -> ConnectionScaffold:
    """Return the connection of an address. Raise SQ4039 if it has a path."""
    if address.path:
        hint = "Write kafka://host:9092, followed by the names of topics."
        raise SinkqlError("SQ4039", "an address of brokers cannot have a path", hint=hint)
    brokers = [text(f"{host}:{port or _PORT}") for host, port in address.hosts]
    options = [f"BROKER {brokers[0]}" if len(brokers) == 1 else f"BROKERS ({', '.join(brokers)})"]
    plain = "SASL_PLAINTEXT" if address.user is not None else "PLAINTEXT"
    options.append(option("SECURITY PROTOCOL", address.options.get("security_protocol", plain).upper()))
    if address.user is not None:
        options.append(option("SASL MECHANISMS", address.options.get("sasl_mechanism", "PLAIN").upper()))
        options.append(option("SASL USERNAME", address.user))
    return ConnectionScaffold(
        "KAFKA", "kafka", tuple(options), "SASL PASSWORD", "KAFKA_PASSWORD" if address.user else ""
    )


def scaffold_sources(
    planned: logical.Connection, wanted: ScaffoldRequest, access: OutsideAccess
) -> Iterator[SourceScaffold]:
    """Yield a source for each topic; one without messages has no draft, only a remark."""
    from sinkql.connectors.kafka.admin import planned_admin  # imports the client library

    admin = planned_admin(planned, access)
    for topic in admin.topics():
        if not wanted.takes(topic):
            continue
        try:
            sample = _read_sample(admin, topic, compacted=admin.is_compacted(topic))
        except SinkqlError as error:
            yield SourceScaffold(
                relation_name(topic), topic, (), (error.message, *([error.hint] if error.hint else ()))
            )
            continue
        clauses, remarks = _clauses(topic, sample, wanted.registry)
        head = f"FROM KAFKA CONNECTION {wanted.connection} (TOPIC {text(topic)})"
        drafts = tuple(f"{columns} {head} {more}".strip() for columns, more in clauses)
        yield SourceScaffold(relation_name(topic), topic, drafts, remarks)


@dataclass(frozen=True, slots=True)
class _Sample:
    """Some messages of a topic: raw keys and values, None for a missing one."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    compacted: bool

    @property
    def present_values(self) -> list[bytes]:
        return [value for value in self.values if value is not None]

    @property
    def keyed(self) -> bool:
        """Whether later messages seem to overwrite earlier messages of the same key."""
        return bool(self.keys) and None not in self.keys and (self.compacted or None in self.values)


def _read_sample(admin: Admin, name: str, *, compacted: bool) -> _Sample:
    from sinkql.connectors.kafka.admin import missing_topic_error
    from sinkql.connectors.kafka.consumer import Range, messages

    topic = admin.topic(name)
    if topic is None:
        raise missing_topic_error(admin.client, name)
    begins, ends = admin.beginnings(name, topic.partitions), admin.ends(name, topic.partitions)
    partitions = [number for number in topic.partitions if ends[number] > begins[number]][:_PARTITIONS]
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    for partition in partitions:
        begin = max(begins[partition], ends[partition] - _MESSAGES)
        for batch in messages(admin.client, Range(name, name, partition, begin, ends[partition], "sinkql")):
            keys += [message.key() for message in batch]
            values += [message.value() for message in batch]
    return _Sample(keys, values, compacted)


_Clauses = tuple[tuple[str, str], ...]
"""Pairs of a column list and the clauses after the topic, the best first."""


def _clauses(topic: str, sample: _Sample, registry: str | None) -> tuple[_Clauses, tuple[str, ...]]:
    """Return the clauses that can read a topic, and remarks; no clauses if the format cannot be determined."""
    values = sample.present_values
    if not values:
        return (), (f'topic "{topic}" has no messages yet that show its format',)
    framed = sum(value[:1] == _MAGIC and len(value) >= _FRAME for value in values)
    if framed > len(values) // 2:
        if registry is None:
            return (), (f'messages of topic "{topic}" have schemas in a registry: specify it with --registry URL',)
        return _with_dead_letters(framed, values, _by_schema(sample, registry))
    documents = [_document(value) for value in values]
    objects = [document for document in documents if isinstance(document, dict)]
    if len(objects) > len(values) // 2:
        return _with_dead_letters(len(objects), values, _by_members(sample, objects))
    if all(document is not _NOT_JSON for document in documents):
        return (("", "FORMAT JSON"),), ()
    try:
        texts = [value.decode() for value in values]
    except UnicodeDecodeError:
        return (("", "FORMAT BYTES"),), ()
    return (*_by_fields(texts), ("", "FORMAT TEXT")), ()


def _with_dead_letters(decoded: int, values: Sequence[bytes], clauses: _Clauses) -> tuple[_Clauses, tuple[str, ...]]:
    """Return the clauses with dead letters if some messages do not decode, so that these do not stop the sinks."""
    others = len(values) - decoded
    if not others:
        return clauses, ()
    count = f"Of the {len(values)} sampled messages, {others} {'has' if others == 1 else 'have'} a different format."
    remarks = (f"{count} Such messages", "are stored in a dead-letter table, whose name ends in __errors.")
    return tuple((columns, f"{more} WITH (ON ERROR = 'DEAD LETTER')") for columns, more in clauses), remarks


_NOT_JSON = object()


def _document(value: bytes) -> Any:
    """Return a decoded JSON value, or `_NOT_JSON`."""
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return _NOT_JSON


def _payload(document: Any) -> Any:
    """Return a key of Kafka Connect without its schema."""
    return document["payload"] if isinstance(document, dict) and set(document) == {"schema", "payload"} else document


def _by_fields(texts: Sequence[str]) -> _Clauses:
    """Return the clause for CSV records: all have the same number of fields, and one column is not text."""
    if len(texts) < _RECORDS:
        return ()
    for delimiter in _DELIMITERS:
        try:
            rows = list(csv.reader(texts, delimiter=delimiter, strict=True))
        except csv.Error:
            continue
        if len(rows) != len(texts) or len({len(row) for row in rows}) != 1 or len(rows[0]) == 1:
            continue
        types = [type_of_texts([field for field in column if field]) for column in zip(*rows, strict=True)]
        if any(type_ != "text" for type_ in types):
            columns = _column_list({f"column{index + 1}": type_ for index, type_ in enumerate(types)})
            by = "" if delimiter == "," else f" DELIMITED BY {text(delimiter)}"
            return ((columns, f"FORMAT CSV{by}"),)
    return ()


def _by_schema(sample: _Sample, registry: str) -> _Clauses:
    using = f"USING CONFLUENT SCHEMA REGISTRY CONNECTION {registry}"
    framed = all(key is not None and key[:1] == _MAGIC for key in sample.keys)
    clauses = []
    for format_ in ("AVRO", "PROTOBUF"):
        if format_ == "AVRO":
            clauses.append(f"FORMAT AVRO {using} ENVELOPE DEBEZIUM")
        if sample.keyed:
            keys = f"FORMAT {format_} {using}" if framed else f"KEY FORMAT TEXT VALUE FORMAT {format_} {using}"
            clauses.append(f"{keys} ENVELOPE UPSERT")
        clauses.append(f"FORMAT {format_} {using}")
    return tuple(("", clause) for clause in clauses)


# --- JSON -------------------------------------------------------------------------------------------------------------


def _by_members(sample: _Sample, documents: Sequence[Mapping[str, Any]]) -> _Clauses:
    """Return the clauses for JSON objects: Debezium's changes, or the members of rows."""
    whole = ("", "FORMAT JSON")
    payloads = [document["payload"] if {"payload", "schema"} <= document.keys() else document for document in documents]
    if all(isinstance(row, dict) and "op" in row and ("after" in row or "before" in row) for row in payloads):
        return _debezium(sample, documents, payloads)
    members = _typed(documents)
    if not members:
        return (whole,)
    if not sample.keyed:
        return ((_column_list(members), "FORMAT JSON"), whole)
    keys = [_payload(_document(key)) if key is not None else _NOT_JSON for key in sample.keys]
    if all(isinstance(key, dict) for key in keys):
        of_key = _typed([key for key in keys if isinstance(key, dict)])
        rest = {name: type_ for name, type_ in members.items() if name not in of_key}
        return (
            (_column_list({**of_key, **rest}, of_key), "KEY FORMAT JSON VALUE FORMAT JSON ENVELOPE UPSERT"),
            (_column_list(members), "FORMAT JSON"),
        )
    name = next(name for name in ("key", "message_key", "kafka_key") if name not in members)
    return (
        (_column_list({name: "text", **members}, (name,)), "KEY FORMAT TEXT VALUE FORMAT JSON ENVELOPE UPSERT"),
        (_column_list(members), "FORMAT JSON"),
    )


def _debezium(
    sample: _Sample, documents: Sequence[Mapping[str, Any]], payloads: Sequence[Mapping[str, Any]]
) -> _Clauses:
    """Return the clauses for Debezium's changes."""
    images = [change.get(name) for change in payloads for name in ("after", "before")]
    rows = [row for row in images if isinstance(row, dict)]
    columns = _typed(rows)
    columns |= {name: type_ for name, type_ in _of_schemas(documents).items() if name in columns}
    keys = [_document(key) if key is not None else _NOT_JSON for key in sample.keys]
    inner: list[dict[str, Any]] = [key.get("payload", key) for key in keys if isinstance(key, dict)]
    if not columns or len(inner) < len(keys) or not all(inner):
        return (("", "FORMAT JSON"),)
    names = [name for name in columns if all(name in key for key in inner)]
    column_list, clauses = _column_list(columns, names), ["FORMAT JSON ENVELOPE DEBEZIUM"]
    if inner == keys:  # keys with schemas need no KEY FORMAT: the values contain the key's columns, too
        clauses.insert(0, "KEY FORMAT JSON VALUE FORMAT JSON ENVELOPE DEBEZIUM")
    return tuple((column_list, clause) for clause in clauses)


def _typed(documents: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the members of objects in the order of their first occurrence, with the types of their values."""
    values: dict[str, list[Any]] = {}
    for document in documents:
        for name, value in document.items():
            values.setdefault(name, []).append(value)
    typed = {name: [value for value in present if value is not None] for name, present in values.items()}
    return {name: type_of_values(present) if present else "text" for name, present in typed.items() if name}


_PLAIN = {
    "int8": "smallint", "int16": "smallint", "int32": "integer", "int64": "bigint", "float": "real",
    "double": "double precision", "boolean": "boolean", "string": "text", "bytes": "bytea",
}  # fmt: skip
_NAMED = {
    "Date": "date", "Time": "time", "MicroTime": "time", "NanoTime": "time", "Timestamp": "timestamp",
    "MicroTimestamp": "timestamp", "NanoTimestamp": "timestamp", "ZonedTimestamp": "timestamptz",
    "ZonedTime": "text", "Uuid": "uuid", "Json": "jsonb", "Enum": "text", "EnumSet": "text",
    "MicroDuration": "interval", "NanoDuration": "interval",
}  # fmt: skip


def _of_schemas(documents: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the types of columns by the schema in the last message, if it has one."""
    schema = documents[-1].get("schema")
    fields = schema.get("fields", ()) if isinstance(schema, dict) else ()
    row = next((field for field in fields if isinstance(field, dict) and field.get("field") == "after"), {})
    types = {}
    for field in row.get("fields", ()):
        type_ = _of_field(field) if isinstance(field, dict) else None
        if type_ is not None:
            types[str(field.get("field"))] = type_
    return types


def _of_field(field: Mapping[str, Any]) -> str | None:
    name, parameters = str(field.get("name", "")), field.get("parameters") or {}
    last = name.rpartition(".")[2]
    if last == "Decimal":
        scale = str(parameters.get("scale", "0"))
        return f"numeric(38, {scale})" if scale.isdecimal() else None
    return _NAMED.get(last) or _PLAIN.get(str(field.get("type", "")))


def _column_list(columns: Mapping[str, str], key: Sequence[str] | Mapping[str, str] = ()) -> str:
    """Return a column list in SQL, with the key."""
    parts = [f"{ident(ast.Ident(name))} {type_}" for name, type_ in columns.items()]
    if key:
        parts.append(f"PRIMARY KEY ({', '.join(ident(ast.Ident(name)) for name in key)}) NOT ENFORCED")
    return f"({', '.join(parts)})"
