"""Detect a server that was restored from a backup, by the last transaction that was read.

Its transactions get the same ids after a while, with other changes. So the stream requests the last transaction once
more, and compares its id and its time.
"""

from __future__ import annotations

from collections.abc import Callable

from sinkql.connector_api.cdc import SKIP, Position
from sinkql.connectors.mysql.binlog import read_begin
from sinkql.connectors.mysql.binlog_client import BinlogDump
from sinkql.connectors.mysql.connection import Connection, variables
from sinkql.connectors.mysql.gtid import ReadTransaction
from sinkql.errors import SinkqlError
from sinkql.machine import clock

_WAIT_S = 60.0
_PAUSE_S = 0.1


def server_name(connection: Connection, *, maria: bool) -> str:
    """Return the id of a server; other servers may have committed its transactions in another order."""
    variable = "server_id" if maria else "server_uuid"
    return str(variables(connection, variable).get(variable, ""))


def check_history(
    last: ReadTransaction | None, server: str, open_dump: Callable[[Position], BinlogDump], *, where: str
) -> None:
    """Raise SQ4467 if the server does not have the last transaction that was read.

    Another server, or a server that deleted this part of its log, is not compared. `open_dump` requests the log after
    a position.
    """
    if last is None or last.server != server:
        return
    dump = open_dump(last.before.partition(";")[0])  # from its set: the log then begins with the transaction
    try:
        transaction = _first_transaction(dump)
    except SinkqlError as error:
        if not error.of_loss:
            raise
        return  # the log may still have the next changes
    finally:
        dump.close()
    if transaction == (last.id, last.at):
        return
    raise SinkqlError(
        "SQ4467",
        f"MySQL server {where} does not have the transactions that were read last",
        detail=f"{last.id} is not the transaction that was read: the server was restored from a backup.",
        hint=SKIP,
    )


def _first_transaction(dump: BinlogDump) -> tuple[str, int]:
    """Return the id and time of the first transaction in a log."""
    until = clock.monotonic() + _WAIT_S
    while clock.monotonic() < until:
        if dump.fill(_PAUSE_S):
            raw, frames = dump.events()
            for start, end in frames:
                transaction = read_begin(raw, start, end)
                if transaction is not None:
                    return transaction
    raise ConnectionError("the server does not send its log")
