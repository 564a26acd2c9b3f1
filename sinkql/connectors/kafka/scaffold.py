"""The address of brokers → a connection, and a source of each topic by a look at its messages, for `sinkql init`."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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

_MESSAGES = 200
"""At how many messages of a partition is looked, its last ones."""
_PARTITIONS = 4
_MAGIC = b"\0"
_FRAME = 5
_DELIMITERS = (",", ";", "\t", "|")
_RECORDS = 2
"""Of fewer nobody can tell whether they are records."""
_PORT = 9092


def draft_connection(address: Address) -> ConnectionScaffold:
    """Return the connection of an address; raises SQ4039 where it names a topic."""
    if address.path:
        hint = "Write kafka://host:9092, and the names of topics after it."
        raise SinkqlError("SQ4039", "the address of brokers has no path", hint=hint)
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


def draft_sources(
    planned: logical.Connection, wanted: ScaffoldRequest, access: OutsideAccess
) -> Iterator[SourceScaffold]:
    """Yield a source of each topic; one without messages is left out, since nothing tells what they are."""
    from sinkql.connectors.kafka.admin import admin_of  # the client library, only where it is used
    from sinkql.connectors.kafka.client import Client

    client = Client.planned(planned, access)
    admin = admin_of(client)
    for topic in admin.topics():
        if not wanted.takes(topic):
            continue
        try:
            seen = _look(client, topic, compacted=admin.compacted(topic))
        except SinkqlError as error:
            yield SourceScaffold(
                relation_name(topic), topic, (), (error.message, *([error.hint] if error.hint else ()))
            )
            continue
        clauses, notes = _clauses(topic, seen, wanted.registry)
        head = f"FROM KAFKA CONNECTION {wanted.connection} (TOPIC {text(topic)})"
        drafts = tuple(f"{columns} {head} {more}".strip() for columns, more in clauses)
        yield SourceScaffold(relation_name(topic), topic, drafts, notes)


@dataclass(frozen=True, slots=True)
class _Seen:
    """Some messages of a topic: keys and values as they are, None for those that have none."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    compacted: bool

    @property
    def there(self) -> list[bytes]:
        return [each for each in self.values if each is not None]

    @property
    def keyed(self) -> bool:
        """Tell whether later messages overwrite those of the same key."""
        return bool(self.keys) and None not in self.keys and (self.compacted or None in self.values)


def _look(client: Any, name: str, *, compacted: bool) -> _Seen:
    from sinkql.connectors.kafka.admin import admin_of, gone
    from sinkql.connectors.kafka.consumer import Range, messages

    admin = admin_of(client)
    topic = admin.topic(name)
    if topic is None:
        raise gone(client, name)
    begins, ends = admin.beginnings(name, topic.partitions), admin.ends(name, topic.partitions)
    full = [each for each in topic.partitions if ends[each] > begins[each]][:_PARTITIONS]
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    for partition in full:
        begin = max(begins[partition], ends[partition] - _MESSAGES)
        for found in messages(client, Range(name, name, partition, begin, ends[partition], "sinkql")):
            keys += [message.key() for message in found]
            values += [message.value() for message in found]
    return _Seen(keys, values, compacted)


_Clauses = tuple[tuple[str, str], ...]
"""Columns and what follows the topic, the best first."""


def _clauses(topic: str, seen: _Seen, registry: str | None) -> tuple[_Clauses, tuple[str, ...]]:
    """Return how a topic may be read, and remarks; no way for one that nobody can tell of."""
    values = seen.there
    if not values:
        return (), (f'topic "{topic}" has no messages yet, which tell what is in it',)
    framed = sum(each[:1] == _MAGIC and len(each) >= _FRAME for each in values)
    if framed > len(values) // 2:
        if registry is None:
            return (), (f'messages of topic "{topic}" have schemas in a registry: name it with --registry URL',)
        return _but(framed, values, _by_schema(seen, registry))
    documents = [_document(each) for each in values]
    objects = [each for each in documents if isinstance(each, dict)]
    if len(objects) > len(values) // 2:
        return _but(len(objects), values, _by_members(seen, objects))
    if any(each is not _NONE for each in documents) and all(each is not _NONE for each in documents):
        return (("", "FORMAT JSON"),), ()
    try:
        texts = [each.decode() for each in values]
    except UnicodeDecodeError:
        return (("", "FORMAT BYTES"),), ()
    return (*_by_fields(texts), ("", "FORMAT TEXT")), ()


def _but(decoded: int, values: Sequence[bytes], clauses: _Clauses) -> tuple[_Clauses, tuple[str, ...]]:
    """Return how messages are read of which some are not like the others: those do not stop the script's sinks."""
    others = len(values) - decoded
    if not others:
        return clauses, ()
    found = f"Of the {len(values)} messages that were looked at, {others} {'is' if others == 1 else 'are'} not like the"
    notes = (f"{found} others. Such messages", "are kept in a table of their own, whose name ends in __errors.")
    return tuple((columns, f"{more} WITH (ON ERROR = 'DEAD LETTER')") for columns, more in clauses), notes


_NONE = object()


def _document(value: bytes) -> Any:
    """Return a value of JSON, `_NONE` for what is none."""
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return _NONE


def _payload(document: Any) -> Any:
    """Return what a key of Kafka Connect's is, without its schema."""
    return document["payload"] if isinstance(document, dict) and set(document) == {"schema", "payload"} else document


