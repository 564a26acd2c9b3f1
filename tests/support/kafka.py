"""A real Kafka broker on free ports of this machine; its listeners are with and without SASL and TLS."""

from __future__ import annotations

import base64
import ctypes
import signal
import subprocess
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, ElectionType, IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from support.authority import authority
from support.java import java
from support.kafka_account import account
from support.kafka_archive import JARS, archive
from support.patience import PATIENCE_S, Deadline
from support.port import held_ports

_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
_TELLING = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    *(
        f"-Dorg.slf4j.simpleLogger.log.{name}=info"
        for name in (
            "kafka.coordinator.transaction",
            "org.apache.kafka.coordinator.transaction",
            "org.apache.kafka.controller.BrokerHeartbeatManager",
        )
    ),
)
_CLUSTER, _RECORDS = "AAAAAAAAQACAAAAAAAAAAQ", "bootstrap.checkpoint"
USER, PASSWORD = "ann", "open sesame"
"""The user of SASL, with any mechanism."""


class _Silent:
    """A logger that keeps the last lines of the client library, which would go to stderr while a broker is down."""

    def __init__(self) -> None:
        self.last: deque[str] = deque(maxlen=20)

    def log(self, level: int, text: str, *args: object) -> None:
        """Keep a line."""
        self.last.append(f"{time.strftime('%H:%M:%S', time.gmtime())} {text % args}")

    debug = info = warning = error = critical = log


