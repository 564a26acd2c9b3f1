"""SELECT → rows: of the system catalog by SQLite, of items plain ones in Python, all others by Spark."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sinkql import ast, logical
from sinkql.catalog.query import select as select_system
from sinkql.catalog.store import Catalog
from sinkql.catalog.system import RELATIONS
from sinkql.errors import SinkqlError, Span
from sinkql.planner.name import SYSTEM_SCHEMAS, path, split_name
from sinkql.printer.part import name as print_name
from sinkql.session.inputs import Inputs, columns_of
from sinkql.session.result import Result

if TYPE_CHECKING:
    from sinkql.planner.query_once import Once, Order, Plain
    from sinkql.session.session import Session

Row = tuple[Any, ...]
_CLIENT = re.compile(
    r"\b(current_(database|catalog|schema|user)|session_user|(mz_)?version|format_type|(sh)?obj_description|"
    r"col_description|(pg|has)_\w+)\b",
    re.IGNORECASE,
)
"""What clients ask of the catalog, with no relation."""
_ON_PATH = ("mz_catalog", "pg_catalog")
_SYSTEM = re.compile(rf"\b({'|'.join(SYSTEM_SCHEMAS)})\b|\b(mz|pg)_", re.IGNORECASE)


def select(statement: ast.Select, session: Session) -> Result:
    """Run a query; SQ2640 for one over both system relations and items."""
    if _system(statement.query, session.catalog):
        plans = session.catalog.plans
        schemas = tuple(split_name(each)[-1] for each in path(plans))
        current = plans.setting("database"), schemas
        table = select_system(statement.query, session.catalog.database, current=current)
        return Result("SELECT", columns=table.columns, rows=table.rows)
    return run(statement.query, session)


def run(query: ast.Query, session: Session) -> Result:
    """Run a query over items."""
    from sinkql.planner.query_once import plan_once  # sqlglot loads only where there is a query

    once = plan_once(query, session.catalog.plans, now())
    inputs = Inputs(session, query.span, enough(once))
    rows = rows_of(once, session, inputs)
    return Result("SELECT", tuple(inputs.notices), once.names, tuple(row[: once.width] for row in rows))


def rows_of(once: Once, session: Session, inputs: Inputs) -> list[Row]:
    """Return a query's rows, with the columns that only order them; by Spark where it is not plain."""
    return _plain(once, once.plain, inputs) if once.plain is not None else _by_spark(once, session, inputs)


def preview(name: ast.Name, session: Session, limit: int) -> Result:
    """Give the first rows of a relation."""
    head = "SELECT * FROM "
    text = f"{head}{print_name(name)} LIMIT {limit}"
    return select(ast.Select(ast.Query(text, Span(0, len(text)))), session)


def now() -> datetime:
    """Return the time of a statement."""
    return datetime.now(UTC).replace(tzinfo=None)


def _by_spark(once: Once, session: Session, inputs: Inputs) -> list[Row]:
    """Run a query in Spark over all rows of what it reads."""
    from sinkql.planner.query_sql import QuerySql

    text = QuerySql(session.catalog.plans)
    sql = text.once(once)
    read = {}
    for full_name, name in text.inputs.items():
        item = session.catalog.plans.item(full_name)
        assert isinstance(item, logical.Source | logical.Sink)
        read[name] = (columns_of(item), inputs.rows(full_name))
    found = session.spark.query(sql, read)
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


def _system(query: ast.Query, catalog: Catalog) -> bool:
    """Tell whether a query is over system relations alone."""
    from sinkql.planner.query_text import relations

    try:
        names = relations(query)
    except SinkqlError:
        if _SYSTEM.search(query.text):
            return True  # the system catalog knows better what is wrong
        raise
    if not names:
        return _CLIENT.search(query.text) is not None
    system = [name for name in names if _system_name(name, catalog)]
    if system and len(system) < len(names):
        raise SinkqlError(
            "SQ2640",
            f'a query over "{system[0].text}" and other relations at once is not supported yet',
            query.span,
            hint="Query the system catalog by itself.",
        )
    return bool(system)


def _system_name(name: ast.Name, catalog: Catalog) -> bool:
    item = name.parts[-1].value
    if len(name.parts) > 1:
        return name.parts[-2].value in SYSTEM_SCHEMAS
    if catalog.plans.entry(catalog.plans.resolve(name)) is not None:
        return False
    return any((schema, item) in RELATIONS for schema in _ON_PATH) or item.startswith(("mz_", "pg_"))


# --- plain queries -----------------------------------------------------------------------------------------------


def enough(once: Once) -> int | None:
    """Return how many rows of the one relation are enough, where nothing stands between it and the LIMIT."""
    plain = once.plain
    if plain is None or plain.where is not None or plain.count or once.order or once.limit is None:
        return None
    return once.offset + once.limit


def _plain(once: Once, plain: Plain, inputs: Inputs) -> list[Row]:
    rows: list[Row] = [()]
    if plain.item is not None:
        table = inputs.rows(plain.item)
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    if plain.where is not None:
        rows = [row for row in rows if plain.where(row)]
    if plain.count:
        rows = [(len(rows),)]
    else:
        rows = [tuple(value(row) for value in plain.values) for row in rows]
    ordered = in_order(rows, once.order)
    return ordered[once.offset : None if once.limit is None else once.offset + once.limit]


def in_order(rows: list[Row], order: Sequence[Order]) -> list[Row]:
    """Return rows in an order; rows that are equal in it stay as they are."""
    found = list(rows)
    for term in reversed(order):
        nulls = [row for row in found if row[term.place] is None]
        values = [row for row in found if row[term.place] is not None]
        values.sort(key=lambda row: _comparable(row[term.place]), reverse=term.descending)
        found = [*nulls, *values] if term.nulls_first else [*values, *nulls]
    return found


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value
