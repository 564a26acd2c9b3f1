"""Check a server for problems that would stop its sources, now or later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sinkql import logical
from sinkql.connector_api.database_options import encryption_check
from sinkql.connector_api.health_check import CheckContext, HealthCheck, SourceUnderCheck
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connectors.mysql.connection import Connection, failing, is_mariadb, rows, variables
from sinkql.connectors.mysql.facts import Table, listed
from sinkql.connectors.mysql.options import MySqlConnection
from sinkql.connectors.mysql.purify import check_privileges, open_connection, read_tables, settings
from sinkql.errors import SinkqlError

_DAY_S = 86_400
_WEEK_S = 7 * _DAY_S
_RETENTION_S = "binlog_expire_logs_seconds"
_RETENTION_DAYS = "expire_logs_days"


def examine(planned: logical.Connection, examined: CheckContext, access: OutsideAccess) -> Iterator[HealthCheck]:
    """Yield the health checks; raise SQ446x if the server rejects the user."""
    options = MySqlConnection.from_plan(planned.options)
    where = options.address
    connection = open_connection(planned, access)
    try:
        with failing(name=planned.name, where=where):
            maria = is_mariadb(connection)
            yield HealthCheck("version", "ok", str(rows(connection, "SELECT VERSION()")[0][0]))
            cipher = rows(connection, "SHOW STATUS LIKE 'Ssl_version'")
            yield encryption_check(str(cipher[0][1]) if cipher else "", options.ssl_mode, "verify_identity")
            for setting in settings(connection, maria=maria, where=where):
                yield _check_setting(setting.name, setting.value, setting.problem)
            yield _check_server_id(connection)
            yield _check_retention(connection)
            yield _check_user(connection, where)
            yield from _check_tables(tuple(read_tables(connection, maria=maria)), examined.readings)
    finally:
        connection.close()


def _check_setting(name: str, value: str, problem: SinkqlError | None) -> HealthCheck:
    if problem is not None:
        return HealthCheck(name, "wrong", problem.message, problem.hint)
    return HealthCheck(name, "ok", value)


def _check_server_id(connection: Connection) -> HealthCheck:
    number = variables(connection, "server_id").get("server_id", "0")
    if number == "0":
        return HealthCheck(
            "server_id",
            "wrong",
            "it is 0, so the server sends its log to no replica",
            "Run SET GLOBAL server_id = 1; on the server, and in its configuration.",
        )
    return HealthCheck("server_id", "ok", number)


def _check_retention(connection: Connection) -> HealthCheck:
    """Check how long the server retains its log, which limits how long a capture may be down."""
    settings = variables(connection, _RETENTION_S, _RETENTION_DAYS)
    seconds = int(settings.get(_RETENTION_S, "0")) or int(float(settings.get(_RETENTION_DAYS, "0")) * _DAY_S)
    name = _RETENTION_S if _RETENTION_S in settings else _RETENTION_DAYS
    if not seconds:
        return HealthCheck(name, "ok", "the server never deletes the log automatically")
    shown = f"{seconds / _DAY_S:.1f} days" if seconds >= _DAY_S else f"{seconds / 3600:.1f} hours"
    if seconds >= _DAY_S:
        return HealthCheck(name, "ok", f"the server keeps the log for {shown}")
    return HealthCheck(
        name,
        "warning",
        f"the server keeps the log for {shown}: a source that is unread for longer loses changes",
        f"Run SET GLOBAL {name} = {_WEEK_S if name == _RETENTION_S else 7}; on the server, and in its configuration.",
    )


def _check_user(connection: Connection, where: str) -> HealthCheck:
    try:
        check_privileges(connection, where)
    except SinkqlError as error:
        return HealthCheck("privileges", "wrong", error.detail or error.message, error.hint)
    return HealthCheck("privileges", "ok", "the user may read the server's log")


def _check_tables(tables: Sequence[Table], readings: Sequence[SourceUnderCheck]) -> Iterator[HealthCheck]:
    """Yield the checks of tables: of tables that sources read, or of unreadable tables if no source exists."""
    for table in tables:
        name, read = (
            f"table {table.database}.{table.name}",
            [r for r in readings if r.reads(table.database, table.name)],
        )
        if not read and readings:
            continue
        state = "wrong" if read else "warning"
        unread = [column for column in table.columns if column.problem is not None]
        if table.problem is not None:
            yield HealthCheck(name, state, f"it {table.problem}", table.hint)  # type: ignore[arg-type]  # one of the two
        elif table.cascades:
            yield HealthCheck(
                name,
                "warning",
                f"foreign key {listed(table.cascades)} changes its rows, and the server does not log these changes",
                "Give the foreign key ON DELETE RESTRICT ON UPDATE RESTRICT on the server, or create the source WITH "
                "(IGNORE CASCADES = true) if it never changes rows.",
            )
        elif unread:
            columns = ", ".join(f"{table.database}.{table.name}.{column.name}" for column in unread)
            types = ", ".join(dict.fromkeys(str(column.problem) for column in unread))
            message = f"columns of type {types} are not supported"
            yield HealthCheck(name, "warning", message, f"Create the source with EXCLUDE COLUMNS ({columns}).")
        elif read:
            yield HealthCheck(
                name,
                "ok",
                f"key {', '.join(table.key)}" if table.key else "the table has no key: rows are inserted and deleted",
            )
    visible = [(table.database, table.name) for table in tables]
    for reference in dict.fromkeys(name_parts for reading in readings for name_parts in reading.references):
        if not any(table[-len(reference) :] == reference for table in visible):
            written = ".".join("`" + part.replace("`", "``") + "`" for part in reference)
            fix = f"Create it, or run GRANT SELECT ON {written} TO the user on the server."
            yield HealthCheck(
                f"table {'.'.join(reference)}", "wrong", "the table does not exist, or the user may not see it", fix
            )