@dataclass
class Kafka:
    """A broker that can be stopped, killed and restarted, with the same ports and topics.

    `trusted` is the certificate of the authority that signed the broker's; `identity` has the broker's key and
    certificate. The first broker of a cluster is its controller; later ones have the controller's port. With a
    `domain`, clients of all listeners but plain text see the broker as `broker-1.domain`. `more` are additional
    settings, `options` additional ones of Java.
    """

    folder: Path
    ports: Sequence[int]
    trusted: Path
    identity: Path
    number: int = 1
    controller: int = 0
    domain: str = ""
    more: Mapping[str, str] = field(default_factory=dict)
    options: Sequence[str] = ()
    _process: subprocess.Popen[bytes] | None = None
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _admin: Any = None
    _producer: Any = None
    _clients: _Silent = field(default_factory=_Silent)

    @property
    def address(self) -> str:
        """The address for plain text without a user."""
        return f"127.0.0.1:{self.ports[0]}"

    @property
    def sasl_address(self) -> str:
        """The address for plain text with a user."""
        return f"127.0.0.1:{self.ports[2]}"

    @property
    def ssl_address(self) -> str:
        """The address for TLS; a client certificate is optional."""
        return f"127.0.0.1:{self.ports[3]}"

    @property
    def sasl_ssl_address(self) -> str:
        """The address for TLS with a user."""
        return f"127.0.0.1:{self.ports[4]}"

    @property
    def log(self) -> Path:
        """The broker's log."""
        return self.folder / "log"

    def account(self) -> str:
        """Return the state of the broker, for the message of a wait that failed."""
        return "\n".join([*self._clients.last, account(self._process, self.admin, self.address, self.log)])

    def initialize(self) -> None:
        """Create the folder of a new broker; skip the test if `make test` could not fetch Kafka's jars."""
        if not JARS.is_dir():
            pytest.skip("the jars of Kafka could not be fetched from Maven's repository: run make kafka")
        (self.folder / "server.properties").write_text(_properties(self._settings()))
        data = self.folder / "data"
        data.mkdir()
        (data / _RECORDS).write_bytes(_bootstrap())
        directory = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        of = {"version": "1", "cluster.id": _CLUSTER, "node.id": str(self.number), "directory.id": directory}
        (data / "meta.properties").write_text(_properties(of))

    def start(self) -> None:
        """Start the broker, and wait until it answers."""
        program = ["-cp", f"{JARS}/*", "kafka.Kafka", "server.properties"]
        command = [java(), *_JAVA, *archive(), *self.options, _QUIET, *_TELLING, *program]
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log)
        self._process = process
        deadline = Deadline()
        while True:
            assert process.poll() is None, self.log.read_text()[-4000:]
            deadline.check("an answer of Kafka")
            with suppress(KafkaException):
                if self.number in self.admin.list_topics(timeout=1).brokers:
                    return

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Stop the broker; SIGTERM shuts it down, SIGKILL crashes it."""
        self._producer = None  # it would retry in vain and then wait
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE_S)
            self._process = None

    def restart(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Stop the broker and start it again."""
        self.stop(how)
        self.start()

    @property
    def admin(self) -> Any:
        """A client with all rights."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.address, "logger": _Silent(), "log_level": 0})
        return self._admin

    def topic(
        self, partitions: int = 1, name: str | None = None, brokers: Sequence[Sequence[int]] = (), **config: str
    ) -> str:
        """Create a topic; return its name. `brokers` lists the replicas of each partition, the leader first."""
        named = name or f"t{next(self._numbers)}"
        dotted = {label.replace("_", "."): value for label, value in config.items()}
        new = NewTopic(named, partitions, 1, config=dotted)
        if brokers:
            partitions, new = (
                len(brokers),
                NewTopic(named, len(brokers), replica_assignment=list(brokers), config=dotted),
            )
        self.admin.create_topics([new])[named].result()
        self._settled(named, partitions)
        return named

    def delete(self, topic: str) -> None:
        """Delete a topic, and wait until the brokers no longer list it."""
        self.admin.delete_topics([topic])[topic].result()
        deadline = Deadline()
        while topic in self.admin.list_topics(timeout=PATIENCE_S).topics:
            deadline.check("the end of a topic")

    def grow(self, topic: str, partitions: int) -> None:
        """Increase the number of a topic's partitions."""
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()
        self._settled(topic, partitions)

    def elect(self, topic: str) -> None:
        """Make the preferred broker of each partition its leader again."""
        places = [TopicPartition(topic, each) for each in self.ends(topic, committed=False)]
        for error in self.admin.elect_leaders(ElectionType.PREFERRED, places).result().values():
            assert error is None or error.code() == KafkaError.ELECTION_NOT_NEEDED, error

    def follow(self, topic: str) -> None:
        """Wait until all replicas of a topic are in sync."""
        deadline = Deadline()
        while any(len(each.isrs) < len(each.replicas) for each in self._partitions(topic)):
            deadline.check("the followers of a topic")

    def _partitions(self, topic: str) -> Sequence[Any]:
        found: Sequence[Any] = self.admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions.values()
        return found

    def forget(self, topic: str, before: int, partition: int = 0) -> None:
        """Delete the records of a partition before an offset, as retention does."""
        place = TopicPartition(topic, partition, before)
        self.admin.delete_records([place])[place].result()

    def ends(self, topic: str, *, committed: bool = True) -> dict[int, int]:
        """Return the ends of a topic's partitions: the last stable offsets, or the high watermarks."""
        partitions = self.admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = {TopicPartition(topic, each): OffsetSpec.latest() for each in partitions}
        deadline = Deadline()
        while True:
            found = self.admin.list_offsets(asked, isolation_level=level)
            try:
                return {place.partition: future.result().offset for place, future in found.items()}
            except KafkaException as error:  # the client still knows the previous leader
                if error.args[0].code() not in (KafkaError.FENCED_LEADER_EPOCH, KafkaError.NOT_LEADER_FOR_PARTITION):
                    raise
            deadline.check("the leaders of a topic")
            self.admin.list_topics(topic, timeout=PATIENCE_S)

    def settle(self, topic: str) -> None:
        """Wait until no transaction is open: brokers write their end markers with a delay."""
        deadline = Deadline()
        while self.ends(topic) != self.ends(topic, committed=False):
            deadline.check("the end of transactions")

    def committed(self, topic: str, ends: Mapping[int, int]) -> list[Any]:
        """Return the committed messages before these offsets, ordered by partition."""
        found: dict[int, list[Any]] = {partition: [] for partition in ends}
        left = {partition: end for partition, end in ends.items() if end}
        # without offsets to commit, the consumer closes fast; else it may wait for minutes
        settings: dict[str, Any] = {"bootstrap.servers": self.address, "group.id": "check", "fetch.wait.max.ms": 10}
        settings |= {"isolation.level": "read_committed", "enable.partition.eof": True, "enable.auto.commit": False}
        consumer = Consumer(settings | {"auto.offset.reset": "error"})
        try:
            consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
            deadline = Deadline()
            while left:
                message = consumer.poll(0.1)
                if message is None:
                    deadline.check("the messages of a topic")
                    continue
                partition, ended = message.partition(), message.error() is not None
                assert not ended or message.error().code() == KafkaError._PARTITION_EOF, message.error()
                if partition in left and not ended and message.offset() < left[partition]:
                    found[partition].append(message)
                if message.offset() + (not ended) >= left.get(partition, 0):
                    left.pop(partition, None)
        finally:
            consumer.close()
        return [message for partition in ends for message in found[partition]]

    def producer(self, **config: Any) -> Any:
        """Return the shared producer, or a new one if there are settings.

        With `transactional_id`, its transactions are initialized.
        """
        if config:
            return self._new_producer(**config)
        if self._producer is None:
            self._producer = self._new_producer()
        return self._producer

    def _new_producer(self, **config: Any) -> Any:
        dotted = {label.replace("_", "."): value for label, value in config.items()}
        # idempotence: messages that are sent again arrive in order, and once
        settings = {"bootstrap.servers": self.address, "linger.ms": 1, "enable.idempotence": True}
        settings |= {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100}
        made = Producer({**settings, "logger": self._clients, **dotted})
        # an unconnected producer waits half a second before it asks for its id
        made.list_topics(timeout=PATIENCE_S)
        if "transactional_id" in config:
            made.init_transactions(PATIENCE_S)
        return made

    def send(self, topic: str, *values: bytes | str | None, partition: int = 0, **more: Any) -> None:
        """Append messages to a partition, and wait until the broker has them."""
        producer, found = self.producer(), []
        producer.list_topics(topic, timeout=PATIENCE_S)  # the producer may know fewer partitions
        for value in values:
            more["on_delivery"] = lambda error, _: found.append(error)
            producer.produce(topic, value, partition=partition, **more)
        assert producer.flush(PATIENCE_S) == 0
        assert not any(found), found

    def send_raw(self, topic: str, header: bytes) -> None:
        """Append a message with any bytes as the header's name, with the C library inside Python's client."""
        library = next((Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka-*"))
        c = ctypes.CDLL(str(library))
        for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_headers_new"):
            getattr(c, name).restype = ctypes.c_void_p
        conf, wrong = ctypes.c_void_p(c.rd_kafka_conf_new()), ctypes.create_string_buffer(512)
        for setting, value in ((b"bootstrap.servers", self.address.encode()), (b"log_level", b"0")):
            c.rd_kafka_conf_set(conf, setting, value, wrong, 512)
        producer, headers = (
            ctypes.c_void_p(c.rd_kafka_new(0, conf, wrong, 512)),
            ctypes.c_void_p(c.rd_kafka_headers_new(1)),
        )
        c.rd_kafka_header_add(headers, header, len(header), b"v", 1)
        named, of_partition, of_value, of_headers, copied = 1, 3, 4, 10, (7, 2)
        where = (named, topic.encode(), of_partition, 0)
        done = c.rd_kafka_producev(
            producer, *where, of_value, b"x", ctypes.c_size_t(1), *copied, of_headers, headers, 0
        )
        assert done == 0
        assert c.rd_kafka_flush(producer, int(PATIENCE_S * 1000)) == 0
        c.rd_kafka_destroy(producer)

    def add_scram_user(self, user: str, password: str) -> None:
        """Add a SCRAM user, for both hashes."""
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4096)
            change = UserScramCredentialUpsertion(user, info, password.encode())
            self.admin.alter_user_scram_credentials([change])[user].result()

    def reserve_group(self, group: str, user: str) -> None:
        """Allow only one user to use a consumer group."""
        who = (f"User:{user}", "*", AclOperation.READ, AclPermissionType.ALLOW)
        binding = AclBinding(ResourceType.GROUP, group, ResourcePatternType.LITERAL, *who)
        self.admin.create_acls([binding])[binding].result()

    def _settled(self, topic: str, partitions: int) -> None:
        deadline = Deadline()
        while True:
            found = self._partitions(topic)
            if len(found) == partitions and all(each.leader >= 0 for each in found):
                return
            deadline.check("the leaders of a topic")

    def _settings(self) -> Mapping[str, str]:
        plain, controller, sasl, ssl, sasl_ssl = self.ports
        names = {"PLAINTEXT": plain, "SASL_PLAINTEXT": sasl, "SSL": ssl, "SASL_SSL": sasl_ssl}
        listeners = [f"{name}://127.0.0.1:{port}" for name, port in names.items()]
        own = f"broker-{self.number}.{self.domain}" if self.domain else "127.0.0.1"
        advertised = [f"{name}://{'127.0.0.1' if name == 'PLAINTEXT' else own}:{port}" for name, port in names.items()]
        module = "org.apache.kafka.common.security"
        login = f'{module}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        scram = f"{module}.scram.ScramLoginModule required;"
        users = {
            f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config": login if mechanism == "PLAIN" else scram
            for name in ("sasl_plaintext", "sasl_ssl")
            for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
        }
        return {
            "process.roles": "broker" if self.controller else "broker,controller",
            "node.id": str(self.number),
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller or controller}",
            "listeners": ",".join([*listeners, *([] if self.controller else [f"CONTROLLER://127.0.0.1:{controller}"])]),
            "advertised.listeners": ",".join(advertised),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT," + ",".join(f"{name}:{name}" for name in names),
            "log.dirs": str(self.folder / "data"),
            "broker.session.timeout.ms": "3000",
            # what an idle broker does costs half a CPU-minute in half an hour
            "broker.heartbeat.interval.ms": "1000",
            "log.cleaner.backoff.ms": "500",
            "metadata.max.idle.interval.ms": "0",
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            **users,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.identity),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
            "ssl.client.auth": "requested",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
            **self.more,
        }


