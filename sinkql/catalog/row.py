"""Items ↔ rows of the catalog file, inside a transaction."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from sinkql import ast, logical
from sinkql.catalog import schema
from sinkql.catalog.clock import now
from sinkql.catalog.control import forget
from sinkql.catalog.detail import details
from sinkql.catalog.secret import Sealed
from sinkql.catalog.system import QUICKSTART, QUICKSTART_ID
from sinkql.errors import SinkqlError
from sinkql.parser import parse
from sinkql.planner import Planned
from sinkql.planner.name import join_name, split_name
from sinkql.planner.statement import kind_of
from sinkql.printer import to_sql


@dataclass(frozen=True, slots=True)
class Stored:
    """Hold an item as it is stored."""

    id: str
    name: str
    kind: str
    create_sql: str
    redacted_sql: str
    facts: logical.Facts


def insert_item(
    connection: Connection, item_id: str, statement: ast.Create, planned: Planned, facts: logical.Facts
) -> None:
    """Write a planned item and what it depends on."""
    full_name = planned.item.name
    parts = split_name(full_name)
    known = _ids(connection)
    connection.execute(
        schema.items.insert().values(
            id=item_id,
            database_name=parts[0] if len(parts) == 3 else None,
            schema_name=parts[1] if len(parts) == 3 else None,
            name=parts[-1],
            full_name=full_name,
            kind=kind_of(statement),
            create_sql=to_sql(statement),
            redacted_sql=to_sql(statement, redacted=True),
            facts=json.dumps(facts),
            details=json.dumps(details(planned.item, statement, facts, known.get)),
            created_at=now(),
        )
    )
    for name in sorted({*planned.dependencies, *_cluster(statement)} & known.keys() - {QUICKSTART}):
        connection.execute(schema.dependencies.insert().values(item_id=item_id, referenced_id=known[name]))


def insert_secret(connection: Connection, item_id: str, sealed: Sealed) -> None:
    """Write what is stored of a secret's value."""
    connection.execute(
        schema.secrets.insert().values(
            item_id=item_id,
            version=sealed.version,
            kind=sealed.kind,
            reference=sealed.reference,
            nonce=sealed.nonce,
            ciphertext=sealed.ciphertext,
        )
    )


def secret_row(connection: Connection, full_name: str) -> Row[Any]:
    """Return a secret's item with what is stored of its value; raises SQ2001 if there is none."""
    item = schema.items.c
    query = sa.select(item.id, item.full_name, item.create_sql, schema.secrets)
    row = connection.execute(query.join(schema.secrets).where(item.full_name == full_name)).one_or_none()
    if row is None:
        name = split_name(full_name)[-1]
        raise SinkqlError("SQ2001", f'secret "{name}" does not exist', hint="Run CREATE SECRET before the job.")
    return row


def update_secret(connection: Connection, row: Row[Any], sealed: Sealed, value: ast.SecretValue) -> None:
    """Write a secret's new value, and its text with what `value` shows of it."""
    statement = parsed(row)
    assert isinstance(statement, ast.CreateSecret)
    statement = replace(statement, value=value)
    texts = {"create_sql": to_sql(statement), "redacted_sql": to_sql(statement, redacted=True)}
    connection.execute(schema.items.update().where(schema.items.c.id == row.id).values(**texts))
    stored = {each.name: getattr(sealed, each.name) for each in fields(sealed)}
    connection.execute(schema.secrets.update().where(schema.secrets.c.item_id == row.id).values(**stored))


def parsed(row: Row[Any]) -> ast.Create:
    """Return an item's statement; raises SQ4106 if its text is not one CREATE statement."""
    try:
        statements = parse(row.create_sql)
    except SinkqlError as error:
        raise _unreadable(row.full_name, error.message) from error
    match statements:
        case (statement,) if isinstance(statement, ast.Create):
            return statement
        case _:
            raise _unreadable(row.full_name, "it is not one CREATE statement")


def _unreadable(full_name: str, reason: str) -> SinkqlError:
    return SinkqlError(
        "SQ4106",
        f'item "{full_name}" of the catalog file does not parse',
        detail=reason,
        hint="The file was changed by another program: put back a copy of it.",
    )


def generation_of(connection: Connection) -> int:
    """Return the number that grows with every change of items and settings."""
    return int(connection.execute(sa.select(schema.identity.c.generation)).scalar_one())


def next_number(connection: Connection) -> int:
    """Return the number that the next item gets: above all there ever were, also deleted ones."""
    last = connection.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = 'items'").scalar()
    return int(last or 0) + 1


def _ids(connection: Connection) -> dict[str, str]:
    rows = connection.execute(sa.select(schema.items.c.full_name, schema.items.c.id))
    return {QUICKSTART: QUICKSTART_ID, **{row.full_name: row.id for row in rows}}


def _cluster(statement: ast.Create) -> tuple[str, ...]:
    match statement:
        case ast.CreateSource() | ast.CreateView() | ast.CreateSink() if statement.cluster is not None:
            return (join_name(statement.cluster.value),)
        case _:
            return ()


def delete_item(connection: Connection, full_name: str) -> None:
    """Delete an item, and of a sink also its desired state, status and progress."""
    mine = schema.items.c.full_name == full_name
    facts = connection.scalar(sa.select(schema.items.c.facts).where(mine))
    connection.execute(schema.items.delete().where(mine))
    sink_id = json.loads(facts).get("sink_id") if facts is not None else None
    if sink_id is not None:
        forget(connection, sink_id)
