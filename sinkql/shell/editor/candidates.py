"""Kinds of names → the names of the catalog, as they are written in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from sinkql import ast, logical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.system import RELATIONS
from sinkql.errors import SinkqlError
from sinkql.keywords import SECRET_FUNCTIONS
from sinkql.parser.assist.completion import Candidates, QueriedRelation
from sinkql.parser.read import lexer
from sinkql.planner.function.call import AGGREGATES, NAMES
from sinkql.planner.item.setting import DEFAULTS
from sinkql.planner.name import short_name, split_name
from sinkql.planner.types import TYPE_NAMES
from sinkql.printer.clause import ident
from sinkql.session import Session

_QUERIED = ("SOURCE", "TABLE", "VIEW", "MATERIALIZED VIEW")
_EXPORTED = ("SOURCE", "TABLE", "MATERIALIZED VIEW")
_ON_PATH = "mz_catalog"


def names(found: Candidates, session: Session) -> Iterator[tuple[str, str]]:
    """Yield the names that may stand, each with a value in it."""
    session.catalog.refresh()
    plans = session.catalog.plans
    for kind in found.kinds:
        match kind:
            case "RELATION":
                yield from _relations(plans, found.qualifier)
            case "EXPORTED":
                yield from _items(plans, *_EXPORTED)
            case "CONNECTION":
                yield from _connections(plans, found.connection)
            case "COLUMN":
                yield from _columns(plans, found)
            case "FUNCTION":
                yield from ((f"{name}(", "function") for name in _functions())
            case "SETTING":
                yield from ((name, f"setting, {plans.setting(name)}") for name in sorted(DEFAULTS))
            case "DATA TYPE":
                yield from ((name, "type") for name in TYPE_NAMES)
            case "SECRET FUNCTION":
                yield from ((f"{name}(", f"({', '.join(wanted)})") for name, wanted in SECRET_FUNCTIONS.items())
            case "SCHEMA" | "DATABASE":
                yield from _places(session, kind)
            case (
                "SECRET" | "CLUSTER" | "SOURCE" | "TABLE" | "VIEW" | "MATERIALIZED VIEW" | "INDEX" | "SINK"
            ):  # fmt: skip
                yield from _items(plans, kind)


def _items(plans: MemoryCatalog, *kinds: str) -> Iterator[tuple[str, str]]:
    for kind in kinds:
        yield from ((_written(name, plans), kind.lower()) for name in plans.names(kind))


def _written(full_name: str, plans: MemoryCatalog) -> str:
    return ".".join(ident(ast.Ident(part)) for part in split_name(short_name(full_name, plans)))


def _connections(plans: MemoryCatalog, kind: str | None) -> Iterator[tuple[str, str]]:
    for name in plans.names("CONNECTION"):
        item = plans.item(name)
        if isinstance(item, logical.Connection) and kind in (None, item.kind):
            yield _written(name, plans), f"{item.kind.lower()} connection"


def _relations(plans: MemoryCatalog, qualifier: str | None) -> Iterator[tuple[str, str]]:
    schemas = {schema for schema, _ in RELATIONS}
    if qualifier is None:
        yield from _items(plans, *_QUERIED)
        yield from ((name, "system") for schema, name in RELATIONS if schema == _ON_PATH)
        yield from ((f"{schema}.", "system schema") for schema in sorted(schemas - {_ON_PATH}))
    elif qualifier in schemas:
        yield from ((name, "system") for schema, name in RELATIONS if schema == qualifier)
    else:
        yield from ((_last(name), meta) for name, meta in _items(plans, *_QUERIED))


def _columns(plans: MemoryCatalog, found: Candidates) -> Iterator[tuple[str, str]]:
    if not found.relations and (found.qualifier is not None or "FUNCTION" in found.kinds):
        yield from _columns_of_all(plans, found.qualifier)
    for relation in found.relations:
        called = relation.alias or _parts(relation.name)[-1]
        if found.qualifier is None or found.qualifier == called:
            yield from _columns_of(plans, relation)
    if found.qualifier is None and len(found.relations) > 1:
        yield from ((f"{each.alias or _last(each.name)}.", "relation") for each in found.relations)


def _parts(written: str) -> tuple[str, ...]:
    """Return the parts of a name as it is written, those without quotes in lower case."""
    return tuple(each.value for each in lexer.scan(written) if each.kind in ("WORD", "QUOTED"))


def _last(written: str) -> str:
    return ident(ast.Ident(_parts(written)[-1]))


def _columns_of_all(plans: MemoryCatalog, qualifier: str | None) -> Iterator[tuple[str, str]]:
    """Yield the columns of all relations, each with its own, for a query that does not say yet which it reads."""
    for name in sorted({name for kind in _QUERIED for name in plans.names(kind)}):
        relation = _written(name, plans)
        if qualifier in (None, _parts(relation)[-1]):
            for column, type_ in _columns_of(plans, QueriedRelation(relation)):
                yield column, f"{type_} of {relation}"


def _columns_of(plans: MemoryCatalog, relation: QueriedRelation) -> Iterator[tuple[str, str]]:
    parts = _parts(relation.name)
    schema, name = (parts[-2] if len(parts) > 1 else _ON_PATH), parts[-1]
    system = RELATIONS.get((schema, name))
    if system is not None:
        yield from ((column.name, column.type) for column in system.columns)
        return
    try:
        item = plans.item(plans.resolve(ast.Name(tuple(ast.Ident(part) for part in parts))))
    except SinkqlError:
        return
    if isinstance(item, logical.Source | logical.View):
        yield from ((ident(ast.Ident(column.name)), str(column.type)) for column in item.shape.columns)


@cache
def _functions() -> tuple[str, ...]:
    return tuple(sorted({*AGGREGATES, *NAMES}))


def _places(session: Session, kind: str) -> Iterator[tuple[str, str]]:
    query = "SELECT name FROM mz_schemas" if kind == "SCHEMA" else "SELECT name FROM mz_databases"
    for result in session.execute(query):
        yield from ((ident(ast.Ident(str(row[0]))), kind.lower()) for row in result.rows)
