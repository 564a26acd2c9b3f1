"""A server is asked what it is set to, and which tables there are → the facts of a source.

What a server must be set to so that its log has all that a capture needs.
"""

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
from sinkql.connectors.mysql.connection import Connection, connect, failing, mariadb, no_privilege, rows, variables
from sinkql.connectors.mysql.facts import Column, Found, Table
from sinkql.connectors.mysql.type import declared, sql_type
from sinkql.connectors.mysql.value import decoder
from sinkql.errors import SinkqlError

_SYSTEM = "('mysql', 'information_schema', 'performance_schema', 'sys')"
_TRANSACTIONAL = frozenset({"innodb", "rocksdb"})
_FLOATS = ("float", "double")
_Name = tuple[str, str]


def validate(connection: logical.Connection, access: OutsideAccess) -> None:
    """Connect, and leave again."""
    connected(connection, access).close()


def connected(planned: logical.Connection, access: OutsideAccess) -> Connection:
    """Return an open connection."""
    tunnel = planned_tunnel(planned, access)
    return connect(planned.options, access.secret, name=planned.name, tunnel=tunnel)


def find(planned: logical.Connection, access: OutsideAccess) -> logical.Facts:
    """Return the facts of a source; raises SQ446x for a server that cannot be read."""
    where = f"{planned.options['host']}:{planned.options['port']}"
    connection = connected(planned, access)
    try:
        with failing(name=planned.name, where=where):
            maria = mariadb(connection)
            check_settings(connection, maria=maria, where=where)
            check_privileges(connection, where)
            version = str(rows(connection, "SELECT VERSION()")[0][0])
            found = Found(maria, version, tuple(read_tables(connection, maria=maria)))
    finally:
        connection.close()
    return {"mysql": msgspec.to_builtins(found)}


def find_all(planned: logical.Connection, access: OutsideAccess) -> logical.Facts:
    """Return the facts of all tables, for who only looks at them: the server need not log any changes.

    So what keeps changes from being read is no problem.
    """
    connection = connected(planned, access)
    try:
        with failing(name=planned.name, where=f"{planned.options['host']}:{planned.options['port']}"):
            maria = mariadb(connection)
            version = str(rows(connection, "SELECT VERSION()")[0][0])
            tables = (msgspec.structs.replace(each, cascades=()) for each in read_tables(connection, maria=maria))
            found = Found(maria, version, tuple(tables))
    finally:
        connection.close()
    return {"mysql": msgspec.to_builtins(found)}


def check_privileges(connection: Connection, where: str) -> None:
    """Raise SQ4465 where the user may not read the log; what roles give is not known here."""
    granted = [str(each[0]).upper() for each in rows(connection, "SHOW GRANTS")]
    known = all(" ON " in each for each in granted)
    if known and not any(word in each for each in granted for word in ("ALL PRIVILEGES", "REPLICATION SLAVE")):
        raise no_privilege(where, "The user does not have the privilege REPLICATION SLAVE.")
    binlog_end(connection)  # which takes REPLICATION CLIENT, or BINLOG MONITOR


def read_tables(connection: Connection, *, maria: bool) -> Iterable[Table]:
    """Yield the tables that the user may see."""
    columns = _columns(connection, maria=maria)
    keys = _keys(connection)
    query = (
        "SELECT table_schema, table_name, table_type, engine FROM information_schema.tables "
        f"WHERE table_schema NOT IN {_SYSTEM} AND table_type NOT IN ('VIEW', 'SYSTEM VIEW', 'SEQUENCE') "
        "ORDER BY table_schema, table_name"
    )
    for database, name, kind, engine in rows(connection, query):
        table = (database, name)
        quoted = ".".join("`" + part.replace("`", "``") + "`" for part in table)
        problem, hint = _problem(kind, engine or "", quoted)
        own = columns[table]
        usable = [key for key in keys[table] if _comparable(key, own)]
        key = usable[0] if usable else ()
        cascades = _cascades(connection, quoted)
        yield Table(database, name, tuple(own), key, tuple(usable[1:]), cascades, problem, hint)


def _problem(kind: str, engine: str, quoted: str) -> tuple[str | None, str | None]:
    if kind == "SYSTEM VERSIONED":
        return "has system versioning, which is not supported yet", None
    if engine.lower() in _TRANSACTIONAL:
        return None, None
    return f"has the engine {engine}, which has no transactions", f"Run ALTER TABLE {quoted} ENGINE = InnoDB;"


