"""Read the facts of a publication from its server: tables, columns, keys and problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import psycopg

from sinkql import logical
from sinkql.connectors.postgres.client import Login, failure
from sinkql.connectors.postgres.publication import UNKNOWN, Problem, PublicationFacts, quoted
from sinkql.connectors.postgres.slot import Connection, query_row
from sinkql.connectors.postgres.type import ServerColumn, ServerTable, ServerType, json_lists
from sinkql.errors import SinkqlError, nearest

OLDEST = 13
"""The oldest supported version: earlier ones cannot publish a partitioned table as one table."""
_COLUMN_LISTS = 150000
_CHANGES = ("insert", "update", "delete", "truncate")
_IDENTITIES = {"d": "default", "i": "index", "f": "full", "n": "nothing"}
_SHORT_TEXT = 5
_SHORT_DIGITS = 28
_SHORT_RANGES = (3904, 3912)  # of integers and of dates


def find(login: Login, publication: str) -> logical.Facts:
    """Return the facts of a publication; raise SQ44… for the connection and SQ28… for the server."""
    try:
        with login.connect() as connection, connection.transaction():
            version = _read_server(connection)
            published = check_publication(connection, publication)
            tables = Tables.read(connection, publication, version)
        with login.connect(replication=True) as walsender:
            system, *_ = query_row(walsender, "IDENTIFY_SYSTEM")
    except psycopg.Error as error:
        raise failure(error, login.options) from error
    return _encode_facts(PublicationFacts(version, system, *tables.describe(roots=published), tables.find_generated()))


def find_all(login: Login) -> logical.Facts:
    """Return the facts of all tables for a preview: the server need not send changes.

    Problems that only prevent the reading of changes are left out.
    """
    try:
        with login.connect() as connection, connection.transaction():
            version = connection.info.server_version
            tables, problems, _, _ = Tables.read(connection, None, version).describe(roots=True)
    except psycopg.Error as error:
        raise failure(error, login.options) from error
    unreadable = {name: problem for name, problem in problems.items() if problem.rows}
    return _encode_facts(PublicationFacts(version, UNKNOWN, tables, unreadable))


def _encode_facts(publication: PublicationFacts) -> logical.Facts:
    return {"postgres": json_lists(msgspec.to_builtins(publication))}


def list_publications(connection: Connection) -> list[str]:
    """Return the names of the publications, with the most tables first."""
    query = (
        "SELECT p.pubname FROM pg_publication AS p LEFT JOIN pg_publication_tables AS t ON t.pubname = p.pubname "
        "GROUP BY p.pubname ORDER BY count(t.tablename) DESC, p.pubname"
    )
    return [name for (name,) in connection.execute(query)]


def find_unpublished(connection: Connection, publication: str) -> list[tuple[str, str]]:
    """Return the tables of the database that a publication lacks."""
    query = (
        f"SELECT n.nspname, c.relname {_EVERY} AND c.relkind = 'r' AND NOT EXISTS (SELECT 1 FROM pg_publication_tables "
        "AS p WHERE p.pubname = %s AND p.schemaname = n.nspname AND p.tablename = c.relname) ORDER BY 1, 2"
    )
    return [(schema, name) for schema, name in connection.execute(query, [publication])]


def find_partitioned(connection: Connection, publication: str) -> list[tuple[str, str]]:
    """Return the partitioned tables whose partitions a publication has as separate tables."""
    return sorted({(schema, name) for schema, name, _ in connection.execute(_ROOTS, [publication])})


# --- the server and the publication ----------------------------------------------------------------------------------

SERVER = """
SELECT current_setting('server_version_num')::int, current_setting('wal_level'), pg_is_in_recovery(),
       current_setting('max_replication_slots')::int, (SELECT count(*) FROM pg_replication_slots),
       current_setting('max_wal_senders')::int, (SELECT count(*) FROM pg_stat_replication)
