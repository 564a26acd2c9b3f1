"""What a server must be set to so that its log has all that a capture needs."""

from __future__ import annotations

from sinkql.connectors.mysql.connection import Connection, variables
from sinkql.errors import SinkqlError

_NEEDED = (
    ("binlog_format", "ROW", "SET GLOBAL binlog_format = 'ROW'"),
    ("binlog_row_image", "FULL", "SET GLOBAL binlog_row_image = 'FULL'"),
    ("binlog_row_metadata", "FULL", "SET GLOBAL binlog_row_metadata = 'FULL'"),
    ("gtid_mode", "ON", "SET GLOBAL gtid_mode = 'ON', in the steps that the server's manual says"),
)


def check_settings(connection: Connection, *, maria: bool, where: str) -> None:
    """Raise SQ4464 for a setting that leaves something out of the log, with what changes it."""
    names = [name for name, _, _ in _NEEDED if not (maria and name == "gtid_mode")]
    found = variables(connection, "log_bin", "binlog_row_value_options", *names)
    if found.get("log_bin") != "ON":
        raise SinkqlError(
            "SQ4464",
            f"MySQL server {where} keeps no binary log",
            hint="Start it with log_bin = binlog and server_id = 1 in its configuration.",
        )
    for name, wanted, how in _NEEDED:
        if name not in names or found.get(name) == wanted:
            continue
        if name not in found:
            raise _too_old(where, name)
        raise SinkqlError(
            "SQ4464",
            f"{name} of MySQL server {where} is {found[name]}, and must be {wanted}",
            hint=f"Run {how}; on the server, and in its configuration, and have all clients connect again.",
        )
    if found.get("binlog_row_value_options"):
        raise SinkqlError(
            "SQ4464",
            f"binlog_row_value_options of MySQL server {where} is {found['binlog_row_value_options']}",
            hint="Run SET GLOBAL binlog_row_value_options = ''; and have all clients connect again.",
        )


def _too_old(where: str, name: str) -> SinkqlError:
    return SinkqlError(
        "SQ4463",
        f"MySQL server {where} has no setting {name}: it is too old",
        hint="Use MySQL 8.0 or MariaDB 10.5, or later ones.",
    )
