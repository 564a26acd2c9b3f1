"""Convert items to rows of the catalog's tables, and back, in a transaction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from graphlib import CycleError
from typing import Any

from sinkql import ast, logical
from sinkql.catalog.coordination.control import forget
from sinkql.catalog.coordination.process import now
from sinkql.catalog.memory import Place
from sinkql.catalog.replan import Replanned
from sinkql.catalog.secret.cipher import MARK, Cipher, Sealed, hidden, shown
from sinkql.catalog.store import Connection, Row
from sinkql.catalog.system.audit import record
from sinkql.catalog.system.properties import FindId, details
from sinkql.catalog.system.relation import QUICKSTART, QUICKSTART_ID
from sinkql.errors import MissingError, SinkqlError
from sinkql.keywords import LANGUAGE, Keywords
from sinkql.parser import parse
from sinkql.planner import Planned
from sinkql.planner.dependency import in_order
from sinkql.planner.item.statement import kind_of
from sinkql.planner.name import around, qualified_name, short_name, split_name
from sinkql.printer import to_sql

_AT_ONCE = 500
OWNER = "materialize"
"""The role that owns items without an explicit owner."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The stored form of an item; `create_sql` has its literals, decrypted if they are stored encrypted."""

    id: str
    name: str
    kind: str
    create_sql: str
    redacted_sql: str
    facts: logical.Facts


@dataclass(frozen=True, slots=True)
class Sealing:
    """The means to store a statement's text.

    `words` finds secret literals, and `cipher` encrypts them. `planner` identifies the program's versions and the
    settings that decide plans.
    """

    words: Keywords
    cipher: Cipher
    planner: str


def insert_item(
    connection: Connection,
    item_id: str,
    statement: ast.Create,
    planned: Planned,
    facts: logical.Facts,
    sealing: Sealing,
) -> None:
    """Write a planned item and its dependencies."""
    find_id = _id_finder(connection)
    values: dict[str, object] = {
        "id": item_id,
        "kind": kind_of(statement),
        "details": json.dumps(details(planned.item, statement, facts, find_id)),
        "created_at": now(),
        "owner": OWNER,
    }
    content = _content(item_id, statement, facts, sealing)
    values |= {**_name_columns(planned.item.name), **content}
    values["planned_for"] = planned_for(planned.item.name, content["create_sql"], content["facts"], sealing.planner)
    connection.insert("items", values)
    record(connection, "create", item_id)
    _insert_dependencies(connection, item_id, statement, planned, find_id)


def update_items(connection: Connection, replanned: Sequence[Replanned], sealing: Sealing) -> None:
    """Write replanned items and their new dependencies."""

    def write(item_id: str, **values: Any) -> None:
        connection.update("items", values, "id = ?", item_id)

    entries = [item.replacement.new for item in replanned]
    for entry in entries:
        write(entry.id, full_name=f".{entry.id}")  # names may be swapped; no real name begins with a dot
    for entry in entries:
        content = _content(entry.id, entry.statement, entry.facts, sealing)
        before = connection.scalar("SELECT create_sql FROM items WHERE id = ?", entry.id)
        write(entry.id, kind=entry.kind, **_name_columns(entry.name), **content, planned_for="")
        if before != content["create_sql"]:
            record(connection, "alter", entry.id)
    find_id = _id_finder(connection)
    for item in replanned:
        new, planned = item.replacement.new, item.planned
        if planned is None:
            continue
        shown = details(planned.item, new.statement, new.facts, find_id)
        _move_comments(connection, new.id, [column["name"] for column in shown.get("columns", ())])
        row = connection.first("SELECT * FROM items WHERE id = ?", new.id)
        planner_hash = planned_for(row.full_name, row.create_sql, row.facts, sealing.planner)
        write(new.id, details=json.dumps(shown), planned_for=planner_hash)
        connection.execute("DELETE FROM dependencies WHERE item_id = ?", (new.id,))
        _insert_dependencies(connection, new.id, new.statement, planned, find_id)


