"""A publication as it is now, and as it was → the captured tables of which the server has not sent all changes.

The stream says nothing of a table that leaves its publication, comes back with another row filter, gets a partition
that has rows already or loses one, or has values that ALTER TABLE computed: such a table is not the server's any more.
So the server's catalog is looked at, now and then, and compared with what it was when all before was received. Its rows
have ids of their own, by which a table is known that was left out in between.

How a server stores the values of a table, and stored them before → what was written anew without a change of a row.

ALTER TABLE … TYPE may compute a column's values from others, and a value of an enum may get another name: the stream
says nothing of either where the column's type is the same here.
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


class Stored(msgspec.Struct, frozen=True, array_like=True):
    """A column as the catalog has it: the transaction that its row is of, its modifier, and a digest of the row."""

    by: str
    modifier: int
    row: str


class StorageForm(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a table's rows lie, its columns by their names, and the values of its enums by their ids.

    `changes` is another number where a column's row in the catalog is another.
    """

    file: int = 0
    changes: int = 0
    columns: dict[str, Stored] = {}
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
    connection: Connection, tables: Mapping[str, ServerTable], known: Mapping[str, StorageForm | None]
) -> tuple[dict[str, StorageForm], set[str]]:
    """Return how tables are stored now, and those that are not logged; `known` is how they were."""
    found = {row[0]: row for row in connection.execute(_FORM_CHANGES, [[each.oid for each in tables.values()]])}
    types = {name: set(_enums(each)) for name, each in tables.items()}
    labels: dict[int, dict[str, str]] = {}
    if any(types.values()):
        for type_, id_, label in connection.execute(_LABELS, [sorted(set().union(*types.values()))]):
            labels.setdefault(type_, {})[id_] = label
    forms, asked, unlogged = {}, {}, set()
    for name, table in tables.items():
        if table.oid not in found:
            continue
        _, file, unlogged_now, changes = found[table.oid]
        before = known.get(name)
        columns = before.columns if before is not None and before.changes == changes else {}
        if not columns:
            asked[table.oid] = name
        named = {id_: label for type_ in types[name] for id_, label in labels.get(type_, {}).items()}
        forms[name] = StorageForm(file, changes or 0, columns, named)
        if unlogged_now:
            unlogged.add(name)
    rows: dict[str, dict[str, Stored]] = {}
    if asked:
        for oid, column, *stored in connection.execute(_COLUMNS, [list(asked)]):
            rows.setdefault(asked[oid], {})[column] = Stored(*stored)
    return {
        name: msgspec.structs.replace(each, columns=rows.get(name, each.columns)) for name, each in forms.items()
    }, unlogged


def rewritten(table: ServerTable, before: StorageForm, now: StorageForm, *, moved: bool) -> str | None:
    """Return what of a table's values is not as it was, though no row changed; None where nothing is.

    `moved` tells that a partition has another file.
    """
    called = f'"{table.schema}.{table.name}"'
    if moved or before.file != now.file:
        for column in table.columns:
            was, is_ = before.columns.get(column.name), now.columns.get(column.name)
            if was is not None and is_ is not None and _retyped(was, is_):
                return f'the values of column "{column.name}" of table {called} were written anew by ALTER TABLE'
    for id_, label in now.labels.items():
        if before.labels.get(id_, label) != label:
            return f'the value "{before.labels[id_]}" of an enum in table {called} is called "{label}" now'
    return None


def _retyped(was: Stored, now: Stored) -> bool:
    """Tell whether a column's type was altered, to another one or the same: other alterations change other things."""
    return was.by != now.by and (was.modifier != now.modifier or was.row == now.row)


def _enums(table: ServerTable) -> Iterator[int]:
    def within(type_: ServerType) -> Iterator[int]:
        if type_.kind == "enum":
            yield type_.oid
        for part in (type_.element, *(each for _, each in type_.fields)):
            if part is not None:
                yield from within(part)

    for each in table.columns:
        yield from within(each.type)


_NAMESPACES = 150000
_CHANGES = ("insert", "update", "delete", "truncate")


class PartitionLeaf(msgspec.Struct, frozen=True):
    """A partition: the youngest transaction that attached it, or what it is in; and where its rows lie."""

    attached: str
    file: int


