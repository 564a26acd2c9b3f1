"""Kafka: connections, sources of topics, and sinks into topics.

* `connection`: the statement's options → the plan's, checked.
* `formats`: FORMAT JSON, CSV, TEXT and BYTES of messages → columns and the decoder's options.
* `scaffold`: brokers and messages → a connection and sources, as `sinkql init` writes them.
* `plan`: the statement → columns of key, value and metadata, and the reader's options.
* `ssh_proxy`: brokers behind SSH servers → ports of this machine; `ssh_proxy`: what brokers say of brokers.
* `client`: a planned connection → what the client library is told, and what its failures mean.
* `admin`: what brokers say of a topic. `doctor`: the brokers are asked → what may keep sources from running.
* `sink`: what sinks write into topics.
* `reader`: offsets → splits → rows; `consumer`: a split → messages; `decode`: messages → rows.
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
from sinkql.connectors.kafka.plan import TopicOptions, ask_formats, find, plan
from sinkql.connectors.kafka.scaffold import draft_connection, draft_sources
from sinkql.connectors.kafka.sink import plan as sink

_CONNECTION = """\
The connection is checked when it is created, unless `WITH (VALIDATE = false)` stands after its options. Certificates
and keys are texts in PEM, as `SECRET name`.

`SSH TUNNEL name` has all brokers reached through an SSH server, also those that brokers name; their names are looked up
there. `BROKERS ('a:9092' USING SSH TUNNEL name, 'b:9092')` has a way for each: a broker that is not among them is
reached as SSH TUNNEL says, or directly. Each process opens a connection to the SSH server."""

_ABOUT = """\
`FROM KAFKA CONNECTION kafka (TOPIC 'orders')` reads the committed messages of a topic.

`FORMAT JSON`: members of an object by the names of the columns; without columns one column `data` of type `jsonb`.
`FORMAT CSV WITH n COLUMNS`, or `FORMAT CSV` of declared columns: fields by place. `FORMAT TEXT` and `FORMAT BYTES`: one
column, `text` or `data`. `KEY FORMAT … VALUE FORMAT …` tells them apart; `INCLUDE KEY` adds the key, `INCLUDE
PARTITION`, `OFFSET`, `TIMESTAMP`, `HEADERS` and `HEADER 'name' AS column` the rest of a message.

`FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION registry` and `FORMAT PROTOBUF USING …`: columns by the fields
of the topic's newest schema when the source is created, or of that of `VALUE STRATEGY ID n` or `INLINE '…'`; a list of
columns takes some of them. Each message of Avro is read by the schema that it was written with: fields go by name or
alias, a missing one is its default. Records, arrays and maps are records, lists and maps; unions of several types, and
what is in itself, are `jsonb`. Numbers and texts that Debezium names as dates and times are these, but for a
`NanoTime`. `FORMAT AVRO USING SCHEMA '…'` and `FORMAT PROTOBUF MESSAGE 'name' USING SCHEMA '…'`
need no registry. PROTOBUF needs `pip install 'sinkql[protobuf]'`.

`ENVELOPE NONE`: each message is a row. `ENVELOPE UPSERT`: the row of its key; a message without a value takes the row
away. The key is the column `key`, or the columns of `PRIMARY KEY (…) NOT ENFORCED`, which are read from the message's
key. With `(VALUE DECODING ERRORS = INLINE)` a value that does not decode is told in the column `error`.
Messages have an order within a partition alone. So the messages of a key, here and with `ENVELOPE DEBEZIUM`, have to be
in one: a topic whose keys have moved, as they do when it gets more partitions, has to be written anew.

`ENVELOPE DEBEZIUM`, of JSON and Avro: the row of `after`, by its key; a deletion takes the row away. With JSON, declare
the columns and `PRIMARY KEY (…) NOT ENFORCED`. Where messages have a schema part, it says what values are; without one
numbers are days for a `date`, and microseconds for a `time`, `timestamp`, `timestamptz` and `interval`, and a `bytea`
is in base64. Arrays have elements that are written in the same way, for columns of type `date[]`, or `date list`. A
message that a table was emptied is an invalid row, and so is one with a value that the server did not send.

A batch ends before open transactions. Where the topic is made anew, or deletes messages before they are read, the sink
stops and says so."""

_SINK = """\
`INTO KAFKA CONNECTION kafka (TOPIC 'orders') KEY (id) FORMAT JSON ENVELOPE UPSERT` writes how a relation changes,
exactly once: each commit is one transaction of Kafka, with the messages and, in the topic of progress, how far the
sink is. Read the topic with `isolation.level = read_committed`. A sink that starts again goes on from there, and ends
what an earlier run of it left open. `COMMIT INTERVAL` is a second if it is left out.