"""


def _read_server(connection: Connection) -> int:
    return check_server(*query_row(connection, SERVER))


def check_server(
    version: int, level: str, standby: bool, slots: int, used_slots: int, senders: int, used_senders: int, /
) -> int:
    """Return the server's version; raise SQ2802 to SQ2805 if it cannot send changes."""
    if version < OLDEST * 10000:
        raise SinkqlError(
            "SQ2802",
            f"the server is Postgres {version // 10000}",
            hint=f"Use a server of Postgres {OLDEST} or later.",
        )
    if level != "logical":
        raise SinkqlError(
            "SQ2803",
            f"the server's wal_level is {level}, so it does not send the changes of tables",
            hint="Run ALTER SYSTEM SET wal_level = 'logical' on the server, and restart it; "
            "on Amazon RDS set rds.logical_replication = 1.",
        )
    if used_slots >= slots:
        raise SinkqlError(
            "SQ2804",
            f"all {slots} replication slots of the server are in use",
            hint="Raise max_replication_slots and restart the server, or drop an unused slot: "
            "SELECT slot_name FROM pg_replication_slots WHERE NOT active;",
        )
    if used_senders >= senders:
        raise SinkqlError(
            "SQ2804",
            f"all {senders} walsenders of the server are in use",
            hint="Raise max_wal_senders and restart the server.",
        )
    if standby and version < 160000:
        raise SinkqlError(
            "SQ2805",
            "the server is a standby, and standbys send the changes of tables only since Postgres 16",
            hint="Connect to the primary.",
        )
    return version


def check_publication(connection: Connection, name: str) -> bool:
    """Return whether a publication sends partitioned tables as one.

    Raise SQ2806 if the publication does not exist, and SQ2807 if it does not send all changes.
    """
    query = "SELECT pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot FROM pg_publication WHERE pubname = %s"
    row = connection.execute(query, [name]).fetchone()
    if row is None:
        others = [other for (other,) in connection.execute("SELECT pubname FROM pg_publication ORDER BY 1")]
        near = nearest(name, others)
        listed = (
            f"The publications are {', '.join(others)}." if others else f"Run {creation_statement(name)} on the server."
        )
        raise SinkqlError(
            "SQ2806",
            f'the database has no publication "{name}"',
            hint=f'Did you mean "{near}"?' if near else listed,
            option="PUBLICATION",
        )
    missing = [change for change, has in zip(_CHANGES, row, strict=False) if not has]
    if missing:
        raise SinkqlError(
            "SQ2807",
            f'publication "{name}" does not publish {" and ".join(missing)}',
            hint=f"Run ALTER PUBLICATION {quoted(name)} SET (publish = '{', '.join(_CHANGES)}'); on the server.",
            option="PUBLICATION",
        )
    return bool(row[4])


def creation_statement(name: str) -> str:
    """Return the statement that creates a publication of all tables."""
    return f"CREATE PUBLICATION {quoted(name)} FOR ALL TABLES WITH (publish_via_partition_root = true);"


# --- its tables -------------------------------------------------------------------------------------------------------

_EVERY = """
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
      AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%%'
"""

_TABLES = """
SELECT c.oid::int8, n.nspname, c.relname, c.relkind::text, c.relreplident::text, c.reltoastrelid <> 0,
       has_schema_privilege(n.oid, 'USAGE'), has_table_privilege(c.oid, 'SELECT'), row_security_active(c.oid), {more}
"""

_PUBLISHED = """
FROM pg_publication_tables AS p
JOIN pg_namespace AS n ON n.nspname = p.schemaname
JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = p.tablename
WHERE p.pubname = %s
ORDER BY n.nspname, c.relname
"""

_COLUMNS = """
SELECT attrelid::int8, attname, atttypid::int8, atttypmod, attndims::int, NOT attnotnull,
       attlen = -1 AND attstorage <> 'p', attgenerated <> ''
FROM pg_attribute WHERE attrelid = ANY(%s::oid[]) AND attnum > 0 AND NOT attisdropped ORDER BY attrelid, attnum
"""

