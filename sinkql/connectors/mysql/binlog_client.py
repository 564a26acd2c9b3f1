"""Stream the binary log of a server from a position, as raw events.

PyMySQL opens the connection and sends the dump command. The events are then read from its socket, many together.
"""

from __future__ import annotations

import select
import socket
import struct
import uuid
from collections.abc import Callable
from typing import Any
from zlib import crc32

from pymysql.constants import COMMAND, ER
from pymysql.err import raise_mysql_exception

from sinkql.connectors.mysql.binlog import FORMAT
from sinkql.connectors.mysql.connection import Connection, failing, rows
from sinkql.connectors.mysql.gtid import NumberedTransactions, set_bytes
from sinkql.machine import clock

BLOCK = 8 << 20
"""Approximate bytes that are decoded together."""

_HEARTBEAT_S = 5
_DEAD_S = 30.0
_PAUSE_S = 0.002
_DUMP_GTID = 0x1E
_ERROR, _END = 0xFF, 0xFE
WHOLE = 0xFFFFFF
"""The size of a packet that continues in the next one."""


class BinlogDump:
    """A connection that receives new events of the binary log."""

    def __init__(self, connection: Connection, *, name: str, where: str) -> None:
        self._connection = connection
        self._named = {"name": name, "where": where}
        self._buffer = bytearray()
        self._heard = clock.monotonic()
        self._summed = False

    def begin_mariadb(self, position: str, *, server_id: int) -> None:
        """Request the events after a set of transactions."""
        with failing(**self._named):
            cursor = self._connection.cursor()
            cursor.execute("SET @mariadb_slave_capability = 4, @master_binlog_checksum = @@GLOBAL.binlog_checksum")
            self._summed = _has_checksums(self._connection)
            cursor.execute("SET @master_heartbeat_period = %s", (_HEARTBEAT_S * 1_000_000_000,))
            cursor.execute("SET @slave_connect_state = %s", (position,))
            cursor.execute("SET @slave_gtid_strict_mode = 0, @slave_gtid_ignore_duplicates = 0")
            # PyMySQL has no method for this command
            self._connection._execute_command(COMMAND.COM_BINLOG_DUMP, struct.pack("<IHI", 4, 0, server_id))

    def begin_mysql(self, position: NumberedTransactions, *, server_id: int) -> None:
        """Request the events after a set of transactions."""
        with failing(**self._named):
            cursor = self._connection.cursor()
            for prefix in ("master", "source"):  # the old and the new name
                cursor.execute(f"SET @{prefix}_binlog_checksum = @@GLOBAL.binlog_checksum")
            self._summed = _has_checksums(self._connection)
            heartbeat = _HEARTBEAT_S * 1_000_000_000
            cursor.execute("SET @master_heartbeat_period = %s, @source_heartbeat_period = %s", (heartbeat, heartbeat))
            cursor.execute(
                "SET @slave_uuid = %s, @replica_uuid = %s", (_replica_uuid(server_id), _replica_uuid(server_id))
            )
            data = set_bytes(position)
            head = struct.pack("<HIIQI", 4, server_id, 0, 4, len(data))
            self._connection._execute_command(_DUMP_GTID, head + data)

    def fill(self, seconds: float, stop: Callable[[], bool] = lambda: False) -> bool:
        """Wait for bytes, read the available ones up to a block, and return whether any arrived."""
        end, before = clock.monotonic() + seconds, len(self._buffer)
        raw: socket.socket = self._connection._sock
        with failing(**self._named):
            while len(self._buffer) < BLOCK or len(self._buffer) == before:
                has_bytes = len(self._buffer) > before
                wait = _PAUSE_S if has_bytes else max(0.0, end - clock.monotonic())
                if not wait_readable(raw, wait):
                    if has_bytes or clock.monotonic() >= end or stop():
                        break
                    continue
                part = raw.recv(1 << 20)
                if not part:
                    if self._buffer:  # it may contain the reason
                        return True
                    raise ConnectionError("the server has closed the connection")
                self._buffer += part
                self._heard = clock.monotonic()
            if clock.monotonic() - self._heard > _DEAD_S:
                raise ConnectionError(f"the server has sent nothing for {_DEAD_S:.0f} seconds")
        return len(self._buffer) > before

    def events(self) -> tuple[bytes, list[tuple[int, int]]]:
        """Return the bytes of the complete events, and the start and end of each; raise an error of the server."""
        buffer, frames, at = self._buffer, [], 0
        while at + 4 <= len(buffer):
            size = buffer[at] | buffer[at + 1] << 8 | buffer[at + 2] << 16
            if size == WHOLE:
                joined = self._join_packets(at)
                if joined is None:
                    break
                size = joined
            elif at + 4 + size > len(buffer):
                break
            first = buffer[at + 4]
            if first == _ERROR:
                with failing(**self._named):
                    raise_mysql_exception(bytes(buffer[at + 4 : at + 4 + size]))
            if first == _END and size < 9:
                with failing(**self._named):
                    raise ConnectionError("the server ended the binary log")
            frames.append(self._strip_checksum(at + 5, at + 4 + size))
            at += 4 + size
        raw = bytes(buffer[:at])
        del buffer[:at]
        return raw, frames

    def _strip_checksum(self, start: int, end: int) -> tuple[int, int]:
        """Return the start and end of an event without its checksum, which is verified."""
        if self._buffer[start + 4] == FORMAT:
            self._summed = self._buffer[end - 5] == 1
        if not self._summed:
            return start, end
        if crc32(memoryview(self._buffer)[start : end - 4]) != int.from_bytes(self._buffer[end - 4 : end], "little"):
            raise ValueError("the checksum of an event is wrong")
        return start, end - 4

    def _join_packets(self, at: int) -> int | None:
        """Join a packet with its continuations and return the size; None if a part is missing."""
        place, more = at, []
        while place + 4 <= len(self._buffer):
            size = int.from_bytes(self._buffer[place : place + 3], "little")
            if place > at:
                more.append(place)
            place += 4 + size
            if size == WHOLE:
                continue
            if place > len(self._buffer):
                return None
            for header in reversed(more):
                del self._buffer[header : header + 4]
            return place - at - 4 - 4 * len(more)
        return None

    def close(self) -> None:
        """Close the connection without waiting for the server."""
        self._connection._force_close()