@cache
def _bootstrap() -> bytes:
    """Return the records that Kafka's own program writes into each new folder of data; it takes a second."""
    with tempfile.TemporaryDirectory(prefix="formatted-") as folder, held_ports(5) as ports:
        settings = Kafka(Path(folder), ports, *authority(Path(folder)))._settings()
        Path(folder, "server.properties").write_text(_properties(settings))
        program = ["-cp", f"{JARS}/*", "kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", "server.properties"]
        command = [java(), *_JAVA, *archive(), _QUIET, *program]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr
        return Path(folder, "data", _RECORDS).read_bytes()


def _properties(settings: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())


@contextmanager
def another(first: Kafka, number: int = 2) -> Iterator[Kafka]:
    """Run another broker of a cluster until the block ends."""
    with tempfile.TemporaryDirectory(prefix="kafka-") as folder, held_ports(5) as ports:
        server = Kafka(Path(folder), ports, first.trusted, first.identity, number, first.ports[1], first.domain)
        server.initialize()
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def kafka(
    domain: str = "", more: Mapping[str, str] = MappingProxyType({}), options: Sequence[str] = ()
) -> Iterator[Kafka]:
    """Run a new broker, with additional settings and options of Java, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="kafka-") as folder, held_ports(5) as ports:
        names = [f"*.{domain}"] if domain else []
        server = Kafka(Path(folder), ports, *authority(Path(folder), *names), domain=domain, more=more, options=options)
        server.initialize()
        server.start()
        server.add_scram_user(USER, PASSWORD)
        try:
            yield server
        finally:
            server.stop()
