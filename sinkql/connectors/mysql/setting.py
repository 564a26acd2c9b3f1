"""What a server must be set to so that its log has all that a capture needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sinkql.connectors.mysql.connection import Connection, variables
from sinkql.errors import SinkqlError

_NEEDED = (
    ("binlog_format", "ROW", "SET GLOBAL binlog_format = 'ROW'"),
    ("binlog_row_image", "FULL", "SET GLOBAL binlog_row_image = 'FULL'"),
    ("binlog_row_metadata", "FULL", "SET GLOBAL binlog_row_metadata = 'FULL'"),
    ("gtid_mode", "ON", "SET GLOBAL gtid_mode = 'ON', in the steps that the server's manual says"),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a server, and what is wrong with it."""

    name: str
    found: str
    problem: SinkqlError | None = None


def check_settings(connection: Connection, *, maria: bool, where: str) -> None:
    """Raise SQ4463 or SQ4464 for the first setting that leaves something out of the log, with what changes it."""
    for each in settings(connection, maria=maria, where=where):
        if each.problem is not None:
            raise each.problem


def settings(connection: Connection, *, maria: bool, where: str) -> Iterator[Setting]:
    """Yield the settings that decide what is in the log."""
    needed = [each for each in _NEEDED if not (maria and each[0] == "gtid_mode")]
    found = variables(connection, "log_bin", _PARTS, *(name for name, _, _ in needed))
    yield Setting("log_bin", found.get("log_bin", "OFF"), _no_log(where) if found.get("log_bin") != "ON" else None)
    for name, wanted, how in needed:
        value = found.get(name)
        problem = None
        if value is None:
            problem = _too_old(where, name)
        elif value != wanted:
            problem = SinkqlError(
                "SQ4464",
                f"{name} of MySQL server {where} is {value}, and must be {wanted}",
                hint=f"Run {how}; on the server, and in its configuration, and have all clients connect again.",
            )
        yield Setting(name, value or "", problem)
    if found.get(_PARTS):
        problem = SinkqlError(
            "SQ4464",
            f"binlog_row_value_options of MySQL server {where} is {found[_PARTS]}",
            hint=f"Run SET GLOBAL {_PARTS} = ''; and have all clients connect again.",
        )
        yield Setting(_PARTS, found[_PARTS], problem)


_PARTS = "binlog_row_value_options"


def _no_log(where: str) -> SinkqlError:
    return SinkqlError(
        "SQ4464",
        f"MySQL server {where} keeps no binary log",
        hint="Start it with log_bin = binlog and server_id = 1 in its configuration.",
    )


def _too_old(where: str, name: str) -> SinkqlError:
    return SinkqlError(
        "SQ4463",
        f"MySQL server {where} has no setting {name}: it is too old",
        hint="Use MySQL 8.0 or MariaDB 10.5, or later ones.",
    )
