"""Find the progress of a sink: the newest record of its id in the progress topic, committed together with its messages.

Several sinks may share a progress topic. The sink's folder has the offset of the last record that was found, and the
next search begins there.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from sinkql.connector_api.stream import Checkpoint
from sinkql.connectors.kafka.admin import Admin
from sinkql.connectors.kafka.client import Client
from sinkql.connectors.kafka.consumer import Range, messages
from sinkql.connectors.kafka.sink.transaction import PATIENCE_S, ProducerFencedError, Transactions
from sinkql.errors import SinkqlError
from sinkql.machine import clock
from sinkql.storage import files

_LAST_FOUND = "progress"
_ABANDONED_S = 10.0
"""How long a sink may take to commit after it wrote its progress: the messages were sent before."""
_STEP_S = 0.05


@dataclass(frozen=True, slots=True)
class Progress:
    """A sink's checkpoint, the number of its committed transactions, and the id of the topic that they wrote to."""

    checkpoint: Checkpoint
    topic_id: str
    number: int

    def next(self, checkpoint: Checkpoint, topic_id: str) -> Progress:
        """Return the progress of the next transaction."""
        return Progress(checkpoint, topic_id, self.number + 1)

    def encode(self) -> bytes:
        """Return the record's value, which is JSON."""
        data = {"marker": asdict(self.checkpoint), "topic_id": self.topic_id, "number": self.number}
        return msgspec.json.encode(data)


@dataclass(slots=True)
class ProgressTopic:
    """The progress topic `name`, read for one sink; `transactional_id` is the prefix of all transactional ids."""

    client: Client
    admin: Admin
    name: str
    sink: str
    group: str
    transactional_id: str
    folder: Path

    def find(self, *, settled: bool) -> Progress | None:
        """Return the newest committed progress; None if the sink has none.

        With `settled`, the result includes all records that the sink has written. Its own transactions have ended, but
        their records may be after another sink's open transaction. After ten seconds `find` aborts that transaction:
        its sink has probably stopped, and a running sink writes it again. Raise SQ4285 if it stays open.
        """
        end = self._settled_end() if settled else self.admin.ends(self.name, [0])[0]
        first = self.admin.beginnings(self.name, [0])[0]
        last_found = self._last_found()
        if last_found is not None and first <= last_found < end:
            progress = self._newest(last_found, end)
            if progress is not None:
                return progress
        progress = self._newest(first, end)
        if progress is None and not settled:  # the first one may be after another sink's open transaction
            first, end = end, self._settled_end()
            return self._newest(first, end) if first < end else None
        return progress

    def _newest(self, begin: int, end: int) -> Progress | None:
        message = self._last(begin, end)
        if message is None:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        files.write_atomic(self.folder / _LAST_FOUND, f"{self.name} {message.offset()}".encode(), sync=False)
        return _decode(message.value())

    def _last(self, begin: int, end: int, *, committed: bool = True) -> Any:
        """Return the sink's last message in a range."""
        wanted = Range(self.name, self.name, 0, begin, end, self.group, committed)
        key, last = self.sink.encode(), None
        for batch in messages(self.client, wanted):
            for message in batch:
                if message.key() == key:
                    last = message
        return last

    def _settled_end(self) -> int:
        began, aborted = clock.monotonic(), set[int]()
        while True:
            end = self.admin.ends(self.name, [0], committed=False)[0]
            stable = self.admin.ends(self.name, [0])[0]
            if stable >= end or self._last(stable, end, committed=False) is None:
                return stable
            waited = clock.monotonic() - began
            if waited > _ABANDONED_S and stable not in aborted:
                aborted.add(stable)
                self._abort_first(stable)
            if waited > PATIENCE_S:
                raise SinkqlError(
                    "SQ4285",
                    f'a transaction has been open in topic "{self.name}" for longer than {PATIENCE_S:.0f} seconds',
                    hint="Wait until another sink of that progress topic has committed, or until Kafka aborts the "
                    "transaction.",
                )
            clock.sleep(_STEP_S)

    def _abort_first(self, stable: int) -> None:
        """Abort the oldest open transaction: the key of its first message is the sink's id."""
        wanted = Range(self.name, self.name, 0, stable, stable + 1, self.group, committed=False)
        for batch in messages(self.client, wanted):
            for message in batch:
                sink = (message.key() or b"").decode(errors="replace")
                transactions = Transactions(self.client, f"{self.transactional_id}-{sink}")
                with suppress(SinkqlError, ProducerFencedError):
                    transactions.begin(self.name)
                transactions.close()

    def _last_found(self) -> int | None:
        try:
            name, _, offset = (self.folder / _LAST_FOUND).read_text().rpartition(" ")
            return int(offset) if name == self.name else None
        except (OSError, ValueError):
            return None


def _decode(value: bytes) -> Progress:
    data = msgspec.json.decode(value)
    return Progress(Checkpoint(**data["marker"]), data["topic_id"], data["number"])