class SentTables(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a publication has a table: the ids of the catalog's rows that say so, and its partitions by their ids.

    `form` is how its values are stored. `problem` is why its changes are not sent, or no more: it is not `there`.
    """

    by: tuple[str, ...] = ()
    leaves: dict[str, PartitionLeaf] = {}
    problem: str | None = None
    there: bool = True
    form: StorageForm | None = None


@dataclass(slots=True)
class PublicationWatch:
    """What is known of the tables of a source, by their ids; kept in the `notes`, if there are any."""

    publication: str
    notes: LogFiles | None
    tables: Sequence[CapturedTable]
    known: dict[str, SentTables] = field(default_factory=dict)
    _told: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, publication: str, notes: LogFiles | None, tables: Sequence[CapturedTable]) -> PublicationWatch:
        """Return one that goes on with what was known of these tables."""
        found = cls(publication, notes, tables)
        data = notes.noted(_FILE) if notes is not None else None
        if data is not None:
            try:
                known = codec.decoder(dict[str, SentTables]).decode(data)
            except msgspec.MsgspecError:
                known = {}
            found.known = {each.id: known[each.id] for each in tables if each.id in known}
        return found

    def compare(
        self, connection: Connection, now: Mapping[str, SentTables], truncations: Sequence[tuple[str, int]]
    ) -> list[SchemaChanged]:
        """Return what is to be said of tables as they are now.

        `truncations` are tables that were emptied, and by which transactions, in what has come since the last look.
        """
        said = []
        for table in self.tables:
            sent, before = now[table.id], self.known.get(table.id)
            gap = None
            if before is not None:
                own = {transaction for emptied, transaction in truncations if emptied == table.id}
                gap = _gap(connection, self.publication, table, before, sent, own)
            if sent.problem is None and gap is not None:
                said += [_lost(table, gap), SchemaChanged(table)]
            elif sent.problem is not None and self._told.get(table.id) != sent.problem:
                said.append(_lost(table, sent.problem) if sent.there else _gone(table, sent.problem))
            elif sent.problem is None and table.id in self._told:
                said.append(SchemaChanged(table))
            if sent.problem is None:
                self._told.pop(table.id, None)
            else:
                self._told[table.id] = sent.problem
        return said

    def keep(self, now: Mapping[str, SentTables]) -> None:
        """Have what is now be what is known, once what was to be said of it is durable."""
        if now != self.known:
            self.known = dict(now)
            if self.notes is not None:
                self.notes.note(_FILE, msgspec.json.encode(self.known))


_FILE = "publication.json"


def forget_known(notes: LogFiles | None) -> None:
    """Forget what was known: sinks begin again."""
    if notes is not None:
        notes.unnote(_FILE)


def _lost(table: CapturedTable, problem: str) -> SchemaChanged:
    return replace(_gone(table, problem), lost=True)


def _gone(table: CapturedTable, problem: str) -> SchemaChanged:
    return SchemaChanged(replace(table, columns=()), problem)


# --- what the server has ----------------------------------------------------------------------------------------------

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
    connection: Connection, publication: str, tables: Sequence[CapturedTable], known: Mapping[str, SentTables]
) -> dict[str, SentTables] | None:
    """Return how a publication has tables now, by their ids; None where there is no such publication.

    What is `known` of them is not asked for again where it is the same.
    """
    with connection.transaction():  # as of one moment
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        row = connection.execute(_PUBLICATION, [publication]).fetchone()
        if row is None:
            return None
        id_, every, via_root, *changes, oid = row
        servers = {each.id: server_table(each.options) for each in tables}
        asked = {"id": oid, "oids": [each.oid for each in servers.values()]}
        newer = connection.info.server_version >= _NAMESPACES
        query = _MEMBERS.format(namespace=_NAMESPACE if newer else "NULL", filter=_FILTER if newer else "NULL")
        members = _by_first(connection.execute(query, asked))
        roots = any(each.partitioned for each in servers.values())
        leaves = _by_first(connection.execute(_LEAVES, asked)) if roots else {}
        forms, unlogged = read_storage_forms(connection, servers, {name: each.form for name, each in known.items()})
    lacks = [name for name, has in zip(_CHANGES, changes, strict=True) if not has]
    found = {}
    for table_id, server in servers.items():
        member = _Member.read(members.get(server.oid, []), id_ if every else None)
        parts = leaves.get(server.oid, ())
        unlogged_too = table_id in unlogged or any(each[3] for each in parts)
        problem = _problem(publication, server, member, lacks, via_root=via_root, unlogged=unlogged_too)
        by = tuple(f"{id_} {each}" for each in member.by)
        files = {each: PartitionLeaf(attached, file) for each, attached, file, _ in parts}
        found[table_id] = SentTables(by, files, problem, member.there, forms.get(table_id))
    return found


@dataclass(frozen=True, slots=True)
class _Member:
    """What the catalog says of a table: the rows that have it in the publication, and those above it alone."""

    there: bool = False
    root: bool = False
    by: tuple[str, ...] = ()
    above: bool = False
    filter: str | None = None

    @classmethod
    def read(cls, rows: Sequence[tuple[Any, ...]], every: str | None) -> _Member:
        if not rows:
            return cls()
        by = [each for row in rows for each in row[3:5] if each is not None]
        own = next(row for row in rows if row[2])
        wide = every is not None or own[4] is not None
        above = rows[0][1] and (every is not None or any(any(row[3:5]) for row in rows if not row[2]))
        return cls(True, rows[0][0], ("all", *by) if every else tuple(sorted(by)), above, None if wide else own[5])


def _problem(
    publication: str, table: ServerTable, member: _Member, lacks: Sequence[str], *, via_root: bool, unlogged: bool
) -> str | None:
    """Return why the changes of a table are not sent, or not as it was planned."""
    called, name = f"{quoted(table.schema)}.{quoted(table.name)}", quoted(publication)
    if not member.there:
        return f'table "{table.schema}.{table.name}" was dropped'
    if not member.by:
        return (
            f'publication "{publication}" no longer has the table: to put it back, run ALTER PUBLICATION {name} ADD '
            f"TABLE {called}; on the server"
        )
    if unlogged:
        what = "a partition of the table" if table.partitioned else "the table"
        return f"{what} is UNLOGGED, so the server does not send its changes: ALTER TABLE … SET LOGGED; mends it"
    if lacks:
        return (
            f'publication "{publication}" does not publish {" and ".join(lacks)}: run ALTER PUBLICATION {name} SET '
            f"(publish = '{', '.join(_CHANGES)}'); on the server"
        )
    if member.root and not via_root:
        return (
            f'publication "{publication}" has the partitions of the table, and not the table: '
            f"run ALTER PUBLICATION {name} SET (publish_via_partition_root = true); on the server"
        )
    if via_root and member.above:
        return f'publication "{publication}" has the table that it is a partition of, and not the table'
    if member.filter != table.filter:
        return (
            f'publication "{publication}" has another row filter of the table than the source: '
            f"{member.filter or 'none'}, which ALTER SOURCE … REFRESH REFERENCES takes in"
        )
    return None


# --- what was left out in between -------------------------------------------------------------------------------------


def _gap(
    connection: Connection,
    publication: str,
    table: CapturedTable,
    before: SentTables,
    now: SentTables,
    truncations: Container[int],
) -> str | None:
    """Return what of a table may not have been sent between two looks; None where all was."""
    if before.problem is not None or not set(before.by) & set(now.by):
        return f'publication "{publication}" did not have the table for a while, or was altered'
    server = server_table(table.options)
    if before.form is not None and now.form is not None:
        anew = rewritten(server, before.form, now.form, moved=_moved(before, now))
        if anew is not None:
            return anew
    if before.leaves == now.leaves:
        return None
    if set(before.leaves) - set(now.leaves):
        return f'table "{server.schema}.{server.name}" has lost partitions, with rows that the server did not delete'
    for leaf, found in now.leaves.items():
        was = before.leaves.get(leaf)
        if was == found:
            continue
        if was is not None and was.attached != found.attached:
            return f"partition {_called(connection, leaf)} was detached for a while"
        if was is not None and _changed_by(connection, leaf) in truncations:
            continue
        older = _older_rows(connection, leaf, emptied=was is not None)
        if was is None and older:
            return f"partition {_called(connection, leaf)} was attached with rows, which are not in the changes"
        if was is not None and not older:  # what only rewrites it keeps the transactions of its rows
            return f"partition {_called(connection, leaf)} was truncated by itself, which is not in the changes"
    return None


def _moved(before: SentTables, now: SentTables) -> bool:
    """Tell whether a partition has another file than before."""
    return any(now.leaves[leaf].file != was.file for leaf, was in before.leaves.items() if leaf in now.leaves)


_ATTACHED = """
SELECT i.xmin, i.cmin FROM pg_inherits AS i
WHERE i.inhrelid IN (SELECT %(leaf)s::oid UNION SELECT relid FROM pg_partition_ancestors(%(leaf)s::oid))
ORDER BY age(i.xmin), i.cmin::text::int8 DESC LIMIT 1
"""
_OLDER = """
SELECT EXISTS (SELECT FROM ONLY {table} AS t, ({since}) AS s
               WHERE age(t.xmin) > age(s.xmin) OR (t.xmin = s.xmin AND t.cmin::text::int8 < s.cmin::text::int8))
"""


def _changed_by(connection: Connection, leaf: str) -> int | None:
    """Return the transaction that a table's row in the catalog is of."""
    row = connection.execute("SELECT xmin::text::int8 FROM pg_class WHERE oid = %s::oid", [leaf]).fetchone()
    return None if row is None else int(row[0])


def _older_rows(connection: Connection, leaf: str, *, emptied: bool) -> bool:
    """Tell whether a partition has rows from before it was attached, or from before its file was replaced."""
    row = connection.execute(
        "SELECT n.nspname, c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
        "WHERE c.oid = %s::oid",
        [leaf],
    ).fetchone()
    if row is None:
        return True
    since = "SELECT xmin, cmin FROM pg_class WHERE oid = %(leaf)s::oid" if emptied else _ATTACHED
    query = sql.SQL(_OLDER).format(table=sql.Identifier(*row), since=sql.SQL(since))
    found = connection.execute(query, {"leaf": leaf}).fetchone()
    assert found is not None
    return bool(found[0])


def _called(connection: Connection, leaf: str) -> str:
    row = connection.execute("SELECT %s::oid::regclass::text", [leaf]).fetchone()
    return f'"{row[0] if row is not None else leaf}"'


def _by_first(rows: Iterable[tuple[Any, ...]]) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = {}
    for first, *rest in rows:
        found.setdefault(first, []).append(tuple(rest))
    return found
