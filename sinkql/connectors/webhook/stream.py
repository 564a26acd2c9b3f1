"""The stream of a webhook: requests that were accepted, as changes in the order in which they were."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sinkql import codec
from sinkql.connector_api.cdc import (
    CapturedSource,
    CapturedTable,
    ChunkRead,
    Event,
    OpenStream,
    Position,
    Reveal,
    RowsChanged,
    TableRows,
    Transactions,
)
from sinkql.connector_api.options import reveal
from sinkql.connectors.webhook.check_eval import compile_check
from sinkql.connectors.webhook.endpoint import Endpoint
from sinkql.connectors.webhook.plan import path_of
from sinkql.connectors.webhook.request import Layout, Reading
from sinkql.connectors.webhook.request_log import (
    FencedRequestLogError,
    LostRequestLogError,
    Request,
    RequestLog,
    repair,
)
from sinkql.connectors.webhook.server import ListenAddress, WebhookServers
from sinkql.errors import SinkqlError
from sinkql.storage import files

_MOST_BYTES = 8 << 20
_UNBOUNDED = 1 << 62
_KEEPER = "keeper"
"""The file in the journal's folder with the id of that."""


def position(number: int) -> Position:
    """Return the position after so many requests."""
    return f"{number:016X}"


class _All:
    """A look that sees whatever was accepted."""

    def unseen(self, ids: Sequence[Any]) -> int | None:
        return None

    def certain(self, ids: Sequence[Any]) -> bool:
        return True


