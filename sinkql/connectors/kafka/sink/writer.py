"""Own a sink's topic while a job runs: a batch is one transaction, with the messages and the sink's progress.

The topic that a sink writes to: made where it is not there, and never another one of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from sinkql import physical
from sinkql.connector_api.stream import (
    Checkpoint,
    Committed,
    Context,
    JobOffsets,
    MessageEncoder,
    PlanChange,
    StaleFilesError,
    Writer,
    WriteResult,
    WriteTask,
    claim_checkpoint,
)
from sinkql.connectors.kafka.admin import Admin, Topic, admin_of
from sinkql.connectors.kafka.client import Client, is_lost
from sinkql.connectors.kafka.sink.partition import Partitioning
from sinkql.connectors.kafka.sink.plan import encoded
from sinkql.connectors.kafka.sink.progress import Progress, ProgressTopic
from sinkql.connectors.kafka.sink.task import Encoders, MessageTask
from sinkql.connectors.kafka.sink.transaction import REFRESH_MS, ProducerFencedError, Transactions, UnknownOutcomeError
from sinkql.errors import FencedError, SinkqlError
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint

_MESSAGES = "messages"
_CLAIMED = "claimed"


@dataclass(slots=True)
class TopicWriter(Writer):
    """Write one sink's messages."""

    write: physical.Write
    context: Context
    client: Client
    _topic_id: str | None = None
    _encoders: Encoders | None = None
    _kept: Progress | None = None
    _transactions: Transactions | None = None
    _mine: str | None = field(default=None)

    @classmethod
    def of(cls, write: physical.Write, context: Context) -> TopicWriter:
        """Return the writer of a job."""
        if write.options.get("letters"):  # beside the sink's own transactions
            context = replace(context, sink_id=f"{context.sink_id}-errors")
        return cls(write, context, Client.carried(write.connection, context.secret))

    def open(self) -> None:
        """Make the topics that are not there; raises SQ4280 where the one that has the sink's messages is gone."""
        ensure_progress_topic(self._admin, self.write.options)
        found = self._progress.find(settled=False)
        if found is not None:
            self._check_topic(found)
        elif self._home.read_small(_CLAIMED) is not None:
            raise self._forgotten()
        else:
            check_kept(self._admin, self.write.options)
            self._topic_id = ensure_topic(self._admin, self.write.options).id

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the marker of the newest transaction."""
        found = self._progress.find(settled=False)
        return found.marker if found is not None else None

    def claim(
        self,
        initial: JobOffsets,
        *,
        epoch: int,
        switch: PlanChange | None = None,
        renew: Callable[[], None] | None = None,
    ) -> Checkpoint:
        """Fence other runs of the sink, and commit a transaction that has nothing but the new marker."""
        self._encoders = self._open_encoders()
        renew = renew or (lambda: None)
        renew()  # to begin breaks off the transaction of whoever has the lease
        self._begin()
        found = self._progress.find(settled=True)
        if found is not None:
            self._check_topic(found)
        renew()  # whoever gets the lease from here on begins later, and then this one cannot commit
        mine = uuid4().hex
        marker = claim_checkpoint(
            found.marker if found is not None else None,
            sink=self.context.sink_id,
            claim=mine,
            initial=initial,
            epoch=epoch,
            switch=switch,
        )
        assert self._topic_id is not None, "not open"
        coming = Progress(marker, self._topic_id, 1) if found is None else found.after(marker, self._topic_id)
        self._mine = mine
        self._send((), coming)
        if not self.write.options.get("letters"):  # whose topic is made anew where it went
            self._home.write_small(_CLAIMED, self._topic_id.encode())
        self._messages.delete_all()
        failpoint.point("claim")
        return marker

    def refresh(self) -> Checkpoint:
        """Return the marker of the newest transaction; raises SQ5101 (fenced), SQ4280.

        A producer that the brokers may have lost makes way for another one: its requests would wait long for an answer.
        """
        if self._transactions is not None and is_lost(self.client, self._transactions.made_at):
            self._end()
        if self._transactions is None:
            self._recover()
        assert self._kept is not None, "refresh before claim"
        self._check_topic(self._kept)
        return self._kept.marker

    def begin(self, *, bucketing: str, buckets: int, cleared: bool = False) -> WriteTask:
        """Return the task of a new attempt."""
        assert self._encoders is not None, "begin before claim"
        assert not cleared, "rows that overwrite each other are made to come and go before they are written"
        write = self.write
        return MessageTask(
            commit=uuid4().hex,
            buckets=buckets if write.key else None,
            key=write.key,
            columns=tuple(column.name for column in write.columns),
            change=write.change,
            debezium=write.mode == "debezium",
            headers=write.options.get("headers"),
            partitioning=self._partitioning(),
            encoders=self._encoders,
            home=self._messages.for_tasks(),
        )

    def commit(self, task: WriteTask, results: Sequence[WriteResult], marker: Checkpoint) -> Committed:
        """Commit one transaction with the messages of these results and the new marker."""
        assert self._kept is not None, "commit before claim"
        names: list[str] = [result.data for result in results if result.data is not None]
        if self._messages.fetch(dict.fromkeys(names)):
            raise StaleFilesError
        paths = [self._messages.folder / name for name in names]
        size = sum(path.stat().st_size for path in paths)
        assert self._topic_id is not None, "not open"
        coming = self._kept.after(marker, self._topic_id)
        try:
            self._send(paths, coming)
        finally:
            self._messages.delete_unused(names)
        return Committed(
            marker=marker,
            snapshot=coming.number,
            rows=sum(result.rows for result in results),
            bytes=size,
            files=0,
        )

    # --- transactions ------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        options = self.write.options
        self._end()
        batch = min(1_000_000, int(self._admin.config(options["topic"]).get("max.message.bytes", 1_000_000)))
        own = f"{self._transactional_id}-{self.context.sink_id}"
        transactions = Transactions(
            self.client, own, options["compression"], batch, options.get("refresh_ms", REFRESH_MS)
        )
        transactions.begin(options["progress_topic"])
        self._transactions = transactions

    def _end(self) -> None:
        if self._transactions is not None:
            self._transactions.close()
            self._transactions = None

    def _send(self, paths: Sequence[Path], coming: Progress) -> None:
        assert self._transactions is not None, "not begun"
        record = (self.write.options["progress_topic"], self.context.sink_id.encode(), coming.encoded())
        try:
            self._transactions.send(self.write.options["topic"], paths, record)
        except ProducerFencedError as error:
            self._end()
            raise self._ousted(str(error)) from None
        except UnknownOutcomeError as error:
            self._end()
            raise error.cause from None
        except BaseException:
            self._end()
            raise
        self._kept = coming

    def _recover(self) -> None:
        """Find out what was committed, after an error that left it open."""
        self._check_mine(self._progress.find(settled=False))
        self._begin()
        try:
            self._kept = self._check_mine(self._progress.find(settled=True))
        except BaseException:
            self._end()  # it is still open
            raise

    def _check_mine(self, found: Progress | None) -> Progress:
        if found is None:
            raise self._forgotten()
        if found.marker.claim != self._mine:
            raise self._fenced(found)
        return found

    def _ousted(self, told: str) -> SinkqlError:
        found = self._progress.find(settled=False)
        if found is None:
            return self._forgotten()
        if found.marker.claim != self._mine:
            return self._fenced(found)
        return SinkqlError(
            "SQ4287",
            f'Kafka has ended a transaction into topic "{self.write.options["topic"]}" before it was committed',
            detail=told,
            hint="The sink looks what was written, and tries again. Let commits be smaller: "
            "ALTER SINK … SET (MAX ROWS PER COMMIT = 100000).",
        )

    def _fenced(self, found: Progress) -> FencedError:
        return FencedError(
            "SQ5101",
            f'another run has taken over topic "{self.write.options["topic"]}"',
            detail=f"It is of epoch {found.marker.epoch}.",
            hint="Nothing is lost: the other run continues from the last commit of this one.",
        )

    def _forgotten(self) -> SinkqlError:
        return SinkqlError(
            "SQ4288",
            f'topic "{self.write.options["progress_topic"]}" does not say any more how far the sink is',
            hint="Drop the sink and create it again, into a new topic: it then writes all rows.",
        )

    # --- what it is made of ------------------------------------------------------------------------------------------

    def _check_topic(self, found: Progress) -> None:
        """Raise SQ4280 where the topic is gone; that of records that did not decode is made anew."""
        if self.write.options.get("letters"):
            self._topic_id = ensure_topic(self._admin, self.write.options).id
            return
        check_same(self._admin, self.write.options["topic"], found.topic_id)
        self._topic_id = found.topic_id

    def _open_encoders(self) -> Encoders:
        value = self._encoder("value")
        assert value is not None, "all messages have values"
        return Encoders(self._encoder("key"), value)

    def _encoder(self, part: Literal["key", "value"]) -> MessageEncoder | None:
        found = encoded(self.write, part)
        if found is None:
            return None
        format_, options, columns = found
        return self.context.encodings[format_].open(options, columns, self.context)

    def _partitioning(self) -> Partitioning | None:
        planned = self.write.options.get("partition_by")
        if planned is None:
            return None
        found = self._admin.topic(self.write.options["topic"])
        return Partitioning(planned, len(found.partitions) if found is not None else 1)

    @property
    def _admin(self) -> Admin:
        return admin_of(self.client)

    @property
    def _progress(self) -> ProgressTopic:
        options, context = self.write.options, self.context
        group = f"{options.get('group', 'sinkql')}-{context.sink_id}"
        return ProgressTopic(
            self.client,
            self._admin,
            options["progress_topic"],
            context.sink_id,
            group,
            self._transactional_id,
            context.folder,
        )

    @property
    def _transactional_id(self) -> str:
        """What the ids of all sinks of the connection begin with."""
        return str(self.write.options.get("transactional_id", "sinkql"))

    @property
    def _home(self) -> StateDirectory:
        """Where a note tells that the sink has claimed its topic."""
        return StateDirectory.of(self.context)

    @property
    def _messages(self) -> StateDirectory:
        """Where tasks put messages by."""
        return StateDirectory.of(self.context, _MESSAGES)


PROGRESS_CONFIG = {"cleanup.policy": "compact", "segment.bytes": str(64 << 20), "min.cleanable.dirty.ratio": "0.1"}
"""The newest progress of each sink is kept, and little of what was before."""


def ensure_topic(admin: Admin, options: Mapping[str, Any]) -> Topic:
    """Return the topic of a sink's planned options, made if it is not there; raises SQ4284."""
    name = options["topic"]
    found = admin.topic(name)
    if found is not None:
        return found
    return admin.create(name, options.get("partitions", -1), options.get("replication", -1), options.get("config", {}))


