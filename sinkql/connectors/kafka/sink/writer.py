"""Own a sink's topic while a job runs: create it, and commit each batch as one transaction.

A transaction has the messages and the sink's progress. The writer never continues in another topic of the same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from sinkql import physical
from sinkql.connector_api.stream import (
    Checkpoint,
    ClaimRequest,
    Committed,
    Context,
    MessageEncoder,
    StaleFilesError,
    Writer,
    WriteResult,
    WriteTask,
    claim_checkpoint,
)
from sinkql.connectors.kafka.admin import Admin, Topic, admin_of
from sinkql.connectors.kafka.client import Client, is_lost
from sinkql.connectors.kafka.options import WriteOptions
from sinkql.connectors.kafka.sink.partition import Partitioning
from sinkql.connectors.kafka.sink.plan import encoded
from sinkql.connectors.kafka.sink.progress import Progress, ProgressTopic
from sinkql.connectors.kafka.sink.task import Encoders, MessageTask
from sinkql.connectors.kafka.sink.transaction import REFRESH_MS, ProducerFencedError, Transactions, UnknownOutcomeError
from sinkql.errors import FencedError, SinkqlError
from sinkql.machine.randomness import new_id
from sinkql.state_store.directory import StateDirectory
from sinkql.storage import failpoint

_MESSAGES = "messages"
_CLAIMED = "claimed"


@dataclass(slots=True)
class TopicWriter(Writer):
    """The writer of one sink. `open` comes first, then `claim`, then any number of `refresh`, `begin` and `commit`."""

    write: physical.Write
    context: Context
    options: WriteOptions
    client: Client
    _topic_id: str | None = None
    _encoders: Encoders | None = None
    _committed: Progress | None = None
    _transactions: Transactions | None = None
    _claim: str | None = None

    @classmethod
    def of(cls, write: physical.Write, context: Context) -> TopicWriter:
        """Return the writer of a job."""
        options = WriteOptions.from_plan(write.options)
        if options.letters:  # a producer besides the sink's
            context = replace(context, sink_id=f"{context.sink_id}-errors")
        return cls(write, context, options, Client.carried(write.connection, context.secret))

    def open(self) -> None:
        """Create missing topics. Raise SQ4280 if the topic with the sink's messages was deleted."""
        ensure_progress_topic(self._admin, self.options)
        progress = self._progress.find(settled=False)
        if progress is not None:
            self._check_topic(progress)
        elif self._state.read_small(_CLAIMED) is not None:
            raise self._lost_progress_error()
        else:
            check_compacted(self._admin, self.options)
            self._topic_id = ensure_topic(self._admin, self.options).id

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the checkpoint of the newest transaction."""
        progress = self._progress.find(settled=False)
        return progress.checkpoint if progress is not None else None

    def claim(self, request: ClaimRequest) -> Checkpoint:
        """Fence other runs of the sink, and commit a transaction with only the new checkpoint."""
        self._encoders = self._open_encoders()
        renew = request.renew or (lambda: None)
        renew()  # fail if the lease is lost: `_begin` aborts the transaction of its holder
        self._begin()
        progress = self._progress.find(settled=True)
        if progress is not None:
            self._check_topic(progress)
        renew()  # a later holder of the lease begins after this point, and fences this producer
        claim = new_id()
        checkpoint = claim_checkpoint(
            progress.checkpoint if progress is not None else None, request, sink=self.context.sink_id, claim=claim
        )
        assert self._topic_id is not None, "not open"
        next_progress = (
            Progress(checkpoint, self._topic_id, 1) if progress is None else progress.next(checkpoint, self._topic_id)
        )
        self._claim = claim
        self._send((), next_progress)
        if not self.options.letters:  # a deleted topic of dead letters is recreated
            self._state.write_small(_CLAIMED, self._topic_id.encode())
        self._messages.delete_all()
        failpoint.point("claim")
        return checkpoint

    def refresh(self) -> Checkpoint:
        """Return the checkpoint of the newest transaction. Raise SQ5101 if the run is fenced, or SQ4280.

        A producer whose connections may be lost is replaced: its requests could wait long for an answer.
        """
        if self._transactions is not None and is_lost(self.client, self._transactions.created_at):
            self._end()
        if self._transactions is None:
            self._recover()
        assert self._committed is not None, "refresh before claim"
        self._check_topic(self._committed)
        return self._committed.checkpoint

    def begin(self, *, bucketing: str, buckets: int, cleared: bool = False) -> WriteTask:
        """Return the task of a new attempt."""
        assert self._encoders is not None, "begin before claim"
        assert not cleared, "overwritten rows become changes before they are written"
        write = self.write
        return MessageTask(
            commit=new_id(),
            buckets=buckets if write.key else None,
            key=write.key,
            columns=tuple(column.name for column in write.columns),
            change=write.change,
            debezium=write.mode == "debezium",
            headers=self.options.headers,
            partitioning=self._partitioning(),
            encoders=self._encoders,
            home=self._messages.for_tasks(),
        )

    def commit(self, task: WriteTask, results: Sequence[WriteResult], marker: Checkpoint) -> Committed:
        """Commit one transaction with the messages of the results and the new checkpoint."""
        assert self._committed is not None, "commit before claim"
        names: list[str] = [result.data for result in results if result.data is not None]
        if self._messages.fetch(dict.fromkeys(names)):
            raise StaleFilesError
        paths = [self._messages.folder / name for name in names]
        size = sum(path.stat().st_size for path in paths)
        assert self._topic_id is not None, "not open"
        progress = self._committed.next(marker, self._topic_id)
        try:
            self._send(paths, progress)
        finally:
            self._messages.delete_unused(names)
        return Committed(
            checkpoint=marker,
            snapshot=progress.number,
            rows=sum(result.rows for result in results),
            bytes=size,
            files=0,
        )

    # --- transactions ------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        options = self.options
        self._end()
        batch_bytes = min(1_000_000, int(self._admin.config(options.topic).get("max.message.bytes", 1_000_000)))
        transactional_id = f"{options.transactional_id}-{self.context.sink_id}"
        transactions = Transactions(
            self.client, transactional_id, options.compression, batch_bytes, options.refresh_ms or REFRESH_MS
        )
        transactions.begin(options.progress_topic)
        self._transactions = transactions

    def _end(self) -> None:
        if self._transactions is not None:
            self._transactions.close()
            self._transactions = None

    def _send(self, paths: Sequence[Path], progress: Progress) -> None:
        assert self._transactions is not None, "not begun"
        record = (self.options.progress_topic, self.context.sink_id.encode(), progress.encode())
        try:
            self._transactions.send(self.options.topic, paths, record)
        except ProducerFencedError as error:
            self._end()
            raise self._fenced_or_aborted_error(str(error)) from None
        except UnknownOutcomeError as error:
            self._end()
            raise error.cause from None
        except BaseException:
            self._end()
            raise
        self._committed = progress

    def _recover(self) -> None:
        """Determine the last committed progress, after an error with an unknown outcome."""
        self._check_own(self._progress.find(settled=False))
        self._begin()
        try:
            self._committed = self._check_own(self._progress.find(settled=True))
        except BaseException:
            self._end()  # the transaction is still open
            raise

    def _check_own(self, progress: Progress | None) -> Progress:
        if progress is None:
            raise self._lost_progress_error()
        if progress.checkpoint.claim != self._claim:
            raise self._fenced_error(progress)
        return progress

    def _fenced_or_aborted_error(self, reason: str) -> SinkqlError:
        progress = self._progress.find(settled=False)
        if progress is None:
            return self._lost_progress_error()
        if progress.checkpoint.claim != self._claim:
            return self._fenced_error(progress)
        return SinkqlError(
            "SQ4287",
            f'Kafka aborted a transaction into topic "{self.options.topic}" before it was committed',
            detail=reason,
            hint="The sink checks which messages were written and retries. Make commits smaller: "
            "ALTER SINK … SET (MAX ROWS PER COMMIT = 100000).",
        )

    def _fenced_error(self, progress: Progress) -> FencedError:
        return FencedError(
            "SQ5101",
            f'another run has taken over topic "{self.options.topic}"',
            detail=f"It has epoch {progress.checkpoint.epoch}.",
            hint="Nothing is lost: the new run continues from the last commit of this one.",
        )

    def _lost_progress_error(self) -> SinkqlError:
        return SinkqlError(
            "SQ4288",
            f'topic "{self.options.progress_topic}" no longer contains the progress of the sink',
            hint="Drop the sink and create it again with a new topic: it then writes all rows.",
        )

    # --- parts -------------------------------------------------------------------------------------------------------

    def _check_topic(self, progress: Progress) -> None:
        """Raise SQ4280 if the topic was deleted; the topic of dead letters is recreated instead."""
        if self.options.letters:
            self._topic_id = ensure_topic(self._admin, self.options).id
            return
        check_same(self._admin, self.options.topic, progress.topic_id)
        self._topic_id = progress.topic_id

    def _open_encoders(self) -> Encoders:
        value = self._encoder("value")
        assert value is not None, "all messages have values"
        return Encoders(self._encoder("key"), value)

    def _encoder(self, part: Literal["key", "value"]) -> MessageEncoder | None:
        format_plan = encoded(self.write, part)
        if format_plan is None:
            return None
        format_, options, columns = format_plan
        return self.context.encodings[format_].open(options, columns, self.context)

    def _partitioning(self) -> Partitioning | None:
        planned = self.options.partition_by
        if planned is None:
            return None
        topic = self._admin.topic(self.options.topic)
        return Partitioning(planned, len(topic.partitions) if topic is not None else 1)

    @property
    def _admin(self) -> Admin:
        return admin_of(self.client)

    @property
    def _progress(self) -> ProgressTopic:
        options, context = self.options, self.context
        group = f"{options.group}-{context.sink_id}"
        return ProgressTopic(
            self.client,
            self._admin,
            options.progress_topic,
            context.sink_id,
            group,
            options.transactional_id,
            context.folder,
        )

    @property
    def _state(self) -> StateDirectory:
        """The sink's state directory, with a file that exists if the sink has claimed its topic."""
        return StateDirectory.of(self.context)

    @property
    def _messages(self) -> StateDirectory:
        """The directory for the messages of tasks."""
        return StateDirectory.of(self.context, _MESSAGES)