_KEYS = """
SELECT i.indrelid::int8, i.indisprimary, i.indisreplident, array_agg(a.attname::text ORDER BY k.place),
       bool_and(a.attnotnull)
FROM pg_index AS i, unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place), pg_attribute AS a
WHERE i.indrelid = ANY(%s::oid[]) AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL
      AND i.indexprs IS NULL AND k.place <= i.indnkeyatts AND a.attrelid = i.indrelid AND a.attnum = k.number
GROUP BY i.indexrelid, i.indrelid, i.indisprimary, i.indisreplident
ORDER BY i.indrelid, NOT i.indisprimary, i.indexrelid
"""

_LEAVES = """
SELECT root.oid::int8, n.nspname, c.relname, c.relreplident::text
FROM unnest(%s::oid[]) AS root (oid), pg_partition_tree(root.oid) AS leaf
JOIN pg_class AS c ON c.oid = leaf.relid JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE leaf.isleaf ORDER BY 1, 2, 3
"""

_ROOTS = """
SELECT DISTINCT root_n.nspname, root_c.relname, p.schemaname || '.' || p.tablename
FROM pg_publication_tables AS p
JOIN pg_namespace AS n ON n.nspname = p.schemaname
JOIN pg_class AS c ON c.relnamespace = n.oid AND c.relname = p.tablename
JOIN pg_class AS root_c ON root_c.oid = pg_partition_root(c.oid) AND root_c.oid <> c.oid
JOIN pg_namespace AS root_n ON root_n.oid = root_c.relnamespace
WHERE p.pubname = %s AND c.relispartition
"""


class _Row(msgspec.Struct, frozen=True):
    oid: int
    schema: str
    name: str
    kind: str
    identity: str
    toasts: bool
    usable: bool
    readable: bool
    secured: bool
    columns: list[str] | None
    filter: str | None


