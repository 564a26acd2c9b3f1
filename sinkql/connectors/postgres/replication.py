"""Receive the messages of a replication slot over its connection, and report the confirmed place to the server."""

from __future__ import annotations

import select
import struct
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from sinkql.connector_api import dead_connection
from sinkql.connectors.postgres.client import guarded, is_working
from sinkql.connectors.postgres.history_check import HistoryCheck
from sinkql.connectors.postgres.pgoutput import HEADER
from sinkql.connectors.postgres.slot import Connection, format_place
from sinkql.machine import clock

_BLOCK = 8 << 20
_FEEDBACK_S = 1.0
_QUESTION_S = 0.2
_LAST_CHANCE_MS = 1000
_DATA, _KEEPALIVE = b"wk"
_COMMIT = ord("C")
_BINARY_VERSION = 140000
_SETTINGS = (
    "SET DateStyle = 'ISO'", "SET IntervalStyle = 'postgres'", "SET TimeZone = 'UTC'", "SET extra_float_digits = 3",
    "SET bytea_output = 'hex'", "SET statement_timeout = 0", "SET idle_session_timeout = 0",
)  # fmt: skip
"""The formats of values that are sent as text."""


class Replication:
    """A replication connection. It holds messages until their transaction is complete, or until they fill a block.

    `confirmed` is the place up to which the server may delete its log. `check` compares the first messages with the
    last transaction that was read.
    """

    def __init__(self, connection: Connection, confirmed: int, check: HistoryCheck | None) -> None:
        self._connection = connection
        self._confirmed = confirmed
        self._check = check
        self._messages: list[bytes | memoryview] = []
        self._size = self._complete = 0
        self._idle_place = 0
        self._reported_at = self._heard_at = 0.0

    def start(self, slot: str, publication: str, place: int, *, binary: bool) -> None:
        """Start to receive what follows a place, or the transaction to check."""
        connection = self._connection
        version = connection.info.server_version
        for setting in _SETTINGS:
            if "idle_session" not in setting or version >= _BINARY_VERSION:
                connection.execute(setting)
        options = ["proto_version '1'", "publication_names {}"]
        if binary and version >= _BINARY_VERSION:
            options.append("binary 'true'")
        names = sql.Literal('"' + publication.replace('"', '""') + '"')
        begin = place if self._check is None else self._check.wanted.commit
        command = sql.SQL(f"START_REPLICATION SLOT {slot} LOGICAL {format_place(begin)} ({', '.join(options)})")
        with guarded(connection):
            result = connection.pgconn.exec_(command.format(names).as_bytes(connection))
        if result.status != psycopg.pq.ExecStatus.COPY_BOTH:
            raise psycopg.errors.error_from_result(result)
        self._heard_at = clock.monotonic()

    @property
    def is_empty(self) -> bool:
        """Whether no message is held."""
        return not self._messages

    @property
    def idle_place(self) -> int:
        """The place up to which the server has sent all changes while it was idle."""
        return self._idle_place

    def receive(self, until: float) -> None:
        """Receive messages until a time, or until a block is full; raise OtherServerError and psycopg.Error."""
        link, messages = self._connection.pgconn, self._messages
        get, poll = link.get_copy_data, select.poll()
        poll.register(link.socket, select.POLLIN)
        size, complete, most, heard = self._size, self._complete, _BLOCK, False
        while size < most:
            length, data = get(1)
            if length > 0:
                heard = True
                if data[0] == _DATA:
                    check = self._check
                    if check is not None and not self._accepts(check, data):
                        continue
                    messages.append(data)
                    size += length
                    if data[HEADER] == _COMMIT or (check is not None and check.is_skipping):
                        complete = len(messages)
                elif data[0] == _KEEPALIVE:
                    self._on_keepalive(data, idle=len(messages) == complete)
                continue
            if length < 0:
                self._raise_broken()
            self._size, self._complete = size, complete
            left = max(until - clock.monotonic(), 0)
            self._send_feedback(ask=not messages)
            if not poll.poll(min(left, _QUESTION_S) * 1000) and not left:
                break
            link.consume_input()
        self._size, self._complete = size, complete
        if heard:
            self._heard_at = clock.monotonic()
        elif clock.monotonic() - self._heard_at > dead_connection.SILENCE_S:  # feedback asks for an answer
            if not is_working(self._connection) and not poll.poll(_LAST_CHANCE_MS):
                raise psycopg.OperationalError("the server closed the connection unexpectedly: it sends nothing")
            self._heard_at = clock.monotonic()

    def take(self) -> Sequence[bytes | memoryview]:
        """Remove and return the messages of complete transactions; all messages of a block without any."""
        count = self._complete or (len(self._messages) if self._size >= _BLOCK else 0)
        if not count:
            return ()
        taken_messages, self._messages = self._messages[:count], self._messages[count:]
        self._size, self._complete = sum(map(len, self._messages)), 0
        return taken_messages

    def _accepts(self, check: HistoryCheck, data: bytes | memoryview) -> bool:
        """Return whether a message is new while the last transaction that was read is checked."""
        is_new = check.accepts(data)
        if check.is_done:
            self._check = None
        return is_new

    def _on_keepalive(self, data: bytes | memoryview, *, idle: bool) -> None:
        place, _, wants_answer = struct.unpack_from(">qqB", data, 1)
        if self._check is not None:
            self._check.on_position(place)
        if idle:
            self._idle_place = max(self._idle_place, place)
        if wants_answer:
            self._send_feedback(ask=False, now=True)

    def _raise_broken(self) -> None:
        result: Any = self._connection.pgconn.get_result()
        if result is not None and result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
            raise psycopg.errors.error_from_result(result)
        raise psycopg.OperationalError("the server closed the connection unexpectedly")

    def confirm(self, place: int) -> None:
        """Allow the server to delete its log up to a place."""
        self._confirmed = place
        self._send_feedback(ask=False, now=True)

    def _send_feedback(self, *, ask: bool, now: bool = False) -> None:
        """Report the confirmed place at intervals; with `ask` the server answers with its position."""
        at = clock.monotonic()
        due = self._reported_at + (_QUESTION_S if ask else _FEEDBACK_S)
        if not now and at < due:
            return
        self._reported_at = at
        place = self._confirmed
        link = self._connection.pgconn
        link.put_copy_data(struct.pack(">cqqqqB", b"r", place, place, place, 0, ask))
        link.flush()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