def _columns(connection: Connection, *, maria: bool) -> dict[_Name, list[Column]]:
    documents = _documents(connection) if maria else set()
    query = (
        "SELECT table_schema, table_name, column_name, column_type, is_nullable, character_set_name "
        f"FROM information_schema.columns WHERE table_schema NOT IN {_SYSTEM} "
        "ORDER BY table_schema, table_name, ordinal_position"
    )
    found: dict[_Name, list[Column]] = defaultdict(list)
    for database, table, name, type_, null, charset in rows(connection, query):
        told = "json" if (database, table, name) in documents else str(type_)
        problem = None
        if charset is not None and decoder(charset) is None:
            told, problem = f"unread {told}", f"{type_} with character set {charset}"
        elif "compressed" in told.lower():
            told, problem = f"unread {told}", f"{declared(told).kind} COMPRESSED"
        elif sql_type(declared(told)) is None:
            problem = declared(told).kind
        found[database, table].append(Column(name, told, null == "YES", problem))
    return found


def _documents(connection: Connection) -> set[tuple[str, str, str]]:
    """Return the columns that MariaDB checks to be JSON: its type JSON is text with such a check."""
    query = (
        "SELECT constraint_schema, table_name, check_clause FROM information_schema.check_constraints "
        f"WHERE constraint_schema NOT IN {_SYSTEM}"
    )
    found = set()
    for database, table, clause in rows(connection, query):
        column = re.fullmatch(r"json_valid\(`((?:[^`]|``)+)`\)", str(clause))
        if column is not None:
            found.add((database, table, column[1].replace("``", "`")))
    return found


def _keys(connection: Connection) -> dict[_Name, list[tuple[str, ...]]]:
    """Return the columns of unique keys that have no NULL, the primary one first."""
    query = (
        "SELECT table_schema, table_name, index_name, column_name, nullable, sub_part "
        f"FROM information_schema.statistics WHERE non_unique = 0 AND table_schema NOT IN {_SYSTEM} "
        "ORDER BY table_schema, table_name, index_name <> 'PRIMARY', index_name, seq_in_index"
    )
    parts: dict[tuple[_Name, str], list[Any]] = defaultdict(list)
    for database, table, index, column, null, _ in rows(connection, query):
        parts[(database, table), index].append(None if null == "YES" else column)
    found: dict[_Name, list[tuple[str, ...]]] = defaultdict(list)
    for (name, _), columns in parts.items():
        if None not in columns:
            found[name].append(tuple(columns))
    return found


def keyed(connection: Connection, table: tuple[str, ...], key: Collection[str], *, whole: bool = True) -> bool:
    """Tell whether no two rows of a table have the same values in some columns; of a table that is gone it is true.

    Where it is not `whole`, unique keys of whole columns count for nothing: there was none when it mattered.
    """
    query = (
        "SELECT index_name, column_name, nullable, sub_part FROM information_schema.statistics "
        "WHERE non_unique = 0 AND table_schema = %s AND table_name = %s"
    )
    found: dict[str, list[bool]] = defaultdict(list)
    partial: set[str] = set()
    for index, column, null, part in rows(connection, query, table):
        found[index].append(column in key and null != "YES")
        partial |= {index} if part is not None else set()
    there = "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
    unique = any(all(columns) and (whole or index in partial) for index, columns in found.items())
    return unique or not list(rows(connection, there, table))


def _comparable(key: tuple[str, ...], columns: Iterable[Column]) -> bool:
    """Tell whether a key's columns can be compared exactly."""
    types = {each.name: each for each in columns}
    return all(types[each].problem is None and declared(types[each].type).kind not in _FLOATS for each in key)


def _cascades(connection: Connection, quoted: str) -> tuple[str, ...]:
    """Return the foreign keys by which a change of another table changes rows: the engine does it, and logs nothing.

    The table's definition has them for everybody who may read it, information_schema only for who may change it.
    """
    definition = str(rows(connection, f"SHOW CREATE TABLE {quoted}")[0][1])
    return tuple(found[1].replace("``", "`") for found in _CASCADE.finditer(definition))


_CASCADE = re.compile(
    r"^\s*CONSTRAINT `((?:[^`]|``)+)` FOREIGN KEY .*\bON (?:DELETE|UPDATE) (?:CASCADE|SET NULL|SET DEFAULT)",
    re.MULTILINE,
)


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