class Tables(msgspec.Struct, frozen=True):
    """The catalog rows of a publication's tables."""

    rows: list[_Row]
    columns: dict[int, list[tuple[Any, ...]]]
    keys: dict[int, list[tuple[Any, ...]]]
    leaves: dict[int, list[tuple[Any, ...]]]
    types: dict[int, ServerType]
    roots: dict[str, str]

    @classmethod
    def read(cls, connection: Connection, publication: str | None, version: int) -> Tables:
        """Read the tables of a publication, or all tables without one."""
        lists = publication is not None and version >= _COLUMN_LISTS
        head = _TABLES.format(more="p.attnames::text[], p.rowfilter" if lists else "NULL, NULL")
        parameters = [publication] if publication is not None else []
        query = head + (_PUBLISHED if publication is not None else f"{_EVERY} ORDER BY 2, 3")
        rows = [_Row(*row) for row in connection.execute(query, parameters)]
        oids = [row.oid for row in rows]
        columns = _group_by_first(connection.execute(_COLUMNS, [oids]))
        named = {column[1] for table_columns in columns.values() for column in table_columns}
        roots = {f"{schema}.{name}": leaf for schema, name, leaf in connection.execute(_ROOTS, [publication])}
        find_partitioned = [row.oid for row in rows if row.kind == "p"]
        return cls(
            rows,
            columns,
            _group_by_first(connection.execute(_KEYS, [oids])),
            _group_by_first(connection.execute(_LEAVES, [find_partitioned])) if find_partitioned else {},
            read_types(connection, named),
            roots,
        )

    def describe(
        self, *, roots: bool
    ) -> tuple[tuple[ServerTable, ...], dict[str, Problem], dict[str, tuple[str, ...]], dict[str, str]]:
        """Return the tables, their problems, the columns that the server does not send, and partitioned tables."""
        tables, problems, left_out = [], {}, {}
        for row in self.rows:
            table, problem = self._build_table(row)
            tables.append(table)
            called = f"{row.schema}.{row.name}"
            if problem is not None:
                problems[called] = problem
            sent = {column.name for column in table.columns}
            missing = tuple(attribute[0] for attribute in self.columns.get(row.oid, ()) if attribute[0] not in sent)
            if missing:
                left_out[called] = missing
        return tuple(tables), problems, left_out, {} if roots else self.roots

    def find_generated(self) -> dict[str, tuple[str, ...]]:
        """Return the generated columns, which the server does not send."""
        find_generated = {}
        for row in self.rows:
            sent = {column.name for column in self._sent_columns(row)}
            names = tuple(
                attribute[0] for attribute in self.columns.get(row.oid, ()) if attribute[6] and attribute[0] not in sent
            )
            if names:
                find_generated[f"{row.schema}.{row.name}"] = names
        return find_generated

    def _build_table(self, row: _Row) -> tuple[ServerTable, Problem | None]:
        columns = tuple(self._sent_columns(row))
        key, unique = self._choose_keys(row)
        table = ServerTable(
            row.schema, row.name, row.oid, _IDENTITIES[row.identity],  # type: ignore[arg-type]  # one of the four
            columns, key, unique, row.filter, row.kind == "p",
        )  # fmt: skip
        return table, self._find_problem(row, table)

    def _sent_columns(self, row: _Row) -> Iterable[ServerColumn]:
        for name, oid, modifier, dimensions, nullable, varies, find_generated in self.columns.get(row.oid, ()):
            if name in row.columns if row.columns is not None else not find_generated:
                type_ = with_modifier(self.types[oid], modifier, dimensions)
                long = varies and (row.toasts or row.kind == "p") and not _is_short(type_.bare)
                yield ServerColumn(name, type_, nullable=nullable, long=long)

    def _choose_keys(self, row: _Row) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        keys = self.keys.get(row.oid, ())
        unique = tuple(tuple(columns) for _, _, columns, certain in keys if certain)
        wanted = 1 if row.identity == "i" else 0
        key = next((tuple(key_row[2]) for key_row in keys if key_row[wanted]), ())
        return (() if row.identity == "n" else key), unique

    def _find_problem(self, row: _Row, table: ServerTable) -> Problem | None:
        called, written = f"{row.schema}.{row.name}", f"{quoted(row.schema)}.{quoted(row.name)}"
        if not row.usable or not row.readable:
            schema = quoted(row.schema)
            others = any(not other.readable and other.schema == row.schema for other in self.rows if other is not row)
            grant = f"GRANT SELECT ON TABLE {written}" if row.usable else f"GRANT USAGE ON SCHEMA {schema}"
            more = (
                f" GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO name; grants it for all tables." if others else ""
            )
            message = f'the user of the connection may not read table "{called}"'
            return Problem(
                "SQ2808", message, f"Run {grant} TO name; on the server, with the user's name.{more}", rows=True
            )
        if row.secured:
            hint = "Run ALTER ROLE name BYPASSRLS; on the server, with the user's name."
            hidden = f'row-level security hides rows of table "{called}" from the user'
            return Problem("SQ2808", hidden, hint, rows=True)
        full = f"ALTER TABLE {written} REPLICA IDENTITY FULL;"
        if row.identity == "n" or (not table.key and row.identity != "f"):
            identity = "replica identity NOTHING" if row.identity == "n" else "no primary key"
            return Problem(
                "SQ2809",
                f'table "{called}" has {identity}, so its changes do not identify their rows',
                f"Run {full} on the server{'' if row.identity == 'n' else ', or give the table a PRIMARY KEY'}.",
            )
        sent = {column.name for column in table.columns}
        unsent = [
            attribute[0] for attribute in self.columns.get(row.oid, ()) if attribute[0] not in sent and not attribute[6]
        ]
        if row.identity == "f" and unsent:
            return _column_list_problem(called, unsent, "REPLICA IDENTITY FULL requires all columns")
        absent = [name for name in table.key if name not in sent]
        if absent:
            return _column_list_problem(called, absent, "they belong to the table's key")
        return self._find_leaf_problem(row, called)

    def _find_leaf_problem(self, row: _Row, called: str) -> Problem | None:
        for schema, name, identity in self.leaves.get(row.oid, ()):
            if identity == "n" or (row.identity == "f" and identity != "f"):
                leaf = f"{quoted(schema)}.{quoted(name)}"
                has = _IDENTITIES[identity].upper()
                return Problem(
                    "SQ2809",
                    f'partition "{schema}.{name}" of table "{called}" has replica identity {has}',
                    f"Run ALTER TABLE {leaf} REPLICA IDENTITY {'FULL' if row.identity == 'f' else 'DEFAULT'}; "
                    "on the server.",
                )
        return None


