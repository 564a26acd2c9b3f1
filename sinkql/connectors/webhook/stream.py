"""Stream the accepted requests of a webhook as changes, in the order of their acceptance."""

from __future__ import annotations

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
    Stream,
    TableRows,
    Transactions,
)
from sinkql.connector_api.options import reveal
from sinkql.connectors.webhook.check_eval import compile_check
from sinkql.connectors.webhook.endpoint import Endpoint
from sinkql.connectors.webhook.options import planned_options
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
from sinkql.machine.randomness import new_id
from sinkql.storage import files

_MOST_BYTES = 8 << 20
_KEEPER = "keeper"
"""The file in the request log's folder with the id of that folder."""


def position(number: int) -> Position:
    """Return the position after that number of requests."""
    return f"{number:016X}"


class _AllSeen:
    """A snapshot in which every accepted request is visible."""

    def unseen(self, ids: Sequence[Any]) -> int | None:
        return None

    def certain(self, ids: Sequence[Any]) -> bool:
        return True


class WebhookStream(Stream):
    """A source's stream of requests. It keeps accepted requests in a request log until the capture log has them."""

    unit = "requests"

    def __init__(
        self, source: CapturedSource, secret: Reveal, listeners: WebhookServers, *, owns_ports: bool = False
    ) -> None:
        assert source.folder is not None, "a capture sets the folder"
        self._folder = source.folder / "journal"
        self._options = planned_options(source.options["tuning"])
        self._path = path_of(source.name)
        self._secret = secret
        self._listeners = listeners
        self._owns_ports = owns_ports
        self._request_log: RequestLog | None = None
        self._recovered: list[Request] = []
        self._endpoint: Endpoint | None = None
        self._address: ListenAddress | None = None
        self._table: CapturedTable
        self._stops: list[int] = []

    def check(self) -> None:
        """Open the request log for writing, and fence its previous writer."""
        self._open_log()

    def _open_log(self) -> RequestLog:
        if self._request_log is not None:
            return self._request_log
        try:
            self._request_log, self._recovered = RequestLog.open(self._folder)
        except FencedRequestLogError:
            raise _fenced_error() from None
        except LostRequestLogError as error:
            raise _lost_error(str(error)) from error
        except OSError as error:
            raise _write_error(error) from error
        return self._request_log

    def create(self) -> Position:
        return position(self._open_log().floor)

    def follows(self, after: Position) -> bool:
        """Return False: requests are sent only once."""
        return False

    def keeper(self) -> str:
        path = self._folder / _KEEPER
        try:
            if path.exists():
                return path.read_text()
            files.create_new(path, new_id().encode())
            return path.read_text()
        except OSError as error:
            raise _write_error(error) from error

    def follow(self, after: Position, keeper: str | None) -> Position:
        request_log, start = self._open_log(), int(after, 16)
        if keeper is not None:
            if keeper != self.keeper():
                raise _lost_error(f"the requests after number {start}, which another host or folder accepted")
            return after
        if request_log.end < start:
            try:
                request_log.skip(start)
            except FencedRequestLogError:
                raise _fenced_error() from None
            except OSError as error:
                raise _write_error(error) from error
            self._recovered = []
        return position(max(start, request_log.floor))

    def begin(self, after: Position, tables: Sequence[CapturedTable], stops: Sequence[Position] = ()) -> None:
        request_log = self._open_log()
        start = int(after, 16)
        if not request_log.floor <= start <= request_log.end:
            raise _lost_error(f"request {min(start, request_log.end) + 1}")
        (self._table,) = tables  # a webhook has one table
        self._stops = [int(stop, 16) for stop in stops]
        reading = Reading.of(codec.convert(self._table.options, Layout))
        check = compile_check(self._options.check, self._secret)
        endpoint = Endpoint(self._path, reading, check, self._options.max_body, request_log)
        numbered = enumerate(self._recovered[start - request_log.floor :], start + 1)
        endpoint.reopen(list(numbered))
        self._recovered = []
        self._endpoint, self._address = endpoint, self._listen_address()
        self._listeners.open(self._address, endpoint)

    def _listen_address(self) -> ListenAddress:
        address, port, identity = self._options.address, self._options.port, self._options.ssl
        if identity is None:
            return ListenAddress(address, port)
        certificate, key = (reveal(part, self._secret) for part in (identity.certificate, identity.key))
        return ListenAddress(address, port, certificate, key)

    def end(self) -> Position:
        return position(self._endpoint.end() if self._endpoint is not None else self._open_log().end)

    def approximate_position(self) -> Position:
        return self.end()

    def number(self, position: Position) -> int:
        return int(position or "0", 16)

    def look(self) -> _AllSeen:
        return _AllSeen()

    def receive(self, seconds: float) -> Sequence[Event]:
        endpoint = self._endpoint
        assert endpoint is not None, "receive comes after begin"
        requests = endpoint.accepted(seconds, to=self._stops[0] if self._stops else None, most=_MOST_BYTES)
        if not requests:
            self._check_endpoint(endpoint)
            return []
        last = requests[-1][0]
        if self._stops and last >= self._stops[0]:
            del self._stops[0]
        rows = endpoint.reading.rows([request for _, request in requests], self._table.columns)
        done = Transactions([position(last)], [last])
        return [RowsChanged(position(last), {self._table.id: [TableRows(rows)]}, done)]

    def _check_endpoint(self, endpoint: Endpoint) -> None:
        """Raise the error that closed the endpoint, after all its requests were handed on."""
        if isinstance(endpoint.failure, FencedRequestLogError):
            raise _fenced_error()
        if endpoint.failure is not None:
            raise _write_error(endpoint.failure) from endpoint.failure

    def confirm(self, position: Position) -> None:
        if self._endpoint is not None:
            self._endpoint.forget(int(position, 16))

    def chunk(self, table: CapturedTable) -> ChunkRead:
        raise NotImplementedError("pushed rows are only in the log")

    def flush(self) -> None:
        """Do nothing: answered requests are durable."""

    def complete(self, table: CapturedTable, rows: TableRows, ids: Sequence[Any]) -> tuple[TableRows, Position | None]:
        return rows, None

    def renew(self) -> None:
        """Repair the request log so that it continues with the remaining requests."""
        try:
            repair(self._folder)
        except FencedRequestLogError:
            raise _fenced_error() from None
        except OSError as error:
            raise _write_error(error) from error

    def shut(self) -> None:
        """Stop accepting requests; answered requests are still received."""
        if self._endpoint is not None:
            self._endpoint.close()

    def close(self) -> None:
        """Stop accepting requests; answered requests are in the request log."""
        if self._endpoint is not None and self._address is not None:
            self._endpoint.close()
            self._listeners.leave(self._address, self._endpoint)
        else:
            if self._request_log is not None:
                self._request_log.close()
            self._listeners.keep(self._options.address, self._options.port, self._path)
        if self._owns_ports:
            self._listeners.close()