def ensure_progress_topic(admin: Admin, options: Mapping[str, Any]) -> Topic:
    """Return the topic of progress, made if it is not there."""
    name = options["progress_topic"]
    found = admin.topic(name)
    if found is not None:
        return found
    return admin.create(name, 1, options.get("progress_replication", -1), PROGRESS_CONFIG)


def check_kept(admin: Admin, options: Mapping[str, Any]) -> None:
    """Raise SQ4289 where the topic of progress does not keep the newest record of each key."""
    name = options["progress_topic"]
    policy = admin.config(name).get("cleanup.policy", "compact")
    if "delete" in policy:
        raise SinkqlError(
            "SQ4289",
            f'topic "{name}", in which sinks keep how far they are, has cleanup.policy = {policy}',
            detail="Kafka would delete the newest record of a sink that has not written for a while.",
            hint=f"Run kafka-configs.sh --alter --entity-type topics --entity-name {name} --add-config "
            "cleanup.policy=compact, or name another PROGRESS TOPIC in the connection.",
        )


def check_same(admin: Admin, name: str, wanted: str) -> None:
    """Raise SQ4280 where the topic is gone, or is not the one of the id `wanted`."""
    found = admin.topic(name)
    if found is not None and found.id == wanted:
        return
    what = "does not exist any more" if found is None else "was deleted, and made anew"
    raise SinkqlError(
        "SQ4280",
        f'topic "{name}", which the sink has written to, {what}',
        hint="Drop the sink and create it again: it then writes all rows.",
    )
