"""Error codes of Kafka's brokers and schema registries while sources and sinks run."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.ENVIRONMENT)

CODES = {
    "SQ4260": _code(
        "A schema registry cannot be reached.",
        "Check URL in CREATE CONNECTION, and that the registry runs. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4261": _code(
        "A schema registry rejects the user, the password or the certificate of its connection, or does not let the "
        "user read its schemas.",
        "Check USER and PASSWORD, or SSL CERTIFICATE and SSL KEY, in CREATE CONNECTION. A running sink tries again by "
        "itself.",
        retryable=True,
    ),
    "SQ4262": _code(
        "URL of the connection is not the address of a schema registry.",
        "Correct URL in CREATE CONNECTION. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4263": _code(
        "The certificate of a schema registry is not signed by an authority that this machine trusts, or the server at "
        "URL does not use TLS.",
        "Give the authority's certificate in SSL CERTIFICATE AUTHORITY, or correct URL in CREATE CONNECTION. A running "
        "sink tries again by itself.",
        retryable=True,
    ),
    "SQ4264": _code(
        "A certificate or key of a schema registry connection is not one in PEM, or the two do not belong together.",
        "Give the secrets the whole text of the PEM files: ALTER SECRET name AS file('key.pem'). A running sink tries "
        "again by itself.",
        retryable=True,
    ),
    "SQ4265": _code(
        "A schema registry answers with an error of its own.",
        "Look at the detail and the log of the registry. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4266": _code(
        "FORMAT PROTOBUF needs protobuf and grpcio-tools, which an extra of SinkQL installs.",
        "Run pip install 'sinkql[protobuf]'.",
    ),
    "SQ4267": _code(
        "A schema registry does not take the schema of a sink's columns, as the subject has schemas that it is not "
        "compatible with.",
        "Set another COMPATIBILITY LEVEL, or write into a new topic. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4270": _code(
        "No broker of Kafka answers.",
        "Check BROKER in CREATE CONNECTION, and that Kafka runs. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4271": _code(
        "Kafka does not let the user of a connection in.",
        "Check SASL USERNAME, SASL PASSWORD and SASL MECHANISMS in CREATE CONNECTION. A running sink tries again by "
        "itself.",
        retryable=True,
    ),
    "SQ4272": _code(
        "The certificate of a broker of Kafka is not signed by an authority that this machine trusts, or it rejects "
        "that of the connection.",
        "Give the authority's certificate in SSL CERTIFICATE AUTHORITY, or check SSL CERTIFICATE and SSL KEY. A "
        "running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4273": _code(
        "A broker of Kafka speaks another protocol at this port than the connection does.",
        "Check SECURITY PROTOCOL and BROKER in CREATE CONNECTION. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4274": _code(
        "Kafka has no topic of this name, or hides it from the user of the connection.",
        "Check TOPIC, or create the topic.",
    ),
    "SQ4275": _code(
        "Kafka does not allow the user of the connection to read the topic.",
        "Grant the user DESCRIBE and READ on the topic. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4276": _code(
        "A certificate or a key of a connection to Kafka is not one in PEM, or the two do not belong together.",
        "Give the secrets the whole text of the PEM files: ALTER SECRET name AS file('key.pem'). A running sink tries "
        "again by itself.",
        retryable=True,
    ),
    "SQ4277": _code(
        "Kafka answers with an error of its own.",
        "Look at the detail and the log of the brokers. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4278": _code(
        "The brokers that have a partition of a topic do not answer, and others do.",
        "Start these brokers. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4279": _code(
        "START OFFSET has more offsets than the topic has partitions.",
        "Give an offset for each partition. Partitions that come later are read from their beginning.",
    ),
    "SQ4280": _code(
        "The topic that a sink has written to was deleted, and may have been made anew. What the sink has written is "
        "gone, and its next messages alone would not be what it reads.",
        "Drop the sink and create it again: it then writes all rows.",
    ),
    "SQ4281": _code(
        "Kafka does not allow the user of the connection to write to the topic, to the topic of progress, or in "
        "transactions.",
        "Grant the user WRITE, DESCRIBE and READ on both topics, and WRITE and DESCRIBE on the transactional id. A "
        "running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4282": _code(
        "A message of a sink is larger than its topic, or the brokers, allow.",
        "Raise max.message.bytes of the topic, or leave out columns in a materialized view. A running sink tries again "
        "by itself.",
        retryable=True,
    ),
    "SQ4283": _code(
        "A topic went away while a sink wrote to it. Nothing of the transaction was committed.",
        "A running sink looks again by itself, and stops where the topic is gone for good.",
        retryable=True,
    ),
    "SQ4284": _code(
        "The brokers refuse to make the topic of a sink.",
        "Correct TOPIC PARTITION COUNT, TOPIC REPLICATION FACTOR and TOPIC CONFIG, or make the topic. A running sink "
        "tries again by itself.",
        retryable=True,
    ),
    "SQ4285": _code(
        "Somebody began a transaction in the topic of progress and has not ended it. What comes behind it cannot be "
        "read until then. What a sink of the connection leaves open, others end after ten seconds; this is another's.",
        "A running sink tries again by itself; Kafka ends the transaction after ten minutes. Give catalogs that share "
        "brokers a PROGRESS TOPIC each.",
        retryable=True,
    ),
    "SQ4286": _code(
        "The brokers do not allow transactions that may take as long as those of sinks, which is ten minutes.",
        "Set transaction.max.timeout.ms = 600000 or more on the brokers. A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4287": _code(
        "Kafka has ended a sink's transaction before it was committed, as it does after ten minutes, or for another "
        "sink that has waited for ten seconds for this one's commit.",
        "Let commits be smaller: ALTER SINK … SET (MAX ROWS PER COMMIT = …). A running sink tries again by itself.",
        retryable=True,
    ),
    "SQ4288": _code(
        "A sink has committed to its topic, and the topic of progress does not have its record any more: it was "
        "deleted, or does not keep the newest record of each key.",
        "Drop the sink and create it again, into a new topic.",
    ),
    "SQ4289": _code(
        "The topic of progress deletes old records, also the newest of a sink, without which the sink could not go on.",
        "Set cleanup.policy = compact for the topic, or name another PROGRESS TOPIC in the connection.",
    ),
}