def _column_list_problem(called: str, columns: Sequence[str], why: str) -> Problem:
    return Problem(
        "SQ2810",
        f'the publication\'s column list of table "{called}" lacks {", ".join(columns)}: {why}',
        "Add them with ALTER PUBLICATION … SET TABLE on the server, or leave out the column list.",
    )


def _group_by_first(rows: Iterable[tuple[Any, ...]]) -> dict[int, list[tuple[Any, ...]]]:
    groups: dict[int, list[tuple[Any, ...]]] = {}
    for first, *rest in rows:
        groups.setdefault(first, []).append(tuple(rest))
    return groups


def _is_short(type_: ServerType) -> bool:
    """Return whether no value of a type is ever stored outside its row: only values longer than a pointer are."""
    if type_.oid in _SHORT_RANGES or type_.modifier < 0:
        return type_.oid in _SHORT_RANGES
    if type_.oid == 1700:
        return (type_.modifier - 4) >> 16 <= _SHORT_DIGITS
    return type_.oid in (1042, 1043) and type_.modifier - 4 <= _SHORT_TEXT


# --- types with all their parts ---------------------------------------------------------------------------------------

_TYPES = """
SELECT t.oid::int8, format_type(t.oid, NULL), t.typtype::text, t.typcategory = 'A' AND t.typlen = -1, t.typelem::int8,
       t.typbasetype::int8, t.typtypmod, t.typndims::int,
       (SELECT array_agg(ARRAY[a.attname::text, a.atttypid::int8::text, a.atttypmod::text, a.attndims::text]
               ORDER BY a.attnum)
        FROM pg_attribute AS a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped)
FROM pg_type AS t WHERE t.oid = ANY(%s::oid[])
"""
_VECTORS = (22, 30)
"""int2vector and oidvector, which are not treated as arrays."""


def read_types(connection: Connection, oids: Iterable[int]) -> dict[int, ServerType]:
    """Return types by their ids, with all their parts."""
    rows: dict[int, tuple[Any, ...]] = {}
    wanted = set(oids)
    while wanted:
        read = {row[0]: row for row in connection.execute(_TYPES, [list(wanted)])}
        rows |= read
        wanted = {part for row in read.values() for part in _part_oids(row)} - rows.keys()
    types: dict[int, ServerType] = {}
    return {oid: _build_type(oid, rows, types) for oid in rows}


def _part_oids(row: tuple[Any, ...]) -> Iterable[int]:
    _, _, kind, array, element, base, _, _, fields = row
    if array and row[0] not in _VECTORS:
        yield element
    if kind == "d":
        yield base
    if kind == "c":
        yield from (int(field[1]) for field in fields or ())


def _build_type(oid: int, rows: Mapping[int, tuple[Any, ...]], types: dict[int, ServerType]) -> ServerType:
    if oid in types:
        return types[oid]
    _, name, kind, array, element, base, modifier, dimensions, fields = rows[oid]
    if array and oid not in _VECTORS:
        type_ = ServerType(oid, name, "array", element=_build_type(element, rows, types))
    elif kind == "d":
        type_ = ServerType(
            oid, name, "domain", element=with_modifier(_build_type(base, rows, types), modifier, dimensions)
        )
    elif kind == "e":
        type_ = ServerType(oid, name, "enum")
    elif kind == "c":
        parts = (
            (field[0], with_modifier(_build_type(int(field[1]), rows, types), int(field[2]), int(field[3])))
            for field in fields or ()
        )
        type_ = ServerType(oid, name, "composite", fields=tuple(parts))
    else:
        type_ = ServerType(oid, name)
    types[oid] = type_
    return type_


def with_modifier(type_: ServerType, modifier: int, dimensions: int) -> ServerType:
    """Return a type as a column declares it; the modifier of an array applies to its elements."""
    if type_.kind == "array" and type_.element is not None:
        element = with_modifier(type_.element, modifier, 0)
        return msgspec.structs.replace(type_, element=element, dimensions=max(dimensions, 1))
    return type_ if type_.kind == "domain" else msgspec.structs.replace(type_, modifier=modifier)
