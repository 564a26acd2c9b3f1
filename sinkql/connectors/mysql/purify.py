"""Read the facts of a source from its server: settings of the binary log, tables, columns and keys."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from sinkql import logical
from sinkql.connector_api.planning import OutsideAccess
from sinkql.connector_api.tunnel import planned_tunnel
from sinkql.connectors.mysql.binlog_client import binlog_end
from sinkql.connectors.mysql.connection import Connection, connect, failing, is_mariadb, no_privilege, rows, variables
from sinkql.connectors.mysql.facts import Column, ServerFacts, Table
from sinkql.connectors.mysql.options import MySqlConnection
from sinkql.connectors.mysql.type import parse_declaration, sql_type
from sinkql.connectors.mysql.value import decoder
from sinkql.errors import SinkqlError

_SYSTEM = "('mysql', 'information_schema', 'performance_schema', 'sys')"
_TRANSACTIONAL = frozenset({"innodb", "rocksdb"})
_FLOATS = ("float", "double")
_Name = tuple[str, str]


def validate(connection: logical.Connection, access: OutsideAccess) -> None:
    """Connect to the server and disconnect."""
    open_connection(connection, access).close()


def open_connection(planned: logical.Connection, access: OutsideAccess) -> Connection:
    """Open a connection."""
    tunnel = planned_tunnel(planned, access)
    return connect(MySqlConnection.from_plan(planned.options), access.secret, name=planned.name, tunnel=tunnel)


def find(planned: logical.Connection, access: OutsideAccess) -> logical.Facts:
    """Return the facts of a source; raise SQ446x if the server cannot be read."""
    where = MySqlConnection.from_plan(planned.options).address
    connection = open_connection(planned, access)
    try:
        with failing(name=planned.name, where=where):
            maria = is_mariadb(connection)
            check_settings(connection, maria=maria, where=where)
            check_privileges(connection, where)
            version = str(rows(connection, "SELECT VERSION()")[0][0])
            facts = ServerFacts(maria, version, tuple(read_tables(connection, maria=maria)))
    finally:
        connection.close()
    return {"mysql": msgspec.to_builtins(facts)}


def find_all(planned: logical.Connection, access: OutsideAccess) -> logical.Facts:
    """Return the facts of all tables for a preview: the server need not log changes.

    Problems that only prevent the reading of changes are left out.
    """
    connection = open_connection(planned, access)
    try:
        with failing(name=planned.name, where=MySqlConnection.from_plan(planned.options).address):
            maria = is_mariadb(connection)
            version = str(rows(connection, "SELECT VERSION()")[0][0])
            tables = (msgspec.structs.replace(table, cascades=()) for table in read_tables(connection, maria=maria))
            facts = ServerFacts(maria, version, tuple(tables))
    finally:
        connection.close()
    return {"mysql": msgspec.to_builtins(facts)}


def check_privileges(connection: Connection, where: str) -> None:
    """Raise SQ4465 if the user may not read the log. Privileges through roles are not visible here."""
    granted = [str(row[0]).upper() for row in rows(connection, "SHOW GRANTS")]
    is_complete = all(" ON " in grant for grant in granted)
    if is_complete and not any(word in grant for grant in granted for word in ("ALL PRIVILEGES", "REPLICATION SLAVE")):
        raise no_privilege(where, "The user does not have the privilege REPLICATION SLAVE.")
    binlog_end(connection)  # needs REPLICATION CLIENT or BINLOG MONITOR


def read_tables(connection: Connection, *, maria: bool) -> Iterable[Table]:
    """Yield the tables that the user may see."""
    columns = _read_columns(connection, maria=maria)
    keys = _read_keys(connection)
    query = (
        "SELECT table_schema, table_name, table_type, engine FROM information_schema.tables "
        f"WHERE table_schema NOT IN {_SYSTEM} AND table_type NOT IN ('VIEW', 'SYSTEM VIEW', 'SEQUENCE') "
        "ORDER BY table_schema, table_name"
    )
    for database, name, kind, engine in rows(connection, query):
        table = (database, name)
        quoted = ".".join("`" + part.replace("`", "``") + "`" for part in table)
        problem, hint = _table_problem(kind, engine or "", quoted)
        table_columns = columns[table]
        usable = [key for key in keys[table] if _is_comparable(key, table_columns)]
        key = usable[0] if usable else ()
        cascades = _read_cascades(connection, quoted)
        yield Table(database, name, tuple(table_columns), key, tuple(usable[1:]), cascades, problem, hint)


def _table_problem(kind: str, engine: str, quoted: str) -> tuple[str | None, str | None]:
    if kind == "SYSTEM VERSIONED":
        return "has system versioning, which is not supported yet", None
    if engine.lower() in _TRANSACTIONAL:
        return None, None
    return f"has the engine {engine}, which has no transactions", f"Run ALTER TABLE {quoted} ENGINE = InnoDB;"


def _read_columns(connection: Connection, *, maria: bool) -> dict[_Name, list[Column]]:
    documents = _read_json_columns(connection) if maria else set()
    query = (
        "SELECT table_schema, table_name, column_name, column_type, is_nullable, character_set_name "
        f"FROM information_schema.columns WHERE table_schema NOT IN {_SYSTEM} "
        "ORDER BY table_schema, table_name, ordinal_position"
    )
    table_columns: dict[_Name, list[Column]] = defaultdict(list)
    for database, table, name, type_, null, charset in rows(connection, query):
        declaration = "json" if (database, table, name) in documents else str(type_)
        problem = None
        if charset is not None and decoder(charset) is None:
            declaration, problem = f"unread {declaration}", f"{type_} with character set {charset}"
        elif "compressed" in declaration.lower():
            declaration, problem = f"unread {declaration}", f"{parse_declaration(declaration).kind} COMPRESSED"
        elif sql_type(parse_declaration(declaration)) is None:
            problem = parse_declaration(declaration).kind
        table_columns[database, table].append(Column(name, declaration, null == "YES", problem))
    return table_columns


def _read_json_columns(connection: Connection) -> set[tuple[str, str, str]]:
    """Return the columns with a JSON check: MariaDB's type JSON is a text with this check."""
    query = (
        "SELECT constraint_schema, table_name, check_clause FROM information_schema.check_constraints "
        f"WHERE constraint_schema NOT IN {_SYSTEM}"
    )
    documents = set()
    for database, table, clause in rows(connection, query):
        column = re.fullmatch(r"json_valid\(`((?:[^`]|``)+)`\)", str(clause))
        if column is not None:
            documents.add((database, table, column[1].replace("``", "`")))
    return documents


