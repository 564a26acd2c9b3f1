"""Detect captured tables whose changes the server did not send completely.

The stream does not report that a table left its publication or got another row filter. Nor does it report an attached
or detached partition, or values that ALTER TABLE computed.

So the stream compares the server's catalog with its earlier state, once it has received all changes before the earlier
one. The ids of catalog rows reveal that a table was left out in between.

The storage of values is compared as well. ALTER TABLE … TYPE may compute a column's values from others, and a label of
an enum may be renamed. The stream reports neither if the column keeps its SQL type.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
from psycopg import sql

from sinkql import codec
from sinkql.connector_api.cdc import CapturedTable, LogFiles, SchemaChanged
from sinkql.connectors.postgres.publication import quoted
from sinkql.connectors.postgres.slot import Connection
from sinkql.connectors.postgres.type import ServerTable, ServerType, server_table


class StoredColumn(msgspec.Struct, frozen=True, array_like=True):
    """A column in the catalog: the transaction that wrote its row, its modifier, and a digest of the row."""

    by: str
    modifier: int
    row: str


class StorageForm(msgspec.Struct, frozen=True, omit_defaults=True):
    """The file of a table's rows, its columns by name, and the labels of its enums by id.

    `changes` differs if the catalog row of any column differs.
    """

    file: int = 0
    changes: int = 0
    columns: dict[str, StoredColumn] = {}
    labels: dict[str, str] = {}


_FORM_CHANGES = """
SELECT c.oid::int8, c.relfilenode::int8, c.relpersistence = 'u',
       (SELECT sum(a.xmin::text::int8)::int8 FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attnum > 0)
