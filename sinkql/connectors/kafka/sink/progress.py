"""How far a sink is: the newest record of its id in a topic of progress, written in the transaction of its messages.

Other sinks may have theirs there. Where a record of the sink was seen last is kept in its folder, from where the next
search begins: a later record is behind it.
"""

from __future__ import annotations

import time
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
from sinkql.storage import files

_SEEN = "progress"
_ABANDONED_S = 10.0
"""How long a sink that has written its progress may take to commit: its messages were sent before."""
_STEP_S = 0.05


@dataclass(frozen=True, slots=True)
class Progress:
    """A sink's marker, how many transactions it has committed, and the id of the topic that they wrote to."""

    marker: Checkpoint
    topic_id: str
    number: int

    def after(self, marker: Checkpoint, topic_id: str) -> Progress:
        """Return the progress of the next transaction, into a topic of this id."""
        return Progress(marker, topic_id, self.number + 1)

    def encoded(self) -> bytes:
        """Return it as JSON."""
        return msgspec.json.encode({"marker": asdict(self.marker), "topic_id": self.topic_id, "number": self.number})


@dataclass(slots=True)
class ProgressTopic:
    """Find the progress of one sink, of this id, in the topic `name`; `transactional_id` begins those of all sinks."""

    client: Client
    admin: Admin
    name: str
    sink: str
    group: str
    transactional_id: str
    folder: Path

    def find(self, *, settled: bool) -> Progress | None:
        """Return the newest progress that is committed, None where there is none.

        With `settled` nothing that the sink has written may be undecided, as it is where it is behind another sink's
        transaction that is open: its own have ended. One that stays open is ended, as that of a sink that has died; a
        sink that lives writes it again. Raises SQ4285 where that is of no use.
        """
        end = self._settled_end() if settled else self.admin.ends(self.name, [0])[0]
        first = self.admin.beginnings(self.name, [0])[0]
        seen = self._seen()
        if seen is not None and first <= seen < end:
            found = self._newest(seen, end)
            if found is not None:
                return found
        return self._newest(first, end)

    def _newest(self, begin: int, end: int) -> Progress | None:
        found = self._last(begin, end)
        if found is None:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        files.write_atomic(self.folder / _SEEN, f"{self.name} {found.offset()}".encode(), sync=False)
        return _decoded(found.value())

    def _last(self, begin: int, end: int, *, committed: bool = True) -> Any:
        """Return the sink's last message of a range."""
        wanted = Range(self.name, self.name, 0, begin, end, self.group, committed)
        key, found = self.sink.encode(), None
        for batch in messages(self.client, wanted):
            for message in batch:
                if message.key() == key:
                    found = message
        return found

    def _settled_end(self) -> int:
        began, ended = time.monotonic(), set[int]()
        while True:
            end = self.admin.ends(self.name, [0], committed=False)[0]
            stable = self.admin.ends(self.name, [0])[0]
            if stable >= end or self._last(stable, end, committed=False) is None:
                return stable
            waited = time.monotonic() - began
            if waited > _ABANDONED_S and stable not in ended:
                ended.add(stable)
                self._end_first(stable)
            if waited > PATIENCE_S:
                raise SinkqlError(
                    "SQ4285",
                    f'a transaction has been open in topic "{self.name}" for longer than {PATIENCE_S:.0f} seconds',
                    hint="Wait until the other sink that writes its progress there has committed, or Kafka ends the "
                    "transaction.",
                )
            time.sleep(_STEP_S)

    def _end_first(self, stable: int) -> None:
        """End the transaction that is open for the longest: the first message that is not decided tells whose it is."""
        wanted = Range(self.name, self.name, 0, stable, stable + 1, self.group, committed=False)
        for batch in messages(self.client, wanted):
            for message in batch:
                sink = (message.key() or b"").decode(errors="replace")
                transactions = Transactions(self.client, f"{self.transactional_id}-{sink}")
                with suppress(SinkqlError, ProducerFencedError):
                    transactions.begin(self.name)
                transactions.close()

    def _seen(self) -> int | None:
        try:
            name, _, offset = (self.folder / _SEEN).read_text().rpartition(" ")
            return int(offset) if name == self.name else None
        except (OSError, ValueError):
            return None


def _decoded(value: bytes) -> Progress:
    data = msgspec.json.decode(value)
    return Progress(Checkpoint(**data["marker"]), data["topic_id"], data["number"])