def _read_keys(connection: Connection) -> dict[_Name, list[tuple[str, ...]]]:
    """Return the columns of unique keys without NULL, the primary key first."""
    query = (
        "SELECT table_schema, table_name, index_name, column_name, nullable, sub_part "
        f"FROM information_schema.statistics WHERE non_unique = 0 AND table_schema NOT IN {_SYSTEM} "
        "ORDER BY table_schema, table_name, index_name <> 'PRIMARY', index_name, seq_in_index"
    )
    parts: dict[tuple[_Name, str], list[Any]] = defaultdict(list)
    for database, table, index, column, null, _ in rows(connection, query):
        parts[(database, table), index].append(None if null == "YES" else column)
    keys: dict[_Name, list[tuple[str, ...]]] = defaultdict(list)
    for (name, _), columns in parts.items():
        if None not in columns:
            keys[name].append(tuple(columns))
    return keys


def has_unique_key(connection: Connection, table: tuple[str, ...], key: Collection[str], *, whole: bool = True) -> bool:
    """Return whether the columns identify the rows of a table; True if the table was dropped.

    Without `whole`, unique keys of complete columns do not count: there was none at the time in question.
    """
    query = (
        "SELECT index_name, column_name, nullable, sub_part FROM information_schema.statistics "
        "WHERE non_unique = 0 AND table_schema = %s AND table_name = %s"
    )
    indexes: dict[str, list[bool]] = defaultdict(list)
    partial: set[str] = set()
    for index, column, null, part in rows(connection, query, table):
        indexes[index].append(column in key and null != "YES")
        partial |= {index} if part is not None else set()
    exists = "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
    unique = any(all(columns) and (whole or index in partial) for index, columns in indexes.items())
    return unique or not list(rows(connection, exists, table))