FROM pg_class AS c WHERE c.oid = ANY(%s::oid[])
"""
_COLUMNS = """
SELECT a.attrelid::int8, a.attname::text, a.xmin::text, a.atttypmod, md5(a::text)
FROM pg_attribute AS a WHERE a.attrelid = ANY(%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
"""
_LABELS = "SELECT enumtypid::int8, oid::text, enumlabel::text FROM pg_enum WHERE enumtypid = ANY(%s::oid[])"


def read_storage_forms(
    connection: Connection, tables: Mapping[str, ServerTable], earlier: Mapping[str, StorageForm | None]
) -> tuple[dict[str, StorageForm], set[str]]:
    """Return the storage forms of tables, and the tables that are UNLOGGED; `earlier` are their earlier forms."""
    classes = {row[0]: row for row in connection.execute(_FORM_CHANGES, [[table.oid for table in tables.values()]])}
    types = {name: set(_enum_oids(table)) for name, table in tables.items()}
    labels: dict[int, dict[str, str]] = {}
    if any(types.values()):
        for type_, id_, label in connection.execute(_LABELS, [sorted(set().union(*types.values()))]):
            labels.setdefault(type_, {})[id_] = label
    forms, asked, unlogged = {}, {}, set()
    for name, table in tables.items():
        if table.oid not in classes:
            continue
        _, file, unlogged_now, changes = classes[table.oid]
        before = earlier.get(name)
        columns = before.columns if before is not None and before.changes == changes else {}
        if not columns:
            asked[table.oid] = name
        named = {id_: label for type_ in types[name] for id_, label in labels.get(type_, {}).items()}
        forms[name] = StorageForm(file, changes or 0, columns, named)
        if unlogged_now:
            unlogged.add(name)
    rows: dict[str, dict[str, StoredColumn]] = {}
    if asked:
        for oid, column, *stored in connection.execute(_COLUMNS, [list(asked)]):
            rows.setdefault(asked[oid], {})[column] = StoredColumn(*stored)
    return {
        name: msgspec.structs.replace(form, columns=rows.get(name, form.columns)) for name, form in forms.items()
    }, unlogged


def rewritten(table: ServerTable, before: StorageForm, now: StorageForm, *, moved: bool) -> str | None:
    """Return the reason if values of a table changed without a change of its rows; else None.

    `moved` is whether a partition has another file.
    """
    called = f'"{table.schema}.{table.name}"'
    if moved or before.file != now.file:
        for column in table.columns:
            stored_before, stored_now = before.columns.get(column.name), now.columns.get(column.name)
            if stored_before is not None and stored_now is not None and _was_retyped(stored_before, stored_now):
                return f'the values of column "{column.name}" of table {called} were rewritten by ALTER TABLE'
    for id_, label in now.labels.items():
        if before.labels.get(id_, label) != label:
            return f'the value "{before.labels[id_]}" of an enum in table {called} is now called "{label}"'
    return None


def _was_retyped(before: StoredColumn, now: StoredColumn) -> bool:
    """Return whether the type of a column was altered, even to the same type."""
    return before.by != now.by and (before.modifier != now.modifier or before.row == now.row)


def _enum_oids(table: ServerTable) -> Iterator[int]:
    def within(type_: ServerType) -> Iterator[int]:
        if type_.kind == "enum":
            yield type_.oid
        for part in (type_.element, *(field_type for _, field_type in type_.fields)):
            if part is not None:
                yield from within(part)

    for column in table.columns:
        yield from within(column.type)


_NAMESPACES = 150000
_CHANGES = ("insert", "update", "delete", "truncate")


class PartitionLeaf(msgspec.Struct, frozen=True):
    """A partition: the latest transaction that attached it or a parent, and the file of its rows."""

    attached: str
    file: int


class SentTables(msgspec.Struct, frozen=True, omit_defaults=True):
    """A table in a publication: the ids of the catalog rows that include it, and its partitions by id.

    `form` is how its values are stored. `problem` is why its changes are not sent, or no longer; `there` is False if it
    was dropped.
    """

    by: tuple[str, ...] = ()
    leaves: dict[str, PartitionLeaf] = {}
    problem: str | None = None
    there: bool = True
    form: StorageForm | None = None


@dataclass(slots=True)
class PublicationWatch:
    """The recorded state of a source's tables, by id; kept in the `notes` if there are any."""

    publication: str
    notes: LogFiles | None
    tables: Sequence[CapturedTable]
    recorded: dict[str, SentTables] = field(default_factory=dict)
    _reported: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, publication: str, notes: LogFiles | None, tables: Sequence[CapturedTable]) -> PublicationWatch:
        """Return a watch that continues from the recorded state of these tables."""
        watch = cls(publication, notes, tables)
        data = notes.noted(_FILE) if notes is not None else None
        if data is not None:
            try:
                recorded = codec.decoder(dict[str, SentTables]).decode(data)
            except msgspec.MsgspecError:
                recorded = {}
            watch.recorded = {table.id: recorded[table.id] for table in tables if table.id in recorded}
        return watch

    def compare(
        self, connection: Connection, now: Mapping[str, SentTables], truncations: Sequence[tuple[str, int]]
    ) -> list[SchemaChanged]:
        """Return the schema changes of tables compared with their recorded state.

        `truncations` are truncated tables and the transactions, as received since the last comparison.
        """
        changes = []
        for table in self.tables:
            sent, before = now[table.id], self.recorded.get(table.id)
            gap = None
            if before is not None:
                own_truncations = {transaction for emptied, transaction in truncations if emptied == table.id}
                gap = _find_gap(connection, self.publication, table, before, sent, own_truncations)
            if sent.problem is None and gap is not None:
                changes += [_lost_table(table, gap), SchemaChanged(table)]
            elif sent.problem is not None and self._reported.get(table.id) != sent.problem:
                changes.append(
                    _lost_table(table, sent.problem) if sent.there else _unavailable_table(table, sent.problem)
                )
            elif sent.problem is None and table.id in self._reported:
                changes.append(SchemaChanged(table))
            if sent.problem is None:
                self._reported.pop(table.id, None)
            else:
                self._reported[table.id] = sent.problem
        return changes

    def keep(self, now: Mapping[str, SentTables]) -> None:
        """Record the present state, once its schema changes are durable."""
        if now != self.recorded:
            self.recorded = dict(now)
            if self.notes is not None:
                self.notes.note(_FILE, msgspec.json.encode(self.recorded))


_FILE = "publication.json"


def forget_known(notes: LogFiles | None) -> None:
    """Delete the recorded state: sinks start from the beginning."""
    if notes is not None:
        notes.unnote(_FILE)


def _lost_table(table: CapturedTable, problem: str) -> SchemaChanged:
    return replace(_unavailable_table(table, problem), lost=True)


def _unavailable_table(table: CapturedTable, problem: str) -> SchemaChanged:
    return SchemaChanged(replace(table, columns=()), problem)


# --- the server's catalog ---------------------------------------------------------------------------------------------