def write_details(connection: Connection, items: Iterable[tuple[logical.Entry, logical.Item]]) -> None:
    """Write again the details of items for the system relations."""
    find_id = _id_finder(connection)
    for entry, item in items:
        shown = json.dumps(details(item, entry.statement, entry.facts, find_id))
        connection.update("items", {"details": shown}, "id = ?", entry.id)


def _move_comments(connection: Connection, item_id: str, names: list[str]) -> None:
    """Move comments on columns with their columns, which now have these names; delete orphaned ones."""
    comments = connection.all("SELECT sub_id, comment FROM comments WHERE item_id = ? AND sub_id > 0", item_id)
    if not comments:
        return
    stored = connection.scalar("SELECT details FROM items WHERE id = ?", item_id)
    before = [column["name"] for column in json.loads(stored or "{}").get("columns", ())]
    connection.execute("DELETE FROM comments WHERE item_id = ? AND sub_id > 0", (item_id,))
    for place, comment in comments:
        if place <= len(before) and before[place - 1] in names:
            sub_id = names.index(before[place - 1]) + 1
            connection.insert("comments", {"item_id": item_id, "sub_id": sub_id, "comment": comment})


Stamp = tuple[str, str, str]
"""The values that change if an item changes: its name, text and facts."""


def stamp(row: Row) -> Stamp:
    """Return the stamp of an item's row."""
    return row.full_name, row.create_sql, row.facts


def stamps(connection: Connection, ids: Sequence[str]) -> dict[str, Stamp]:
    """Return the stamps of items by their ids."""
    stamps_by_id: dict[str, Stamp] = {}
    for first in range(0, len(ids), _AT_ONCE):
        some = ids[first : first + _AT_ONCE]
        query = f"SELECT id, full_name, create_sql, facts FROM items WHERE id IN ({', '.join('?' * len(some))})"
        stamps_by_id |= {row.id: stamp(row) for row in connection.all(query, *some)}
    return stamps_by_id


def planned_for(full_name: str, create_sql: str, facts: str, planner: str) -> str:
    """Return a hash of all values that decide whether a stored item can be planned, except its dependencies."""
    values = "\0".join((planner, full_name, create_sql, facts))
    return hashlib.blake2b(values.encode(), digest_size=12).hexdigest()


def doubtful(connection: Connection, planner: str) -> tuple[list[str], list[str]]:
    """Return the full names of the items that may be broken.

    The first list has items that were last planned by another version or with other text. The second list has items
    with encrypted literals, which need the key.
    """
    changed, sealed = [], []
    for row in connection.all("SELECT * FROM items ORDER BY number"):
        _check_texts(row)
        if row.planned_for != planned_for(row.full_name, row.create_sql, row.facts, planner):
            changed.append(row.full_name)
        elif MARK in row.create_sql:
            sealed.append(row.full_name)
    return changed, sealed


def record_planned(connection: Connection, names: Iterable[str], planner: str) -> None:
    """Record that these items can be planned as stored."""
    for name in names:
        row = connection.first("SELECT * FROM items WHERE full_name = ?", name)
        planner_hash = planned_for(name, row.create_sql, row.facts, planner)
        if row.planned_for != planner_hash:
            connection.update("items", {"planned_for": planner_hash}, "id = ?", row.id)


def _check_texts(row: Row) -> None:
    """Raise SQ4116 if a text column has another type, which SQLite lets other programs write."""
    if not all(isinstance(getattr(row, column), str) for column in _TEXTS):
        hint = "Another program changed the file. Restore a backup of it."
        raise SinkqlError("SQ4116", "an item of the catalog file has a value that is not text", hint=hint)


_TEXTS = ("id", "name", "full_name", "kind", "create_sql", "redacted_sql", "facts", "details", "planned_for")


