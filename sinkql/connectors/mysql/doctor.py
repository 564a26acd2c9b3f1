"""A server that sources read, or may read → what may keep them from running, now or later, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sinkql import logical
from sinkql.connector_api.database_options import encryption
from sinkql.connector_api.health_check import CheckContext, HealthCheck, SourceUnderCheck
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connectors.mysql.connection import Connection, failing, mariadb, rows, variables
from sinkql.connectors.mysql.facts import Table, listed
from sinkql.connectors.mysql.purify import check_privileges, connected, read_tables, settings
from sinkql.errors import SinkqlError

_DAY_S = 86_400
_WEEK_S = 7 * _DAY_S
_KEPT_S = "binlog_expire_logs_seconds"
_KEPT_DAYS = "expire_logs_days"


def examine(planned: logical.Connection, examined: CheckContext, access: OutsideAccess) -> Iterator[HealthCheck]:
    """Yield what is found; raises SQ446x where the server does not let the user in."""
    where = f"{planned.options['host']}:{planned.options['port']}"
    connection = connected(planned, access)
    try:
        with failing(name=planned.name, where=where):
            maria = mariadb(connection)
            yield HealthCheck("version", "ok", str(rows(connection, "SELECT VERSION()")[0][0]))
            cipher = rows(connection, "SHOW STATUS LIKE 'Ssl_version'")
            mode = planned.options.get("ssl_mode", "disabled")
            yield encryption(str(cipher[0][1]) if cipher else "", mode, "verify_identity")
            for each in settings(connection, maria=maria, where=where):
                yield _judged(each.name, each.found, each.problem)
            yield _number(connection)
            yield _kept(connection)
            yield _privileges(connection, where)
            yield from _tables(tuple(read_tables(connection, maria=maria)), examined.readings)
    finally:
        connection.close()


def _judged(name: str, found: str, problem: SinkqlError | None) -> HealthCheck:
    if problem is not None:
        return HealthCheck(name, "wrong", problem.message, problem.hint)
    return HealthCheck(name, "ok", found)


def _number(connection: Connection) -> HealthCheck:
    number = variables(connection, "server_id").get("server_id", "0")
    if number == "0":
        return HealthCheck(
            "server_id",
            "wrong",
            "it is 0, with which the server sends its log to nobody",
            "Run SET GLOBAL server_id = 1; on the server, and in its configuration.",
        )
    return HealthCheck("server_id", "ok", number)


def _kept(connection: Connection) -> HealthCheck:
    """Check for how long the server keeps its log, which is how long a capture may stand still."""
    found = variables(connection, _KEPT_S, _KEPT_DAYS)
    seconds = int(found.get(_KEPT_S, "0")) or int(float(found.get(_KEPT_DAYS, "0")) * _DAY_S)
    name = _KEPT_S if _KEPT_S in found else _KEPT_DAYS
    if not seconds:
        return HealthCheck(name, "ok", "the log is kept until somebody deletes it")
    shown = f"{seconds / _DAY_S:.1f} days" if seconds >= _DAY_S else f"{seconds / 3600:.1f} hours"
    if seconds >= _DAY_S:
        return HealthCheck(name, "ok", f"the log is kept for {shown}")
    return HealthCheck(
        name,
        "warning",
        f"the log is kept for {shown}: a source that is not read for so long loses changes",
        f"Run SET GLOBAL {name} = {_WEEK_S if name == _KEPT_S else 7}; on the server, and in its configuration.",
    )


def _privileges(connection: Connection, where: str) -> HealthCheck:
    try:
        check_privileges(connection, where)
    except SinkqlError as error:
        return HealthCheck("privileges", "wrong", error.detail or error.message, error.hint)
    return HealthCheck("privileges", "ok", "the user may read the server's log")


def _tables(tables: Sequence[Table], readings: Sequence[SourceUnderCheck]) -> Iterator[HealthCheck]:
    """Yield what is found of tables: of all that are read, and of those that cannot be read where nobody reads any."""
    for each in tables:
        name, read = f"table {each.database}.{each.name}", [r for r in readings if r.reads(each.database, each.name)]
        if not read and readings:
            continue
        state = "wrong" if read else "warning"
        unread = [column for column in each.columns if column.problem is not None]
        if each.problem is not None:
            yield HealthCheck(name, state, f"it {each.problem}", each.hint)  # type: ignore[arg-type]  # one of the two
        elif each.cascades:
            yield HealthCheck(
                name,
                "warning",
                f"foreign key {listed(each.cascades)} changes rows of it, of which the server logs nothing",
                "Give the foreign key ON DELETE RESTRICT ON UPDATE RESTRICT on the server, or create the source WITH "
                "(IGNORE CASCADES = true) if no rows go that way.",
            )
        elif unread:
            columns = ", ".join(f"{each.database}.{each.name}.{column.name}" for column in unread)
            types = ", ".join(dict.fromkeys(str(column.problem) for column in unread))
            found = f"columns of type {types} are not supported"
            yield HealthCheck(name, "warning", found, f"Create the source with EXCLUDE COLUMNS ({columns}).")
        elif read:
            yield HealthCheck(
                name, "ok", f"key {', '.join(each.key)}" if each.key else "it has no key: rows come and go"
            )
    there = [(each.database, each.name) for each in tables]
    for reference in dict.fromkeys(each for reading in readings for each in reading.references):
        if not any(table[-len(reference) :] == reference for table in there):
            written = ".".join("`" + part.replace("`", "``") + "`" for part in reference)
            fix = f"Create it, or run GRANT SELECT ON {written} TO the user on the server."
            yield HealthCheck(f"table {'.'.join(reference)}", "wrong", "the user sees no such table", fix)
