"""Error codes of Kafka's brokers and schema registries while sources and sinks run."""

from __future__ import annotations

from functools import partial

from sinkql.errors.code import Code, Family

_code = partial(Code, Family.ENVIRONMENT)

CODES = {
    "SQ4260": _code(
        "A schema registry cannot be reached.",
        "Check URL in CREATE CONNECTION, and that the registry runs.",
        retryable=True,
    ),
    "SQ4261": _code(
        (
            "A schema registry rejects the connection's user, password or certificate, or the user may not read "
            "its schemas."
        ),
        "Check USER and PASSWORD, or SSL CERTIFICATE and SSL KEY, in CREATE CONNECTION.",
        retryable=True,
    ),
    "SQ4262": _code(
        "The server at URL is no schema registry.",
        "Correct URL in CREATE CONNECTION.",
        retryable=True,
    ),
    "SQ4263": _code(
        (
            "This machine does not trust the certificate authority of a schema registry, or the server at URL "
            "does not use TLS."
        ),
        "Set SSL CERTIFICATE AUTHORITY to the authority's certificate, or correct URL in CREATE CONNECTION.",
        retryable=True,
    ),
    "SQ4264": _code(
        "A certificate or key of a schema registry connection is not valid PEM, or the two do not belong together.",
        "Store the whole text of the PEM files in the secrets: ALTER SECRET name AS file('key.pem').",
        retryable=True,
    ),
    "SQ4265": _code(
        "A schema registry returned an error.",
        "Read the detail and the log of the registry.",
        retryable=True,
    ),
    "SQ4266": _code(
        "FORMAT PROTOBUF needs the packages protobuf and grpcio-tools.",
        "Run pip install 'sinkql[protobuf]'.",
    ),
    "SQ4267": _code(
        (
            "A schema registry rejects the schema of a sink's columns, because it is not compatible with the "
            "subject's earlier schemas."
        ),
        "Set another COMPATIBILITY LEVEL, or write into a new topic.",
        retryable=True,
    ),
    "SQ4270": _code(
        "No Kafka broker answers.",
        "Check BROKER in CREATE CONNECTION, and that Kafka runs.",
        retryable=True,
    ),
    "SQ4271": _code(
        "Kafka rejects the login of a connection's user.",
        "Check SASL USERNAME, SASL PASSWORD and SASL MECHANISMS in CREATE CONNECTION.",
        retryable=True,
    ),
    "SQ4272": _code(
        (
            "This machine does not trust the certificate authority of a Kafka broker, or the broker rejects the "
            "connection's certificate."
        ),
        "Set SSL CERTIFICATE AUTHORITY to the authority's certificate, or check SSL CERTIFICATE and SSL KEY.",
        retryable=True,
    ),
    "SQ4273": _code(
        "A Kafka broker uses another protocol at this port than the connection.",
        "Check SECURITY PROTOCOL and BROKER in CREATE CONNECTION.",
        retryable=True,
    ),
    "SQ4274": _code(
        "Kafka has no topic of this name, or the connection's user may not see it.",
        "Check TOPIC, or create the topic.",
    ),
    "SQ4275": _code(
        "The connection's user may not read the Kafka topic.",
        "Grant the user DESCRIBE and READ on the topic.",
        retryable=True,
    ),
    "SQ4276": _code(
        "A certificate or key of a Kafka connection is not valid PEM, or the two do not belong together.",
        "Store the whole text of the PEM files in the secrets: ALTER SECRET name AS file('key.pem').",
        retryable=True,
    ),
    "SQ4277": _code(
        "Kafka returned an error.",
        "Read the detail and the log of the brokers.",
        retryable=True,
    ),
    "SQ4278": _code(
        "The brokers of one of the topic's partitions do not answer, but other brokers do.",
        "Start these brokers.",
        retryable=True,
    ),
    "SQ4279": _code(
        "START OFFSET has more offsets than the topic has partitions.",
        "Write one offset for each partition. SinkQL reads partitions that are added later from their beginning.",
    ),
    "SQ4280": _code(
        (
            "The sink's topic was deleted, and perhaps created again. Its earlier messages are gone, and later "
            "messages alone would be incomplete."
        ),
        "Drop the sink and create it again. It then writes all rows.",
    ),
    "SQ4281": _code(
        "The connection's user may not write to the topic, write to the progress topic, or use transactions.",
        "Grant the user WRITE, DESCRIBE and READ on both topics, and WRITE and DESCRIBE on the transactional id.",
        retryable=True,
    ),
    "SQ4282": _code(
        "A message of a sink is larger than the topic or the brokers allow.",
        "Raise max.message.bytes of the topic, or leave out columns in a materialized view.",
        retryable=True,
    ),
    "SQ4283": _code(
        "A topic disappeared while a sink wrote to it. Nothing of the transaction was committed.",
        "You need not do anything: the sink checks again. If the topic is deleted, the sink stops.",
        retryable=True,
    ),
    "SQ4284": _code(
        "The brokers refuse to create the sink's topic.",
        "Correct TOPIC PARTITION COUNT, TOPIC REPLICATION FACTOR and TOPIC CONFIG, or create the topic.",
        retryable=True,
    ),
    "SQ4285": _code(
        (
            "Another program has an open transaction in the progress topic, so the sink cannot read later "
            "records. SinkQL itself ends open transactions of its sinks after ten seconds."
        ),
        (
            "Wait: Kafka ends the transaction after ten minutes. If several catalogs share brokers, use a "
            "separate PROGRESS TOPIC for each."
        ),
        retryable=True,
    ),
    "SQ4286": _code(
        "The brokers do not allow transactions of ten minutes, which sinks need.",
        "Set transaction.max.timeout.ms = 600000 or more on the brokers.",
        retryable=True,
    ),
    "SQ4287": _code(
        (
            "Kafka ended a sink's transaction before its commit. This happens after ten minutes, or when another "
            "sink has waited for this commit for ten seconds."
        ),
        "Make commits smaller: ALTER SINK … SET (MAX ROWS PER COMMIT = …).",
        retryable=True,
    ),
    "SQ4288": _code(
        (
            "The progress topic no longer has the record of a sink's commit. The record was deleted, or the topic "
            "does not keep the newest record of each key."
        ),
        "Drop the sink and create it again with a new topic.",
    ),
    "SQ4289": _code(
        (
            "The progress topic deletes old records, including the newest record of a sink. Without it, the sink "
            "cannot continue."
        ),
        "Set cleanup.policy = compact for the topic, or name another PROGRESS TOPIC in the connection.",
    ),
}