def rows_in_order(connection: Connection) -> tuple[list[Row], dict[str, list[str]]]:
    """Return the rows of all items in order of dependency, and the ids of the items that each uses.

    An item also uses its schema and database.
    """
    item_rows = connection.all("SELECT * FROM items ORDER BY number")
    for row in item_rows:
        _check_texts(row)
    rows = {row.id: row for row in item_rows}
    by_name = {row.full_name: row.id for row in rows.values()}
    uses = {row.id: [by_name[name] for name in around(row.full_name) if name in by_name] for row in rows.values()}
    for edge in connection.all("SELECT * FROM dependencies ORDER BY referenced_id"):
        if edge.referenced_id in rows and edge.item_id in rows:
            uses[edge.item_id].append(edge.referenced_id)
    try:
        order = in_order(uses)
    except CycleError:  # another program changed the file: planning the items reports the errors
        order = list(rows)
    return [rows[item_id] for item_id in order], uses


def edges(connection: Connection) -> dict[str, list[str]]:
    """Return the full names of the direct users of each item, by its full name."""
    query = (
        "SELECT used.full_name AS name, reader.full_name AS by FROM dependencies AS edge"
        " JOIN items AS used ON used.id = edge.referenced_id JOIN items AS reader ON reader.id = edge.item_id"
        " ORDER BY reader.number"
    )
    users: dict[str, list[str]] = {}
    for name, by in connection.all(query):
        users.setdefault(name, []).append(by)
    return users


def writes(row: Row) -> tuple[Place, bool] | None:
    """Return a sink's stored destination, and whether the sink shares it; None for other items."""
    destination = json.loads(row.details).get("destination") if row.kind == "SINK" else None
    connection, kind, path, shared = destination or (None, "", (), False)
    return ((connection, kind, tuple(path)), shared) if connection is not None else None


def _name_columns(full_name: str) -> dict[str, Any]:
    """Return the name columns of a full name; clusters and databases have only a name."""
    parts = split_name(full_name)
    return {
        "database_name": parts[0] if len(parts) > 1 else None,
        "schema_name": parts[1] if len(parts) > 2 else None,
        "name": parts[-1],
        "full_name": full_name,
    }


def _content(item_id: str, statement: ast.Create, facts: logical.Facts, sealing: Sealing) -> dict[str, str]:
    return {
        "create_sql": to_sql(hidden(statement, lambda text: sealing.cipher.seal_text(item_id, text), sealing.words)),
        "redacted_sql": to_sql(statement, redacted=sealing.words),
        "facts": json.dumps(dict(facts)),
    }


def _insert_dependencies(
    connection: Connection, item_id: str, statement: ast.Create, planned: Planned, find_id: FindId
) -> None:
    for name in sorted({*planned.dependencies, *_cluster(statement)} - {QUICKSTART}):
        used = find_id(name)
        if used is not None:
            connection.insert("dependencies", {"item_id": item_id, "referenced_id": used})


def insert_secret(connection: Connection, item_id: str, sealed: Sealed) -> None:
    """Write the encrypted value of a secret."""
    connection.insert("secrets", {"item_id": item_id, **_columns(sealed)})


def secret_row(connection: Connection, full_name: str) -> Row:
    """Return a secret's item with its stored value; raise SQ2001 if it does not exist."""
    query = (
        "SELECT i.id, i.full_name, i.create_sql, s.* FROM items AS i JOIN secrets AS s ON s.item_id = i.id"
        " WHERE i.full_name = ?"
    )
    row = connection.first(query, full_name)
    if row is None:
        name = split_name(full_name)[-1]
        hint = "Create it with CREATE SECRET before the job starts."
        raise MissingError("SQ2001", f'secret "{name}" does not exist', name=name, hint=hint)
    return row


def update_secret(connection: Connection, row: Row, sealed: Sealed, value: ast.SecretValue) -> None:
    """Write a secret's new value, and its text with the visible part of `value`."""
    statement = parsed(row)
    assert isinstance(statement, ast.CreateSecret)
    statement = replace(statement, value=value)
    texts = {"create_sql": to_sql(statement), "redacted_sql": to_sql(statement, redacted=LANGUAGE)}
    connection.update("items", texts, "id = ?", row.id)
    if texts["create_sql"] != row.create_sql:
        record(connection, "alter", row.id)
    replace_secret(connection, row.id, sealed)