def wait_readable(raw: socket.socket, seconds: float) -> bool:
    """Wait until the server has sent bytes or closed the connection; return whether it has."""
    pending = getattr(raw, "pending", None)
    if pending is not None and pending():
        return True
    coming = select.poll()  # `select.select` accepts no file descriptor above 1,023
    coming.register(raw, select.POLLIN)
    return bool(coming.poll(max(0.0, seconds) * 1000))


def _has_checksums(connection: Connection) -> bool:
    return str(rows(connection, "SELECT @@GLOBAL.binlog_checksum")[0][0]).upper() == "CRC32"


def _replica_uuid(server_id: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"sinkql {server_id}"))


def server_id(source: str) -> int:
    """Return the replica id of a source: the server ends an older connection with the same id."""
    return 1 << 31 | crc32(source.encode()) >> 1


def current_position(connection: Connection, *, maria: bool) -> str:
    """Return the set of all transactions that the server has committed."""
    gtids: Any = rows(connection, "SELECT @@GLOBAL." + ("gtid_binlog_pos" if maria else "gtid_executed"))[0][0]
    return str(gtids).replace("\n", "")


def binlog_end(connection: Connection) -> tuple[str, int]:
    """Return the file of the binary log that the server writes, and its end."""
    try:
        status = rows(connection, "SHOW MASTER STATUS")
    except Exception as error:
        if getattr(error, "args", (0,))[0] != ER.PARSE_ERROR:
            raise
        status = rows(connection, "SHOW BINARY LOG STATUS")
    return str(status[0][0]), int(status[0][1])