PROGRESS_CONFIG = {"cleanup.policy": "compact", "segment.bytes": str(64 << 20), "min.cleanable.dirty.ratio": "0.1"}
"""Settings for keeping the newest progress of each sink, and few earlier records."""


def ensure_topic(admin: Admin, options: WriteOptions) -> Topic:
    """Return a sink's topic, and create it if it is missing. Raise SQ4284 if the brokers refuse."""
    topic = admin.topic(options.topic)
    return topic or admin.create(options.topic, options.partitions, options.replication, options.config)


def ensure_progress_topic(admin: Admin, options: WriteOptions) -> Topic:
    """Return the progress topic, and create it if it is missing. Raise SQ4284 if the brokers refuse."""
    topic = admin.topic(options.progress_topic)
    return topic or admin.create(options.progress_topic, 1, options.progress_replication, PROGRESS_CONFIG)


def check_compacted(admin: Admin, options: WriteOptions) -> None:
    """Raise SQ4289 if the progress topic does not keep the newest record of each key."""
    name = options.progress_topic
    policy = admin.config(name).get("cleanup.policy", "compact")
    if "delete" in policy:
        raise SinkqlError(
            "SQ4289",
            f'progress topic "{name}" has cleanup.policy = {policy}',
            detail="Kafka would delete the progress of a sink that has not written for some time.",
            hint=f"Run kafka-configs.sh --alter --entity-type topics --entity-name {name} --add-config "
            "cleanup.policy=compact, or specify another PROGRESS TOPIC in the connection.",
        )


def check_same(admin: Admin, name: str, wanted: str) -> None:
    """Raise SQ4280 if the topic was deleted, or if its id is not `wanted`."""
    topic = admin.topic(name)
    if topic is not None and topic.id == wanted:
        return
    change = "no longer exists" if topic is None else "was deleted and recreated"
    raise SinkqlError(
        "SQ4280",
        f'topic "{name}", which the sink has written to, {change}',
        hint="Drop the sink and create it again: it then writes all rows.",
    )