def replace_secret(connection: Connection, item_id: str, sealed: Sealed) -> None:
    """Replace the stored value of a secret."""
    connection.update("secrets", _columns(sealed), "item_id = ?", item_id)


def _columns(sealed: Sealed) -> dict[str, object]:
    return {column.name: getattr(sealed, column.name) for column in fields(sealed)}


def facts_of(row: Row) -> dict[str, Any]:
    """Return an item's facts; raise SQ4106 if they are invalid."""
    try:
        facts = json.loads(row.facts)
    except ValueError as error:
        raise _unreadable(row.full_name, f"the facts are not valid JSON: {error}") from error
    if not isinstance(facts, dict):
        raise _unreadable(row.full_name, "the facts are not a JSON object")
    return facts


def opened(row: Row, statement: ast.Create, *, cipher: Cipher) -> ast.Create:
    """Return an item's parsed statement with decrypted literals; raise SQ4107 to SQ4112 without the key."""
    return shown(statement, lambda text: cipher.open_text(row.id, short_name(row.full_name), text))


def opened_sql(row: Row, cipher: Cipher) -> str:
    """Return an item's text with decrypted literals; the stored text if they cannot be decrypted."""
    text = str(row.create_sql)
    if MARK not in text:
        return text
    try:
        return to_sql(opened(row, parsed(row), cipher=cipher))
    except SinkqlError:
        return text


def parsed(row: Row) -> ast.Create:
    """Return an item's statement with encrypted literals; raise SQ4106 if it is not one CREATE statement."""
    try:
        statements = parse(row.create_sql)
    except SinkqlError as error:
        raise _unreadable(row.full_name, error.message) from error
    match statements:
        case (statement,) if isinstance(statement, ast.Create):
            return statement
        case _:
            raise _unreadable(row.full_name, "the text is not one CREATE statement")


def _unreadable(full_name: str, reason: str) -> SinkqlError:
    return SinkqlError(
        "SQ4106",
        f'item "{full_name}" of the catalog file does not parse',
        detail=reason,
        hint="Another program changed the file. Restore a backup of it.",
    )


def generation_of(connection: Connection) -> int:
    """Return the number that every change of items and settings increases."""
    generation = connection.scalar("SELECT generation FROM identity")
    if not isinstance(generation, int):
        hint = "Another program changed the file. Restore a backup of it."
        raise SinkqlError("SQ4116", "the catalog file has no generation number", hint=hint)
    return generation


def next_number(connection: Connection) -> int:
    """Return the number of the next item, above the numbers of all items, including deleted ones."""
    return connection.last_number("items") + 1


def _id_finder(connection: Connection) -> FindId:
    """Return a function that finds the current id of an item by its full name."""
    ids: dict[str, str | None] = {QUICKSTART: QUICKSTART_ID}

    def find(full_name: str) -> str | None:
        if full_name not in ids:
            ids[full_name] = connection.scalar("SELECT id FROM items WHERE full_name = ?", full_name)
        return ids[full_name]

    return find


def _cluster(statement: ast.Create) -> tuple[str, ...]:
    match statement:
        case ast.CreateSource() | ast.CreateView() | ast.CreateSink() if statement.cluster is not None:
            return (qualified_name(statement.cluster.value),)
        case _:
            return ()


def delete_item(connection: Connection, full_name: str) -> None:
    """Delete an item, and for a sink also its desired state, status and progress."""
    facts = connection.scalar("SELECT facts FROM items WHERE full_name = ?", full_name)
    mine = "(SELECT id FROM items WHERE full_name = ?)"
    connection.execute(f"DELETE FROM comments WHERE item_id = {mine}", (full_name,))
    item_id = connection.scalar("SELECT id FROM items WHERE full_name = ?", full_name)
    if item_id is not None:
        record(connection, "drop", item_id)
    connection.execute("DELETE FROM items WHERE full_name = ?", (full_name,))
    decoded_facts = json.loads(facts) if facts is not None else {}
    for name in ("sink_id", "source_id", "view_id"):
        if decoded_facts.get(name) is not None:
            forget(connection, decoded_facts[name])