_PUBLICATION = """
SELECT oid::text || '.' || xmin::text, puballtables, pubviaroot, pubinsert, pubupdate, pubdelete, pubtruncate, oid
FROM pg_publication WHERE pubname = %s
"""
_MEMBERS = """
SELECT c.oid::int8, c.relkind = 'p', c.relispartition, a.relid = c.oid,
       (SELECT 'table ' || r.oid::text FROM pg_publication_rel AS r
        WHERE r.prpubid = %(id)s::oid AND r.prrelid = a.relid),
       {namespace}, {filter}
FROM pg_class AS c
CROSS JOIN LATERAL (SELECT c.oid AS relid UNION SELECT relid FROM pg_partition_ancestors(c.oid)) AS a
JOIN pg_class AS above ON above.oid = a.relid
WHERE c.oid = ANY(%(oids)s::oid[])
"""
_NAMESPACE = """
(SELECT 'schema ' || s.oid::text FROM pg_publication_namespace AS s
 WHERE s.pnpubid = %(id)s::oid AND s.pnnspid = above.relnamespace)
"""
_FILTER = """
(SELECT pg_get_expr(r.prqual, r.prrelid) FROM pg_publication_rel AS r
 WHERE r.prpubid = %(id)s::oid AND r.prrelid = a.relid)
"""
_LEAVES = """
WITH RECURSIVE part (root, relid, attached) AS (
  SELECT inhparent, inhrelid, xmin FROM pg_inherits WHERE inhparent = ANY(%(oids)s::oid[])
  UNION ALL
  SELECT p.root, i.inhrelid, CASE WHEN age(i.xmin) < age(p.attached) THEN i.xmin ELSE p.attached END
  FROM part AS p JOIN pg_inherits AS i ON i.inhparent = p.relid
)
SELECT p.root::int8, p.relid::text, p.attached::text, c.relfilenode::int8, c.relpersistence = 'u'
FROM part AS p JOIN pg_class AS c ON c.oid = p.relid WHERE c.relkind <> 'p'
"""


def read_publication(
    connection: Connection, publication: str, tables: Sequence[CapturedTable], earlier: Mapping[str, SentTables]
) -> dict[str, SentTables] | None:
    """Return the present state of a publication's tables by id; None if the publication does not exist.

    Columns in `earlier` are not read again if they are unchanged.
    """
    with connection.transaction():  # all queries see one state
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        row = connection.execute(_PUBLICATION, [publication]).fetchone()
        if row is None:
            return None
        id_, every, via_root, *changes, oid = row
        servers = {table.id: server_table(table.options) for table in tables}
        parameters = {"id": oid, "oids": [server.oid for server in servers.values()]}
        newer = connection.info.server_version >= _NAMESPACES
        query = _MEMBERS.format(namespace=_NAMESPACE if newer else "NULL", filter=_FILTER if newer else "NULL")
        members = _group_by_first(connection.execute(query, parameters))
        roots = any(server.partitioned for server in servers.values())
        leaves = _group_by_first(connection.execute(_LEAVES, parameters)) if roots else {}
        forms, unlogged = read_storage_forms(connection, servers, {name: sent.form for name, sent in earlier.items()})
    missing = [name for name, has in zip(_CHANGES, changes, strict=True) if not has]
    sent_tables = {}
    for table_id, server in servers.items():
        member = _Member.read(members.get(server.oid, []), id_ if every else None)
        parts = leaves.get(server.oid, ())
        unlogged_too = table_id in unlogged or any(part[3] for part in parts)
        problem = _find_problem(publication, server, member, missing, via_root=via_root, unlogged=unlogged_too)
        by = tuple(f"{id_} {id_text}" for id_text in member.by)
        files = {leaf: PartitionLeaf(attached, file) for leaf, attached, file, _ in parts}
        sent_tables[table_id] = SentTables(by, files, problem, member.there, forms.get(table_id))
    return sent_tables


@dataclass(frozen=True, slots=True)
class _Member:
    """The membership of a table: the catalog rows that include it, and whether only a parent is included."""

    there: bool = False
    root: bool = False
    by: tuple[str, ...] = ()
    above: bool = False
    filter: str | None = None

    @classmethod
    def read(cls, rows: Sequence[tuple[Any, ...]], every: str | None) -> _Member:
        if not rows:
            return cls()
        by = [id_text for row in rows for id_text in row[3:5] if id_text is not None]
        own_row = next(row for row in rows if row[2])
        wide = every is not None or own_row[4] is not None
        above = rows[0][1] and (every is not None or any(any(row[3:5]) for row in rows if not row[2]))
        return cls(True, rows[0][0], ("all", *by) if every else tuple(sorted(by)), above, None if wide else own_row[5])


def _find_problem(
    publication: str, table: ServerTable, member: _Member, missing: Sequence[str], *, via_root: bool, unlogged: bool
) -> str | None:
    """Return why the changes of a table are not sent as planned."""
    called, name = f"{quoted(table.schema)}.{quoted(table.name)}", quoted(publication)
    if not member.there:
        return f'table "{table.schema}.{table.name}" was dropped'
    if not member.by:
        return (
            f'publication "{publication}" no longer has the table: run ALTER PUBLICATION {name} ADD TABLE {called}; '
            "on the server"
        )
    if unlogged:
        what = "a partition of the table" if table.partitioned else "the table"
        return (
            f"{what} is UNLOGGED, so the server does not send its changes: run ALTER TABLE … SET LOGGED; on the server"
        )
    if missing:
        return (
            f'publication "{publication}" does not publish {" and ".join(missing)}: run ALTER PUBLICATION {name} SET '
            f"(publish = '{', '.join(_CHANGES)}'); on the server"
        )
    if member.root and not via_root:
        return (
            f'publication "{publication}" has the partitions of the table instead of the table: '
            f"run ALTER PUBLICATION {name} SET (publish_via_partition_root = true); on the server"
        )
    if via_root and member.above:
        return f'publication "{publication}" has the parent of the table instead of the table'
    if member.filter != table.filter:
        return (
            f'publication "{publication}" has a row filter of the table that differs from the source\'s: '
            f"{member.filter or 'none'}, which ALTER SOURCE … REFRESH REFERENCES adopts"
        )
    return None