`ENVELOPE UPSERT`: the row that each key has now; a message without a value where the row is gone. It needs a `KEY`.
`ENVELOPE DEBEZIUM`: an object with `before` and `after`, either of which is NULL where the row comes or goes. Without
a `KEY` a row that changes is two messages. A sink keeps the rows of sources that overwrite each other, to know what
goes.

`FORMAT JSON`: an object of the columns. Whole numbers, `real` and `double precision` are numbers, those that are not
finite NULL; a `numeric` is a text of its digits; a `timestamp` and a `timestamptz` are texts of milliseconds since
1970 with three digits behind the point; `jsonb` is what it is; arrays and lists are arrays, records and maps objects;
all else is its text. `FORMAT TEXT` and `FORMAT BYTES`: one column as it is. `KEY FORMAT … VALUE FORMAT …` tells them
apart. `HEADERS column`, of type `map[text => text]` or `map[text => bytea]`, gives each message its headers.

`FORMAT AVRO USING CONFLUENT SCHEMA REGISTRY CONNECTION registry (…)`: a record of the columns, whose schema is
registered under `<topic>-key` and `<topic>-value` when the sink starts. Options: `AVRO KEY FULLNAME`, `AVRO VALUE
FULLNAME`, `NULL DEFAULTS`, `KEY COMPATIBILITY LEVEL`, `VALUE COMPATIBILITY LEVEL`. A `numeric` and a `uint8` are
decimals, `uint2` and `uint4` `int` and `long`, `timestamp` and `timestamptz` `timestamp-micros`, a `jsonb`, an
`interval` and a range strings. `DOC ON TYPE name 'text'` and `DOC ON COLUMN name.column 'text'` put texts into the
schemas, with `KEY` or `VALUE` before them into one only; without one a comment stands there that the relation or the
column had when the sink was created. `EXPLAIN KEY SCHEMA FOR SINK name` and `EXPLAIN VALUE SCHEMA
FOR CREATE SINK …` show what is registered.

Records of sources with `ON ERROR = DEAD LETTER` are in the topic `<topic>__errors`, as JSON.

Messages go to partitions by their keys, as Kafka's own clients place them. `PARTITION BY = expression` gives the number
of a message, which is its partition modulo how many there are: the first one where it is NULL. With a `KEY` it has
columns of the key alone. What new partitions change of that is not moved. Several sinks may write into one topic.
`DROP SINK` leaves the topic. What a sink has written cannot be taken back, so a view under it may not change so that
rows from before would be others: drop the sink, and create it again into a new topic."""


def _validate(connection: logical.Connection, access: OutsideAccess) -> None:
    from sinkql.connectors.kafka.admin import admin_of  # the client library, only where it is used
    from sinkql.connectors.kafka.client import Client

    admin_of(Client.planned(connection, access)).check()


def _examine(connection: logical.Connection, examined: CheckContext, access: OutsideAccess) -> Iterator[HealthCheck]:
    from sinkql.connectors.kafka.doctor import examine

    return examine(connection, examined, access)


def _open_reader(read: physical.Read, context: Context) -> Reader:
    from sinkql.connectors.kafka.reader import KafkaReader

    return KafkaReader.of(read, context)


def _open_writer(write: physical.Write, context: Context) -> Writer:
    from sinkql.connectors.kafka.sink.writer import TopicWriter

    return TopicWriter.of(write, context)


def _common(planned: SourcePlan) -> bool:
    """Tell whether a place means the same rows to all: of a compacted topic, who comes late misses old messages."""
    return planned.shape.change is not logical.Change.UPSERT


def _progress(committed: Sequence[Offsets], captured: str | None) -> list[tuple[int, Decimal]]:
    """Return the next offset of each partition, of the sink that is furthest behind in it."""
    found: dict[int, int] = {}
    for offsets in committed:
        for partition, offset in offsets.get("partitions", {}).items():
            found[int(partition)] = min(offset, found.get(int(partition), offset))
    return [(partition, Decimal(offset)) for partition, offset in sorted(found.items())]


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
            facts=find,
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
            common=_common,
        ),
    ),
    messages=FORMATS,
    addresses=(AddressKind(("kafka",), draft_connection, draft_sources),),
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
            facts=sink.find,
            destination=sink.destination,
            encoded=sink.encoded,
            letters=sink.letters,
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