def _is_comparable(key: tuple[str, ...], columns: Iterable[Column]) -> bool:
    """Return whether a key's columns can be compared exactly."""
    types = {column.name: column for column in columns}
    return all(types[name].problem is None and parse_declaration(types[name].type).kind not in _FLOATS for name in key)


def _read_cascades(connection: Connection, quoted: str) -> tuple[str, ...]:
    """Return the foreign keys by which changes of other tables change rows; the engine does not log these changes.

    SHOW CREATE TABLE lists them for every reader, information_schema only for users with other privileges.
    """
    definition = str(rows(connection, f"SHOW CREATE TABLE {quoted}")[0][1])
    return tuple(constraint[1].replace("``", "`") for constraint in _CASCADE.finditer(definition))


_CASCADE = re.compile(
    r"^\s*CONSTRAINT `((?:[^`]|``)+)` FOREIGN KEY .*\bON (?:DELETE|UPDATE) (?:CASCADE|SET NULL|SET DEFAULT)",
    re.MULTILINE,
)


_NEEDED = (
    ("binlog_format", "ROW", "SET GLOBAL binlog_format = 'ROW'"),
    ("binlog_row_image", "FULL", "SET GLOBAL binlog_row_image = 'FULL'"),
    ("binlog_row_metadata", "FULL", "SET GLOBAL binlog_row_metadata = 'FULL'"),
    ("gtid_mode", "ON", "SET GLOBAL gtid_mode = 'ON' after the steps in the server's manual"),
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A server setting, and its problem."""

    name: str
    value: str
    problem: SinkqlError | None = None


def check_settings(connection: Connection, *, maria: bool, where: str) -> None:
    """Raise SQ4463 or SQ4464 for the first setting that leaves changes out of the log, with the remedy."""
    for setting in settings(connection, maria=maria, where=where):
        if setting.problem is not None:
            raise setting.problem


def settings(connection: Connection, *, maria: bool, where: str) -> Iterator[Setting]:
    """Yield the settings that decide the contents of the log."""
    needed = [setting for setting in _NEEDED if not (maria and setting[0] == "gtid_mode")]
    values = variables(connection, "log_bin", _PARTS, *(name for name, _, _ in needed))
    yield Setting(
        "log_bin", values.get("log_bin", "OFF"), _no_log_error(where) if values.get("log_bin") != "ON" else None
    )
    for name, wanted, how in needed:
        value = values.get(name)
        problem = None
        if value is None:
            problem = _too_old_error(where, name)
        elif value != wanted:
            problem = SinkqlError(
                "SQ4464",
                f"{name} of MySQL server {where} is {value} but must be {wanted}",
                hint=f"Run {how}; on the server, and in its configuration, and reconnect all clients.",
            )
        yield Setting(name, value or "", problem)
    if values.get(_PARTS):
        problem = SinkqlError(
            "SQ4464",
            f"{_PARTS} of MySQL server {where} is {values[_PARTS]} but must be empty",
            hint=f"Run SET GLOBAL {_PARTS} = ''; and reconnect all clients.",
        )
        yield Setting(_PARTS, values[_PARTS], problem)


_PARTS = "binlog_row_value_options"


def _no_log_error(where: str) -> SinkqlError:
    return SinkqlError(
        "SQ4464",
        f"MySQL server {where} writes no binary log",
        hint="Set log_bin = binlog and server_id = 1 in its configuration, and restart it.",
    )


def _too_old_error(where: str, name: str) -> SinkqlError:
    return SinkqlError(
        "SQ4463",
        f"MySQL server {where} has no setting {name}: it is too old",
        hint="Use MySQL 8.0, MariaDB 10.5, or a later version.",
    )
