"""Kafka: connections, and sources of topics.

* `connection`: the statement's options → the plan's, checked.
* `formats`: FORMAT JSON, CSV, TEXT and BYTES of messages → columns and the decoder's options.
* `plan`: the statement → columns of key, value and metadata, and the reader's options.
* `client`: a planned connection → what the client library is told, and what its failures mean.
* `admin`: what brokers say of a topic.
* `reader`: offsets → splits → rows; `consume`: a split → messages; `rows`: messages → rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from sinkql import logical, physical
from sinkql.connectors.kafka.connection import KIND, OWNER, KafkaOptions, plan_connection
from sinkql.connectors.kafka.formats import FORMATS
from sinkql.connectors.kafka.plan import SourceOptions, TopicOptions, ask_formats, find, plan
from sinkql.extension.plan import Access, ConnectionKind, Connector, Later, SourceKind
from sinkql.extension.stream import Context, Reader


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of INTO KAFKA CONNECTION."""

    topic: str
    compression_type: str | None = None
    partition_by: str | None = None
    progress_group_id_prefix: str | None = None
    transactional_id_prefix: str | None = None
    legacy_ids: bool = False
    topic_partition_count: int | None = None
    topic_replication_factor: int | None = None
    topic_config: dict[str, str] = field(default_factory=dict)
    topic_metadata_refresh_interval: timedelta = timedelta(seconds=60)


_CONNECTION = """\
The connection is checked when it is created, unless `WITH (VALIDATE = false)` stands after its options. Certificates
and keys are texts in PEM, as `SECRET name`."""

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
what is in itself, are `jsonb`. `FORMAT AVRO USING SCHEMA '…'` and `FORMAT PROTOBUF MESSAGE 'name' USING SCHEMA '…'`
need no registry. PROTOBUF needs `pip install 'sinkql[protobuf]'`.

`ENVELOPE NONE`: each message is a row. `ENVELOPE UPSERT`: the row of its key; a message without a value takes the row
away. The key is the column `key`, or the columns of `PRIMARY KEY (…) NOT ENFORCED`, which are read from the message's
key. With `(VALUE DECODING ERRORS = INLINE)` a value that does not decode is told in the column `error`.

`ENVELOPE DEBEZIUM`, of JSON and Avro: the row of `after`, by its key; a deletion takes the row away. With JSON, declare
the columns and `PRIMARY KEY (…) NOT ENFORCED`. Where messages have a schema part, it says what values are; without one
numbers are days for a `date`, and microseconds for a `time`, `timestamp`, `timestamptz` and `interval`, and a `bytea`
is in base64. A message that a table was emptied is an invalid row.

A batch ends before open transactions. Where the topic is made anew, or deletes messages before they are read, the sink
stops and says so."""


def _validate(connection: logical.Connection, access: Access) -> None:
    from sinkql.connectors.kafka.admin import admin_of  # the client library, only where it is used
    from sinkql.connectors.kafka.client import Client

    admin_of(Client.of(connection.name, connection.options, access.secret)).check()


def _open_reader(read: physical.Read, context: Context) -> Reader:
    from sinkql.connectors.kafka.reader import KafkaReader

    return KafkaReader.of(read, context)


connector = Connector(
    "kafka",
    connections=(
        ConnectionKind(
            KIND, plan_connection, KafkaOptions, OWNER, ("BROKER", "BROKERS"), validate=_validate, about=_CONNECTION
        ),
    ),
    sources=(
        SourceKind(
            "KAFKA",
            plan,
            _open_reader,
            TopicOptions,
            SourceOptions,
            facts=find,
            sample=ask_formats,
            messages=True,
            about=_ABOUT,
        ),
    ),
    messages=FORMATS,
    later=(Later("SINK", "KAFKA", SinkOptions),),
    tasks=("sinkql.connectors.kafka.reader", "sinkql.decode.messages", "sinkql.decode.debezium"),
)
