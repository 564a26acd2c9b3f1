"""Kafka: connections, sources of topics, and sinks into topics.

* `connection`: Check the options of CREATE CONNECTION … TO KAFKA.
* `formats`: Plan and open FORMAT JSON, CSV, TEXT and BYTES of messages.
* `plan`: Plan CREATE SOURCE … FROM KAFKA.
* `options`: Convert the planned options of connections, sources and sinks to dataclasses.
* `scaffold`: Write a connection and sources for `sinkql init`.
* `client`: Configure the client library, and convert its failures to coded errors.
* `ssh_proxy`: Reach brokers behind SSH servers by ports of this machine.
* `admin`: Ask the brokers about topics.
* `doctor`: Check brokers and topics for problems.
* `reader`: Read a topic by ranges of offsets.
* `last_message`: Identify the last message of each partition, to notice lost messages.
* `consumer`: Read the messages of a range of offsets.
* `decode`: Decode messages to Arrow rows.
* `sink`: Sinks into topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from sinkql import logical, physical
from sinkql.connector_api.health_check import CheckContext, HealthCheck
from sinkql.connector_api.planning import (
    AddressKind,
    ConnectionKind,
    Connector,
    OutsideAccess,
    Progress,
    SinkKind,
    SourceKind,
    SourcePlan,
)
from sinkql.connector_api.source_options import OnErrorOptions
from sinkql.connector_api.stream import Context, Offsets, Reader, Writer
from sinkql.connectors.kafka.connection import KIND, OWNER, KafkaOptions, plan_connection
from sinkql.connectors.kafka.formats import FORMATS
from sinkql.connectors.kafka.plan import TopicOptions, ask_formats, plan, topic_facts
from sinkql.connectors.kafka.scaffold import scaffold_connection, scaffold_sources
from sinkql.connectors.kafka.sink import plan as sink

_CONNECTION = """\
SinkQL checks the connection when you create it, unless `WITH (VALIDATE = false)` follows its options. Certificates and
keys are PEM texts, specified as `SECRET name`.

With `SSH TUNNEL name`, SinkQL reaches all brokers through an SSH server, also the brokers that Kafka advertises. The
SSH server resolves their names. `BROKERS ('a:9092' USING SSH TUNNEL name, 'b:9092')` sets a tunnel for single brokers.
SinkQL reaches a broker without one through SSH TUNNEL, or directly. Each process opens one connection to the SSH
server."""

_ABOUT = """\
`FROM KAFKA CONNECTION kafka (TOPIC 'orders')` reads the committed messages of a topic.

`FORMAT JSON` reads the members of an object by the names of the columns. Without declared columns, the source has one
column `data` of type `jsonb`. `FORMAT CSV WITH n COLUMNS`, or `FORMAT CSV` with declared columns, reads fields by
position. `FORMAT TEXT` and `FORMAT BYTES` have one column, `text` or `data`. `KEY FORMAT … VALUE FORMAT …` sets
different formats. `INCLUDE KEY` adds the key. `INCLUDE PARTITION`, `OFFSET`, `TIMESTAMP`, `HEADERS` and `HEADER 'name'
AS column` add metadata of the message.

`FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION registry` and `FORMAT PROTOBUF USING …` take the columns from
the topic's newest schema when you create the source. `VALUE STRATEGY ID n` and `INLINE '…'` set another schema, and a
column list selects columns. SinkQL reads each Avro message with the schema of its writer: fields match by name or
alias, and a missing field has its default. Avro records, arrays and maps become records, lists and maps. Unions of
several types and recursive types become `jsonb`. Debezium's date and time types become dates and times, except
`NanoTime`. `FORMAT AVRO USING SCHEMA '…'` and `FORMAT PROTOBUF MESSAGE 'name' USING SCHEMA '…'` need no registry.
PROTOBUF needs `pip install 'sinkql[protobuf]'`.

With `ENVELOPE NONE`, each message is a row. With `ENVELOPE UPSERT`, a message is the new row of its key; a message
without a value deletes the row. The key is the column `key`, or the columns of `PRIMARY KEY (…) NOT ENFORCED`, read
from the message key. With `(VALUE DECODING ERRORS = INLINE)`, the column `error` has the reason if a value does not
decode.

Kafka orders messages only within a partition. So `ENVELOPE UPSERT` and `ENVELOPE DEBEZIUM` require that all messages of
a key are in one partition. If keys have moved, for example because the topic got more partitions, write the topic
again.

`ENVELOPE DEBEZIUM`, for JSON and Avro, reads the row in `after`; a deletion deletes the row of its key. With JSON,
declare the columns and `PRIMARY KEY (…) NOT ENFORCED`. If messages contain a schema, it defines the meaning of values.
Without a schema, a number means days for a `date`, and microseconds for a `time`, `timestamp`, `timestamptz` and
`interval`; a `bytea` is in base64. The same applies to elements of arrays and lists, for example of a `date[]` or a
`date list`. A message of a truncated table is an invalid row, and so is a message with a value that the server did not
send.

A batch ends before open transactions. If the topic is recreated, or deletes messages before they are read, the sink
stops with an error."""

_SINK = """\
`INTO KAFKA CONNECTION kafka (TOPIC 'orders') KEY (id) FORMAT JSON ENVELOPE UPSERT` writes the changes of a relation,
exactly once. Each commit is one Kafka transaction with the messages and, in the progress topic, the sink's progress.
Read the topic with `isolation.level = read_committed`. After a restart, a sink continues from its progress, and aborts
transactions that an earlier run left open. `COMMIT INTERVAL` is one second by default.