def _by_fields(texts: Sequence[str]) -> _Clauses:
    """Return how records of CSV are read: as many fields each, of which one at least is no mere text."""
    if len(texts) < _RECORDS:
        return ()
    for delimiter in _DELIMITERS:
        try:
            rows = list(csv.reader(texts, delimiter=delimiter, strict=True))
        except csv.Error:
            continue
        if len(rows) != len(texts) or len({len(row) for row in rows}) != 1 or len(rows[0]) == 1:
            continue
        types = [type_of_texts([each for each in column if each]) for column in zip(*rows, strict=True)]
        if any(each != "text" for each in types):
            listed = _listed({f"column{place + 1}": type_ for place, type_ in enumerate(types)})
            by = "" if delimiter == "," else f" DELIMITED BY {text(delimiter)}"
            return ((listed, f"FORMAT CSV{by}"),)
    return ()


def _by_schema(seen: _Seen, registry: str) -> _Clauses:
    using = f"USING CONFLUENT SCHEMA REGISTRY CONNECTION {registry}"
    framed = all(each is not None and each[:1] == _MAGIC for each in seen.keys)
    ways = []
    for format_ in ("AVRO", "PROTOBUF"):
        if format_ == "AVRO":
            ways.append(f"FORMAT AVRO {using} ENVELOPE DEBEZIUM")
        if seen.keyed:
            keys = f"FORMAT {format_} {using}" if framed else f"KEY FORMAT TEXT VALUE FORMAT {format_} {using}"
            ways.append(f"{keys} ENVELOPE UPSERT")
        ways.append(f"FORMAT {format_} {using}")
    return tuple(("", each) for each in ways)


# --- JSON -------------------------------------------------------------------------------------------------------------


def _by_members(seen: _Seen, documents: Sequence[Mapping[str, Any]]) -> _Clauses:
    """Return how objects are read: Debezium's as rows that change, others by their members."""
    whole = ("", "FORMAT JSON")
    payloads = [each["payload"] if "payload" in each and "schema" in each else each for each in documents]
    if all(isinstance(each, dict) and "op" in each and ("after" in each or "before" in each) for each in payloads):
        return _debezium(seen, documents, payloads)
    members = _typed(documents)
    if not members:
        return (whole,)
    if not seen.keyed:
        return ((_listed(members), "FORMAT JSON"), whole)
    keys = [_payload(_document(each)) if each is not None else _NONE for each in seen.keys]
    if all(isinstance(each, dict) for each in keys):
        of_key = _typed([each for each in keys if isinstance(each, dict)])
        rest = {name: type_ for name, type_ in members.items() if name not in of_key}
        return (
            (_listed({**of_key, **rest}, of_key), "KEY FORMAT JSON VALUE FORMAT JSON ENVELOPE UPSERT"),
            (_listed(members), "FORMAT JSON"),
        )
    name = next(each for each in ("key", "message_key", "kafka_key") if each not in members)
    return (
        (_listed({name: "text", **members}, (name,)), "KEY FORMAT TEXT VALUE FORMAT JSON ENVELOPE UPSERT"),
        (_listed(members), "FORMAT JSON"),
    )


def _debezium(seen: _Seen, documents: Sequence[Mapping[str, Any]], payloads: Sequence[Mapping[str, Any]]) -> _Clauses:
    rows = [row for each in payloads for row in (each.get("after"), each.get("before")) if isinstance(row, dict)]
    columns = _typed(rows)
    columns |= {name: type_ for name, type_ in _of_schemas(documents).items() if name in columns}
    keys = [_document(each) if each is not None else _NONE for each in seen.keys]
    inner: list[dict[str, Any]] = [each.get("payload", each) for each in keys if isinstance(each, dict)]
    if not columns or len(inner) < len(keys) or not all(inner):
        return (("", "FORMAT JSON"),)
    names = [name for name in columns if all(name in each for each in inner)]
    listed, ways = _listed(columns, names), ["FORMAT JSON ENVELOPE DEBEZIUM"]
    if inner == keys:  # or they have schemas, as the values do, which have the key, too
        ways.insert(0, "KEY FORMAT JSON VALUE FORMAT JSON ENVELOPE DEBEZIUM")
    return tuple((listed, way) for way in ways)


def _typed(documents: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the members of objects, in the order in which they come, with the types of their values."""
    values: dict[str, list[Any]] = {}
    for each in documents:
        for name, value in each.items():
            values.setdefault(name, []).append(value)
    typed = {name: [value for value in found if value is not None] for name, found in values.items()}
    return {name: type_of_values(found) if found else "text" for name, found in typed.items() if name}


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
    """Return the types that the schema part of a message gives to columns, where it has one."""
    schema = documents[-1].get("schema")
    fields = schema.get("fields", ()) if isinstance(schema, dict) else ()
    row = next((each for each in fields if isinstance(each, dict) and each.get("field") == "after"), {})
    found = {}
    for each in row.get("fields", ()):
        type_ = _of_field(each) if isinstance(each, dict) else None
        if type_ is not None:
            found[str(each.get("field"))] = type_
    return found


def _of_field(field: Mapping[str, Any]) -> str | None:
    name, parameters = str(field.get("name", "")), field.get("parameters") or {}
    last = name.rpartition(".")[2]
    if last == "Decimal":
        scale = str(parameters.get("scale", "0"))
        return f"numeric(38, {scale})" if scale.isdecimal() else None
    return _NAMED.get(last) or _PLAIN.get(str(field.get("type", "")))


def _listed(columns: Mapping[str, str], key: Sequence[str] | Mapping[str, str] = ()) -> str:
    """Return a list of columns, with the key."""
    parts = [f"{ident(ast.Ident(name))} {type_}" for name, type_ in columns.items()]
    if key:
        parts.append(f"PRIMARY KEY ({', '.join(ident(ast.Ident(name)) for name in key)}) NOT ENFORCED")
    return f"({', '.join(parts)})"
