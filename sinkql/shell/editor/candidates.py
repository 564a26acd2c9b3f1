"""The names of the catalog as SQL, and options with their values, that can complete a text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from sinkql import ast, logical
from sinkql.catalog.memory import MemoryCatalog
from sinkql.catalog.system import RELATIONS
from sinkql.connector_api.option_help import OptionHelp, offered
from sinkql.errors import SinkqlError
from sinkql.keywords import SECRET_FUNCTIONS
from sinkql.local_path import in_project
from sinkql.parser.assist.completion import Candidates, OptionPlace, QueriedRelation
from sinkql.parser.read import lexer
from sinkql.planner.function.call import AGGREGATES, NAMES
from sinkql.planner.item.connection import ClusterOptions
from sinkql.planner.item.setting import DEFAULTS
from sinkql.planner.name import as_name, short_name, split_name
from sinkql.planner.types import TYPE_NAMES
from sinkql.printer.clause import ident
from sinkql.session import Session

_QUERIED = ("SOURCE", "TABLE", "VIEW", "MATERIALIZED VIEW")
_EXPORTED = ("SOURCE", "TABLE", "MATERIALIZED VIEW")
_ON_PATH = "mz_catalog"


def names(candidates: Candidates, session: Session) -> Iterator[tuple[str, str]]:
    """Yield the possible names, each with a description of its kind."""
    session.catalog.refresh()
    plans = session.catalog.plans
    for kind in candidates.kinds:
        match kind:
            case "RELATION":
                yield from _relations(plans, candidates.qualifier)
            case "EXPORTED":
                yield from _items(plans, *_EXPORTED)
            case "CONNECTION":
                yield from _connections(plans, candidates.connection)
            case "COLUMN":
                yield from _columns(plans, candidates)
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


def _columns(plans: MemoryCatalog, candidates: Candidates) -> Iterator[tuple[str, str]]:
    if not candidates.relations and (candidates.qualifier is not None or "FUNCTION" in candidates.kinds):
        yield from _columns_of_all(plans, candidates.qualifier)
    for relation in candidates.relations:
        called = relation.alias or _parts(relation.name)[-1]
        if candidates.qualifier is None or candidates.qualifier == called:
            yield from _columns_of(plans, relation)
    if candidates.qualifier is None and len(candidates.relations) > 1:
        yield from ((f"{other.alias or _last(other.name)}.", "relation") for other in candidates.relations)


def _parts(written: str) -> tuple[str, ...]:
    """Return the parts of a name in SQL; unquoted parts are in lower case."""
    return tuple(lexeme.value for lexeme in lexer.scan(written) if lexeme.kind in ("WORD", "QUOTED"))


def _last(written: str) -> str:
    return ident(ast.Ident(_parts(written)[-1]))


def _columns_of_all(plans: MemoryCatalog, qualifier: str | None) -> Iterator[tuple[str, str]]:
    """Yield the columns of all relations, each with its relation, for a query that has no FROM yet."""
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


def labels(options: OptionPlace, session: Session) -> Iterator[tuple[str, str]]:
    """Yield the labels that are not used yet, required ones first, ready for their value."""
    unused = [option for option in _options(options, session) if option.label not in options.written]
    for option in sorted(unused, key=lambda option: not option.required):
        meta = " | ".join(option.choices) if option.choices else option.takes
        yield option.label if options.named else f"{option.label} = ", f"{meta}, required" if option.required else meta


def values(options: OptionPlace, label: str, session: Session, typed: str) -> Iterator[tuple[str, str]]:
    """Yield the possible values of an option that begin with the typed text."""
    option = next((listed for listed in _options(options, session) if listed.label == label), None)
    if option is None:
        return
    if option.choices:
        yield from ((f"'{choice}'", label.lower()) for choice in option.choices)
    if option.local_path:
        yield from _paths(typed, session.catalog.project)
    if typed.startswith("'"):
        return
    match option.takes:
        case "boolean":
            yield from (("true", ""), ("false", ""))
        case "secret" | "text or secret":
            secrets = session.catalog.plans.names("SECRET")
            yield from ((f"SECRET {short_name(name, session.catalog.plans)}", "secret") for name in secrets)
        case "name":
            yield from _option_connections(label, session)
        case _:
            pass


def _paths(typed: str, project: Path) -> Iterator[tuple[str, str]]:
    """Yield the files and folders that can complete a string; the string of a folder stays open for its contents.

    Relative paths begin in `project`.
    """
    begun = typed.removeprefix("'").replace("''", "'")
    folder = begun[: begun.rfind("/") + 1]
    try:
        with os.scandir(in_project(folder, project)) as scan:
            entries = sorted((entry.name, entry.is_dir()) for entry in scan)
    except (OSError, SinkqlError):
        return  # the folder cannot be read: no candidates
    for name, is_folder in entries:
        if not name.startswith(".") or begun[len(folder) :].startswith("."):
            path = f"{folder}{name}".replace("'", "''")
            yield (f"'{path}/", "folder") if is_folder else (f"'{path}'", "file")


def _option_connections(label: str, session: Session) -> Iterator[tuple[str, str]]:
    """Yield the connections of the type in a label, as in AWS CONNECTION and SSH TUNNEL."""
    kind = label.removesuffix(" CONNECTION")
    for name in session.catalog.plans.names("CONNECTION"):
        item = session.catalog.plans.item(name)
        if isinstance(item, logical.Connection) and item.kind == kind:
            yield short_name(name, session.catalog.plans), f"{kind} connection"


def _options(options: OptionPlace, session: Session) -> tuple[OptionHelp, ...]:
    dataclass_ = _dataclass(options, session)
    return offered(dataclass_)


def _dataclass(options: OptionPlace, session: Session) -> type | None:
    registry, kind = session.catalog.registry, options.kind
    if options.altered is not None and options.item in ("CONNECTION", "SINK"):
        kind = _kind_of(options.altered, session)
    match options.item:
        case "CLUSTER":
            return ClusterOptions
        case "CONNECTION":
            connection = registry.connections.get(kind or "")
            return connection.options if connection is not None else None
        case "SOURCE" if options.format is not None:
            format_ = registry.formats.get(options.format)
            return format_.options if format_ is not None else None
        case "SOURCE":
            source = registry.sources.get(kind or "")
            return (source.with_options if options.behind_with else source.options) if source is not None else None
        case "SINK":
            sink = registry.sinks.get(kind or "")
            behind_with = options.behind_with or options.altered is not None
            return (sink.with_options if behind_with else sink.options) if sink is not None else None
    return None


def _kind_of(name: str, session: Session) -> str | None:
    """Return the kind of the connection or sink of that name, None if it does not exist."""
    plans = session.catalog.plans
    item = plans.item(plans.resolve(as_name(name)))
    return item.kind if isinstance(item, logical.Connection | logical.Sink) else None