# --- gaps between two states ------------------------------------------------------------------------------------


def _find_gap(
    connection: Connection,
    publication: str,
    table: CapturedTable,
    before: SentTables,
    now: SentTables,
    truncations: Container[int],
) -> str | None:
    """Return why changes of a table may be missing between two states; None if none are."""
    if before.problem is not None or not set(before.by) & set(now.by):
        return f'publication "{publication}" lacked the table for a while, or was altered'
    server = server_table(table.options)
    if before.form is not None and now.form is not None:
        reason = rewritten(server, before.form, now.form, moved=_has_moved(before, now))
        if reason is not None:
            return reason
    if before.leaves == now.leaves:
        return None
    if set(before.leaves) - set(now.leaves):
        return f'table "{server.schema}.{server.name}" has lost partitions, whose rows the changes do not delete'
    for leaf, leaf_now in now.leaves.items():
        leaf_before = before.leaves.get(leaf)
        if leaf_before == leaf_now:
            continue
        if leaf_before is not None and leaf_before.attached != leaf_now.attached:
            return f"partition {_partition_name(connection, leaf)} was detached for a while"
        if leaf_before is not None and _last_changed_by(connection, leaf) in truncations:
            continue
        older = _has_older_rows(connection, leaf, emptied=leaf_before is not None)
        if leaf_before is None and older:
            return (
                f"partition {_partition_name(connection, leaf)} was attached with rows that the changes do not contain"
            )
        if leaf_before is not None and not older:  # a mere rewrite keeps the transactions of its rows
            return (
                f"partition {_partition_name(connection, leaf)} was truncated alone, which the changes do not contain"
            )
    return None


def _has_moved(before: SentTables, now: SentTables) -> bool:
    """Return whether a partition has another file than before."""
    return any(
        now.leaves[leaf].file != leaf_before.file for leaf, leaf_before in before.leaves.items() if leaf in now.leaves
    )


_ATTACHED = """
SELECT i.xmin, i.cmin FROM pg_inherits AS i
WHERE i.inhrelid IN (SELECT %(leaf)s::oid UNION SELECT relid FROM pg_partition_ancestors(%(leaf)s::oid))
ORDER BY age(i.xmin), i.cmin::text::int8 DESC LIMIT 1
"""
_OLDER = """
SELECT EXISTS (SELECT FROM ONLY {table} AS t, ({since}) AS s
               WHERE age(t.xmin) > age(s.xmin) OR (t.xmin = s.xmin AND t.cmin::text::int8 < s.cmin::text::int8))
"""


def _last_changed_by(connection: Connection, leaf: str) -> int | None:
    """Return the transaction that wrote a table's row in the catalog."""
    row = connection.execute("SELECT xmin::text::int8 FROM pg_class WHERE oid = %s::oid", [leaf]).fetchone()
    return None if row is None else int(row[0])


def _has_older_rows(connection: Connection, leaf: str, *, emptied: bool) -> bool:
    """Return whether a partition has rows from before it was attached, or from before its file was replaced."""
    row = connection.execute(
        "SELECT n.nspname, c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
        "WHERE c.oid = %s::oid",
        [leaf],
    ).fetchone()
    if row is None:
        return True
    since = "SELECT xmin, cmin FROM pg_class WHERE oid = %(leaf)s::oid" if emptied else _ATTACHED
    query = sql.SQL(_OLDER).format(table=sql.Identifier(*row), since=sql.SQL(since))
    ((exists,),) = connection.execute(query, {"leaf": leaf})
    return bool(exists)


def _partition_name(connection: Connection, leaf: str) -> str:
    row = connection.execute("SELECT %s::oid::regclass::text", [leaf]).fetchone()
    return f'"{row[0] if row is not None else leaf}"'


def _group_by_first(rows: Iterable[tuple[Any, ...]]) -> dict[int, list[tuple[Any, ...]]]:
    groups: dict[int, list[tuple[Any, ...]]] = {}
    for first, *rest in rows:
        groups.setdefault(first, []).append(tuple(rest))
    return groups
