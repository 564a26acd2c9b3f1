"""The binary log of a server, from a position on, as the events' bytes.

PyMySQL opens the connection; what follows the command to dump the log is read from its socket, many events at a time.
"""

from __future__ import annotations

import select
import socket
import struct
import time
import uuid
from collections.abc import Callable
from typing import Any
from zlib import crc32

from pymysql.constants import COMMAND, ER
from pymysql.err import raise_mysql_exception

from sinkql.connectors.mysql.binlog import FORMAT
from sinkql.connectors.mysql.connection import Connection, failing, rows
from sinkql.connectors.mysql.gtid import NumberedTransactions, set_bytes

BLOCK = 8 << 20
"""About how many bytes are decoded at once."""

_HEARTBEAT_S = 5
_DEAD_S = 30.0
_PAUSE_S = 0.002
_DUMP_GTID = 0x1E
_ERROR, _END = 0xFF, 0xFE
WHOLE = 0xFFFFFF
"""A packet of so many bytes goes on in the next one."""


class BinlogDump:
    """A connection that gets the log's events as they are written."""

    def __init__(self, connection: Connection, *, name: str, where: str) -> None:
        self._connection = connection
        self._named = {"name": name, "where": where}
        self._buffer = bytearray()
        self._heard = time.monotonic()
        self._summed = False

    def begin_mariadb(self, position: str, *, server_id: int) -> None:
        """Ask for what comes after a set of transactions."""
        with failing(**self._named):
            cursor = self._connection.cursor()
            cursor.execute("SET @mariadb_slave_capability = 4, @master_binlog_checksum = @@GLOBAL.binlog_checksum")
            self._summed = _checksums(self._connection)
            cursor.execute("SET @master_heartbeat_period = %s", (_HEARTBEAT_S * 1_000_000_000,))
            cursor.execute("SET @slave_connect_state = %s", (position,))
            cursor.execute("SET @slave_gtid_strict_mode = 0, @slave_gtid_ignore_duplicates = 0")
            # PyMySQL has no method for this command
            self._connection._execute_command(COMMAND.COM_BINLOG_DUMP, struct.pack("<IHI", 4, 0, server_id))

    def begin_mysql(self, position: NumberedTransactions, *, server_id: int) -> None:
        """Ask for what comes after a set of transactions."""
        with failing(**self._named):
            cursor = self._connection.cursor()
            for prefix in ("master", "source"):  # the older name, and the newer one
                cursor.execute(f"SET @{prefix}_binlog_checksum = @@GLOBAL.binlog_checksum")
            self._summed = _checksums(self._connection)
            heartbeat = _HEARTBEAT_S * 1_000_000_000
            cursor.execute("SET @master_heartbeat_period = %s, @source_heartbeat_period = %s", (heartbeat, heartbeat))
            cursor.execute("SET @slave_uuid = %s, @replica_uuid = %s", (_uuid(server_id), _uuid(server_id)))
            data = set_bytes(position)
            head = struct.pack("<HIIQI", 4, server_id, 0, 4, len(data))
            self._connection._execute_command(_DUMP_GTID, head + data)

    def fill(self, seconds: float, stop: Callable[[], bool] = lambda: False) -> bool:
        """Wait up to so long for bytes, and take what is there, up to a block; tell whether something came."""
        end, before = time.monotonic() + seconds, len(self._buffer)
        raw: socket.socket = self._connection._sock
        with failing(**self._named):
            while len(self._buffer) < BLOCK or len(self._buffer) == before:
                came = len(self._buffer) > before
                wait = _PAUSE_S if came else max(0.0, end - time.monotonic())
                if not prepare_session(raw, wait):
                    if came or time.monotonic() >= end or stop():
                        break
                    continue
                part = raw.recv(1 << 20)
                if not part:
                    if self._buffer:  # which may say why
                        return True
                    raise ConnectionError("the server has closed the connection")
                self._buffer += part
                self._heard = time.monotonic()
            if time.monotonic() - self._heard > _DEAD_S:
                raise ConnectionError(f"the server has sent nothing for {_DEAD_S:.0f} seconds")
        return len(self._buffer) > before

    def events(self) -> tuple[bytes, list[tuple[int, int]]]:
        """Take the whole events that came: bytes, and where each starts and ends. Raises what the server sent."""
        buffer, found, at = self._buffer, [], 0
        while at + 4 <= len(buffer):
            size = buffer[at] | buffer[at + 1] << 8 | buffer[at + 2] << 16
            if size == WHOLE:
                joined = self._packet(at)
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
                    raise ConnectionError("the server has ended the log")
            found.append(self._event(at + 5, at + 4 + size))
            at += 4 + size
        raw = bytes(buffer[:at])
        del buffer[:at]
        return raw, found

    def _event(self, start: int, end: int) -> tuple[int, int]:
        """Return where an event starts and ends, without its checksum, which is compared."""
        if self._buffer[start + 4] == FORMAT:
            self._summed = self._buffer[end - 5] == 1
        if not self._summed:
            return start, end
        if crc32(memoryview(self._buffer)[start : end - 4]) != int.from_bytes(self._buffer[end - 4 : end], "little"):
            raise ValueError("the checksum of an event is wrong")
        return start, end - 4

    def _packet(self, at: int) -> int | None:
        """Return the size of the packet there, made one with those that go on with it; None where some is missing."""
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
            for each in reversed(more):
                del self._buffer[each : each + 4]
            return place - at - 4 - 4 * len(more)
        return None

    def close(self) -> None:
        """Leave the server at once."""
        self._connection._force_close()


def prepare_session(raw: socket.socket, seconds: float) -> bool:
    """Tell whether a server has sent something, or is gone; wait for it for so long."""
    pending = getattr(raw, "pending", None)
    if pending is not None and pending():
        return True
    coming = select.poll()  # `select.select` takes no file whose number is above 1,023
    coming.register(raw, select.POLLIN)
    return bool(coming.poll(max(0.0, seconds) * 1000))


def _checksums(connection: Connection) -> bool:
    return str(rows(connection, "SELECT @@GLOBAL.binlog_checksum")[0][0]).upper() == "CRC32"


def _uuid(server_id: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"sinkql {server_id}"))


def server_id(source: str) -> int:
    """Return the number by which a source is known as a replica: the server ends an older connection of it."""
    return 1 << 31 | crc32(source.encode()) >> 1


def current_position(connection: Connection, *, maria: bool) -> str:
    """Return the set of all transactions that a server has committed."""
    found: Any = rows(connection, "SELECT @@GLOBAL." + ("gtid_binlog_pos" if maria else "gtid_executed"))[0][0]
    return str(found).replace("\n", "")


def binlog_end(connection: Connection) -> tuple[str, int]:
    """Return the file that the server writes its log to, and where that ends."""
    try:
        found = rows(connection, "SHOW MASTER STATUS")
    except Exception as error:
        if getattr(error, "args", (0,))[0] != ER.PARSE_ERROR:
            raise
        found = rows(connection, "SHOW BINARY LOG STATUS")
    return str(found[0][0]), int(found[0][1])