`ENVELOPE UPSERT` writes the new row of each changed key; a message without a value means that the row was deleted. It
requires a `KEY`. `ENVELOPE DEBEZIUM` writes an object with `before` and `after`: `before` is NULL for an insertion, and
`after` for a deletion. Without a `KEY`, an update is two messages. If a source overwrites rows, the sink stores its
rows to know the deleted ones.

`FORMAT JSON` writes an object of the columns. Integers, `real` and `double precision` are numbers; a number that is
not finite is NULL. A `numeric` is a string of its digits. A `timestamp` or `timestamptz` is a string of milliseconds
since 1970 with three decimals. A `jsonb` is written unchanged. Arrays and lists are arrays, records and maps are
objects. Other types are strings of their text. `FORMAT TEXT` and `FORMAT BYTES` write a single column unencoded. `KEY
FORMAT … VALUE FORMAT …` sets different formats. `HEADERS column`, of type `map[text => text]` or `map[text =>
bytea]`, adds headers to each message.

`FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION registry (…)` writes a record of the columns. The sink registers
its schema under `<topic>-key` and `<topic>-value` when it starts. Options: `AVRO KEY FULLNAME`, `AVRO VALUE FULLNAME`,
`NULL DEFAULTS`, `KEY COMPATIBILITY LEVEL`, `VALUE COMPATIBILITY LEVEL`. A `numeric` or `uint8` is a decimal, a `uint2`
an `int`, a `uint4` a `long`, and a `timestamp` or `timestamptz` a `timestamp-micros`. A `jsonb`, an `interval` and a
range are strings. `DOC ON TYPE name 'text'` and `DOC ON COLUMN name.column 'text'` add documentation to the schemas;
with `KEY` or `VALUE` before them, to one of the schemas. The default is the comment of the relation or the column at
the sink's creation. `EXPLAIN KEY SCHEMA FOR SINK name` and `EXPLAIN VALUE SCHEMA FOR CREATE SINK …` show the
schemas.

Dead letters of sources with `ON ERROR = DEAD LETTER` are in the topic `<topic>__errors`, as JSON.

The hash of the key determines the partition of a message, as in Kafka's own clients. `PARTITION BY = expression` sets
a number instead: the partition is the number modulo the number of partitions, and the first one for NULL. With a `KEY`,
the expression may use only columns of the key. New partitions do not move earlier messages. Several sinks may write
into one topic. `DROP SINK` does not delete the topic. A sink cannot undo messages. So a view under it may not change in
a way that would change earlier rows: drop the sink, and create it again with a new topic."""


def _validate(connection: logical.Connection, access: OutsideAccess) -> None:
    from sinkql.connectors.kafka.admin import planned_admin  # imports the client library

    planned_admin(connection, access).check()


def _examine(connection: logical.Connection, examined: CheckContext, access: OutsideAccess) -> Iterator[HealthCheck]:
    from sinkql.connectors.kafka.doctor import examine

    return examine(connection, examined, access)


def _open_reader(read: physical.Read, context: Context) -> Reader:
    from sinkql.connectors.kafka.reader import KafkaReader

    return KafkaReader.of(read, context)


def _open_writer(write: physical.Write, context: Context) -> Writer:
    from sinkql.connectors.kafka.sink.writer import TopicWriter

    return TopicWriter.of(write, context)


def _has_stable_offsets(planned: SourcePlan) -> bool:
    """Return whether offsets mean the same rows to all readers; a compacted topic loses old messages over time."""
    return planned.shape.change is not logical.Change.UPSERT


def _progress(committed: Sequence[Offsets], captured: str | None) -> list[tuple[int, Decimal]]:
    """Return the lowest next offset of each partition among the sinks."""
    positions: dict[int, int] = {}
    for offsets in committed:
        for partition, offset in offsets.get("partitions", {}).items():
            positions[int(partition)] = min(offset, positions.get(int(partition), offset))
    return [(partition, Decimal(offset)) for partition, offset in sorted(positions.items())]


connector = Connector(
    "kafka",
    connections=(
        ConnectionKind(
            KIND,
            plan_connection,
            KafkaOptions,
            OWNER,
            ("BROKER", "BROKERS", "PROGRESS TOPIC", "PROGRESS TOPIC REPLICATION FACTOR"),
            validate=_validate,
            examine=_examine,
            about=_CONNECTION,
        ),
    ),
    sources=(
        SourceKind(
            "KAFKA",
            plan,
            _open_reader,
            TopicOptions,
            OnErrorOptions,
            facts=topic_facts,
            sample=ask_formats,
            messages=True,
            progress=Progress(
                (
                    logical.Column("partition", logical.Type("integer"), nullable=False),
                    logical.Column("offset", logical.Type("uint8"), nullable=False),
                ),
                _progress,
            ),
            about=_ABOUT,
            has_common_positions=_has_stable_offsets,
        ),
    ),
    messages=FORMATS,
    addresses=(AddressKind(("kafka",), scaffold_connection, scaffold_sources),),
    sinks=(
        SinkKind(
            "KAFKA",
            sink.plan_sink,
            _open_writer,
            sink.TopicOptions,
            sink.KafkaSinkOptions,
            sink.OWNER,
            sink.AT_CREATION,
            modes=("upsert", "debezium"),
            messages=True,
            final=True,
            facts=sink.check_brokers,
            destination=sink.destination,
            find_encoding=sink.encoded,
            dead_letter_write=sink.dead_letter_write,
            about=_SINK,
        ),
    ),
    tasks=(
        "sinkql.connectors.kafka.reader",
        "sinkql.connectors.kafka.sink.encode",
        "sinkql.connectors.kafka.sink.task",
        "sinkql.decode.messages",
        "sinkql.decode.debezium",
    ),
)