class WebhookStream:
    """Take requests for one source, from `begin` on, and keep them in a journal until the log has them."""

    unit = "requests"

    def __init__(self, source: CapturedSource, secret: Reveal, listeners: WebhookServers, *, own: bool = False) -> None:
        assert source.folder is not None, "a capture says where"
        self._folder = source.folder / "journal"
        self._options: dict[str, Any] = source.options["tuning"]
        self._path = path_of(source.name)
        self._secret = secret
        self._listeners = listeners
        self._own = own
        self._journal: RequestLog | None = None
        self._before: list[Request] = []
        self._door: Endpoint | None = None
        self._place: ListenAddress | None = None
        self._table: CapturedTable
        self._stops: list[int] = []

    def check(self) -> None:
        """Take the journal over."""
        if self._journal is not None:
            return
        try:
            self._journal, self._before = RequestLog.open(self._folder)
        except FencedRequestLogError:
            raise _fenced() from None
        except LostRequestLogError as error:
            raise _lost(str(error)) from error
        except OSError as error:
            raise _unwritten(error) from error

    def _opened(self) -> RequestLog:
        self.check()
        assert self._journal is not None
        return self._journal

    def create(self) -> Position:
        return position(self._opened().floor)

    def follows(self, after: Position) -> bool:
        """Tell that what was sent is sent once."""
        return False

    def keeper(self) -> str:
        path = self._folder / _KEEPER
        try:
            if path.exists():
                return path.read_text()
            files.create_new(path, uuid.uuid4().hex.encode())
            return path.read_text()
        except OSError as error:
            raise _unwritten(error) from error

    def follow(self, after: Position, keeper: str | None) -> Position:
        journal, start = self._opened(), int(after, 16)
        if keeper is not None:
            if keeper != self.keeper():
                raise _lost(f"whatever follows request {start} was accepted on another host, or in another folder, and")
            return after
        if journal.end < start:
            try:
                journal.skip(start)
            except FencedRequestLogError:
                raise _fenced() from None
            except OSError as error:
                raise _unwritten(error) from error
            self._before = []
        return position(max(start, journal.floor))

    def begin(self, after: Position, tables: Sequence[CapturedTable], stops: Sequence[Position] = ()) -> None:
        journal = self._opened()
        start = int(after, 16)
        if not journal.floor <= start <= journal.end:
            raise _lost(f"request {min(start, journal.end) + 1}")
        (self._table,) = tables  # a webhook has one
        self._stops = [int(each, 16) for each in stops]
        reading = Reading.of(codec.convert(self._table.options, Layout))
        judged = compile_check(self._options["check"], self._secret)
        door = Endpoint(self._path, reading, judged, self._options["max_body"], journal)
        numbered = enumerate(self._before[start - journal.floor :], start + 1)
        door.reopen(list(numbered))
        self._before = []
        self._door, self._place = door, self._where()
        self._listeners.open(self._place, door)

    def _where(self) -> ListenAddress:
        ssl = self._options["ssl"] or {}
        certificate, key = (reveal(ssl[name], self._secret) if name in ssl else "" for name in ("certificate", "key"))
        return ListenAddress(self._options["address"], self._options["port"], certificate, key)

    def end(self) -> Position:
        return position(self._door.end() if self._door is not None else self._opened().end)

    def known(self) -> Position:
        return self.end()

    def number(self, position: Position) -> int:
        return int(position or "0", 16)

    def look(self) -> _All:
        return _All()

    def receive(self, seconds: float) -> Sequence[Event]:
        door = self._door
        assert door is not None, "the stream has begun"
        found = door.accepted(seconds, to=self._stops[0] if self._stops else None, most=_MOST_BYTES)
        if not found:
            self._check_door(door)
            return []
        last = found[-1][0]
        if self._stops and last >= self._stops[0]:
            del self._stops[0]
        rows = door.reading.rows([request for _, request in found], self._table.columns)
        done = Transactions([position(last)], [last])
        return [RowsChanged(position(last), {self._table.id: [TableRows(rows)]}, done)]

    def _check_door(self, door: Endpoint) -> None:
        """Raise what ended the door, once all that went through it was handed on."""
        if isinstance(door.failure, FencedRequestLogError):
            raise _fenced()
        if door.failure is not None:
            raise _unwritten(door.failure) from door.failure

    def confirm(self, position: Position) -> None:
        if self._door is not None:
            self._door.forget(int(position, 16))

    def looked_since(self, moment: float) -> bool:
        return True

    def retained(self) -> int:
        return 0

    def most_retained(self) -> int:
        return _UNBOUNDED

    def chunk(self, table: CapturedTable) -> ChunkRead:
        raise NotImplementedError("rows that are pushed are in the log alone")

    def flush(self) -> None:
        """Do nothing: what was answered is durable."""

    def complete(self, table: CapturedTable, rows: TableRows, ids: Sequence[Any]) -> tuple[TableRows, Position | None]:
        return rows, None

    def renew(self) -> None:
        """Have the journal go on with all that is left."""
        try:
            repair(self._folder)
        except FencedRequestLogError:
            raise _fenced() from None
        except OSError as error:
            raise _unwritten(error) from error

    def shut(self) -> None:
        """Take no more requests; those that were answered are received still."""
        if self._door is not None:
            self._door.close()

    def close(self) -> None:
        """Take no more requests; those that were answered are in the journal."""
        if self._door is not None and self._place is not None:
            self._door.close()
            self._listeners.leave(self._place, self._door)
        else:
            if self._journal is not None:
                self._journal.close()
            self._listeners.keep(self._options["address"], self._options["port"], self._path)
        if self._own:
            self._listeners.close()


def _fenced() -> SinkqlError:
    return SinkqlError(
        "SQ4485",
        "another process has begun to take requests for the source",
        hint="Nothing is to be done: it goes on, or this process does once it has ended.",
    )


def _unwritten(error: Exception) -> SinkqlError:
    return SinkqlError(
        "SQ4484",
        "requests cannot be written down, and none are taken",
        detail=f"{error.__class__.__name__}: {error}",
        hint="See whether the disk of the catalog's folder is full. Requests are taken again once it is not.",
    )


def _lost(detail: str) -> SinkqlError:
    return SinkqlError(
        "SQ4483",
        "requests that were accepted may be lost: those that were not in the log yet",
        detail=f"{detail} is not in the source's journal here",
        hint="Run SinkQL where they were accepted, or put the catalog's folder back as it was. If that cannot be, run "
        "ALTER SOURCE … SKIP: sinks go on with the requests that are there.",
    )


def open_stream(source: CapturedSource, secret: Reveal) -> WebhookStream:
    """Return a stream that takes no requests yet, and will listen by itself."""
    return WebhookStream(source, secret, WebhookServers(), own=True)


@contextmanager
def listening() -> Iterator[OpenStream]:
    """Give what opens streams that share ports."""
    with WebhookServers() as listeners:
        yield lambda source, secret: WebhookStream(source, secret, listeners)