def _fenced_error() -> SinkqlError:
    return SinkqlError(
        "SQ4485",
        "another process now accepts the requests of the source",
        hint="Do nothing: the other process continues, or this one does when it has ended.",
    )


def _write_error(error: Exception) -> SinkqlError:
    return SinkqlError(
        "SQ4484",
        "could not write requests to disk; new requests are refused",
        detail=f"{error.__class__.__name__}: {error}",
        hint="Check whether the disk of the catalog's folder is full. Once it has space, requests are accepted again.",
    )


def _lost_error(missing: str) -> SinkqlError:
    return SinkqlError(
        "SQ4483",
        "accepted requests that were not in the log yet may be lost",
        detail=f"The source's request log on this host lacks {missing}.",
        hint="Run SinkQL on the host that accepted them, or restore the catalog's folder. If neither is possible, run "
        "ALTER SOURCE … SKIP: sinks continue with the remaining requests.",
    )


def open_stream(source: CapturedSource, secret: Reveal) -> WebhookStream:
    """Return a stream that does not accept requests yet, with separate ports."""
    return WebhookStream(source, secret, WebhookServers(), owns_ports=True)


@contextmanager
def listening() -> Iterator[OpenStream]:
    """Yield a function that opens streams with shared ports."""
    with WebhookServers() as listeners:
        yield lambda source, secret: WebhookStream(source, secret, listeners)
