"""Send requests to the process that runs a sink, as messages in a key-value store, and read the replies.

* Replay: a request for REPLAY ERRORS of a source is stored until the sink has answered it. So a sink that is stopped,
  or whose process dies, answers it after its next start.
* Accepted loss: a user accepts a loss that a sink reported. It holds only for the offsets at which the sink was, and is
  deleted when the sink has committed later ones. The reader reports these offsets, because the catalog may have earlier
  ones if a process ended right after a commit.
* Wait: a program waits until a sink has all present input of its sources. The requests of all sinks are in one folder,
  so that a process lists them once for all its sinks. The process deletes a request when the sink has the input that
  existed when it saw the request. The program deletes its request if it gives up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sinkql import codec
from sinkql.errors import SinkqlError, as_data, from_data
from sinkql.machine.randomness import new_id
from sinkql.storage.key_value import KeyValueStore

_Message = TypeVar("_Message", bound=msgspec.Struct)


class ReplayRequest(msgspec.Struct, frozen=True):
    """A request to replay the dead letters of a source, by its name in offsets."""

    source: str
    id: str


class ReplayResult(msgspec.Struct, frozen=True):
    """The reply: the numbers of records replayed and still stored; or the `error` that ended the replay."""

    id: str
    replayed: int = 0
    left: int = 0
    error: dict[str, object] | None = None

    def check(self) -> None:
        """Raise the error, if the replay failed."""
        if self.error is not None:
            raise from_data(self.error)


def request_replay(notes: KeyValueStore, source: str) -> str:
    """Request a replay of a source; return the id of the request."""
    request = ReplayRequest(source, new_id())
    notes.write(_name(source, "asked"), msgspec.json.encode(request))
    return request.id


def pending_replay(notes: KeyValueStore, sources: Sequence[str]) -> list[ReplayRequest]:
    """Return the unanswered requests."""
    requests = (_read(notes, _name(source, "asked"), ReplayRequest) for source in sources)
    return [request for request in requests if request is not None]


def finish_replay(
    notes: KeyValueStore, request: ReplayRequest, replayed: int, left: int, error: SinkqlError | None = None
) -> None:
    """Answer a request."""
    data = None if error is None else as_data(error)
    result = ReplayResult(request.id, replayed, left, data)
    notes.write(_name(request.source, "answer"), msgspec.json.encode(result))
    name = _name(request.source, "asked")
    if _read(notes, name, ReplayRequest) == request:  # otherwise a newer request has replaced it
        notes.remove(name)


def replay_result(notes: KeyValueStore, source: str, id_: str) -> ReplayResult | None:
    """Return the reply to a request; None if it is not answered yet."""
    result = _read(notes, _name(source, "answer"), ReplayResult)
    return result if result is not None and result.id == id_ else None


def _read(notes: KeyValueStore, name: str, type_: type[_Message]) -> _Message | None:
    message = notes.read(name)
    with suppress(msgspec.MsgspecError):
        return codec.decoder(type_).decode(message) if message is not None else None
    return None


def _name(source: str, suffix: str) -> str:
    return f"replay-{hashlib.sha256(source.encode()).hexdigest()[:16]}-{suffix}"


class AcceptedLoss(msgspec.Struct, frozen=True):
    """An accepted loss of the changes after the offsets `start`; if they are empty, after the sink's offsets.

    `end` has the offsets at which the sink continues; None until they are known.
    """

    start: dict[str, Any]
    end: dict[str, Any] | None = None


def report_loss(notes: KeyValueStore, source: str, start: Mapping[str, Any]) -> None:
    """Report the offsets after which a sink has lost changes."""
    notes.write(_skip_name(source, "lost"), msgspec.json.encode(dict(start)))


def accept_loss(notes: KeyValueStore, source: str, start: Mapping[str, Any]) -> None:
    """Accept, for the user, the loss of a source that a sink reported. The source has its name in offsets.

    `start` has the sink's offsets in the catalog.
    """
    reported_start = notes.read(_skip_name(source, "lost"))
    if reported_start is not None:  # no report if the loss was found during a batch
        with suppress(msgspec.MsgspecError):
            start = codec.decoder(dict[str, Any]).decode(reported_start)
    _write(notes, source, AcceptedLoss(dict(start)))


def accepted_loss(notes: KeyValueStore, source: str, start: Mapping[str, Any]) -> AcceptedLoss | None:
    """Return the accepted loss of a sink at the offsets `start`; None if no loss there was accepted."""
    loss = _read(notes, _skip_name(source), AcceptedLoss)
    return loss if loss is not None and loss.start in ({}, start) else None


def set_loss_end(notes: KeyValueStore, source: str, loss: AcceptedLoss, end: Mapping[str, Any]) -> None:
    """Record where the sink continues; asking again gives the same answer."""
    _write(notes, source, msgspec.structs.replace(loss, end=dict(end)))


def clear_loss(notes: KeyValueStore, source: str) -> None:
    """Delete the report and the accepted loss, because the sink has committed later offsets."""
    notes.remove(_skip_name(source, "lost"), _skip_name(source))


def _write(notes: KeyValueStore, source: str, loss: AcceptedLoss) -> None:
    notes.write(_skip_name(source), msgspec.json.encode(loss))


def _skip_name(source: str, prefix: str = "skip") -> str:
    return f"{prefix}-{hashlib.sha256(source.encode()).hexdigest()[:16]}"


_OWNER = "waits"
_FOLDER = "asked"


def wait_store(open_notes: Callable[[str, Path], KeyValueStore], catalog: Path) -> KeyValueStore:
    """Return the store of the wait requests of a catalog in a folder."""
    return open_notes(_OWNER, catalog / _OWNER)


def request_wait(notes: KeyValueStore, sink_id: str) -> str:
    """Request that a sink reads all present input of its sources; return the name of the request."""
    name = f"{_FOLDER}/{sink_id}.{new_id()}"
    notes.write(name, b"{}", sync=False)
    return name


def pending_waits(notes: KeyValueStore) -> dict[str, list[str]]:
    """Return the names of the pending requests, by the sink's id."""
    requests: dict[str, list[str]] = {}
    for name in notes.names(_FOLDER):
        requests.setdefault(name.rpartition(".")[0], []).append(f"{_FOLDER}/{name}")
    return requests


def is_wait_done(notes: KeyValueStore, name: str) -> bool:
    """Return whether the sink has all input that existed at the request."""
    return notes.read(name) is None
