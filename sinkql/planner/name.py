"""Resolve names to full names and to entries of the catalog, with helpful errors for missing items."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sinkql import ast, logical
from sinkql.errors import MissingError, SinkqlError, Span, nearest, one_of
from sinkql.keywords import qualified_name as qualified_name
from sinkql.keywords import split_name as split_name
from sinkql.printer.clause import name as print_name

DATABASE = "materialize"
SCHEMA = "public"
BUILT_IN_CLUSTER = "quickstart"
SYSTEM_SCHEMAS = ("mz_catalog", "mz_internal", "pg_catalog", "information_schema")
RELATION_KINDS = ("SOURCE", "TABLE", "VIEW", "MATERIALIZED VIEW")


def as_name(full_name: str, span: Span | None = None) -> ast.Name:
    """Return the name that refers to a full name in a statement."""
    span_ = span if span is not None else Span(0, 0)
    return ast.Name(tuple(ast.Ident(part, span_) for part in split_name(full_name)), span_)


def short_name(full_name: str, catalog: logical.CatalogReader | None = None) -> str:
    """Return the shortest name by which a user of the catalog can refer to an item.

    Without a catalog, leave out the default database and schema. The full names of schemas and databases end in a dot,
    their short names do not.
    """
    parts = split_name(full_name)
    if full_name.endswith("."):
        is_current = len(parts) > 1 and parts[0] == (catalog.setting("database") if catalog else DATABASE)
        return qualified_name(*(parts[1:] if is_current else parts))
    if len(parts) < 3:
        return full_name
    if catalog is None:
        return qualified_name(*(parts[2:] if parts[:2] == (DATABASE, SCHEMA) else parts))
    if resolve(ast.Name((ast.Ident(parts[2]),)), catalog) == full_name:
        return qualified_name(parts[2])
    return qualified_name(*(parts[1:] if parts[0] == catalog.setting("database") else parts))


def sql_name(full_name: str, catalog: logical.CatalogReader | None = None) -> str:
    """Return the short name as SQL, quoted if needed."""
    return print_name(as_name(short_name(full_name, catalog)))


# --- schemas and databases: their full names are prefixes of the names of their items ---------------------------------


def database_name(database: str) -> str:
    """Return the full name of a database."""
    return qualified_name(database) + "."


def schema_name(database: str, schema: str) -> str:
    """Return the full name of a schema."""
    return qualified_name(database, schema) + "."


def resolve_schema(name: ast.Name, catalog: logical.CatalogReader) -> str:
    """Return the full name of a schema, which may not exist; raise SQ2004 (unknown database) or SQ2019 (too long)."""
    *database, schema = [part.value for part in name.parts]
    if len(database) > 1:
        raise SinkqlError("SQ2019", f'invalid schema name "{name.text}"', name.span, hint="Write database.schema.")
    if database:
        _check_database(name.parts[0], catalog)
    elif schema in SYSTEM_SCHEMAS:
        return qualified_name(schema) + "."
    return schema_name(database[0] if database else catalog.setting("database"), schema)


def inside(full_name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names within a schema or database."""
    return tuple(name for name in names if full_name.endswith(".") and name != full_name and name.startswith(full_name))


def around(full_name: str) -> tuple[str, ...]:
    """Return the full names of the database and the schema of an item."""
    parts = split_name(full_name)
    return tuple(qualified_name(*parts[:count]) + "." for count in range(1, len(parts)))


def path(catalog: logical.CatalogReader) -> tuple[str, ...]:
    """Return the full names of the existing schemas on the search path."""
    database = catalog.setting("database")
    schemas = (schema_name(database, part) for part in path_parts(catalog.setting("search_path")))
    return tuple(schema for schema in schemas if catalog.has(schema))


def path_parts(text: str) -> tuple[str, ...]:
    """Return the schemas that the setting `search_path` lists."""
    parts = re.findall(r'"(?:[^"]|"")*"|[^,\s]+', text)
    return tuple(part[1:-1].replace('""', '"') if part.startswith('"') else part for part in parts)


def _find_on_path(item: str, catalog: logical.CatalogReader) -> str | None:
    return next((schema + item for schema in path(catalog) if catalog.has(schema + item)), None)


# --- names in statements ----------------------------------------------------------------------------------------------


def resolve(name: ast.Name, catalog: logical.CatalogReader) -> str:
    """Return the full name that a name refers to, even if no item has it.

    A name without a schema refers to the first item with the name on the search path, or else to the path's first
    schema. Raises SQ2004 for an unknown schema or database.
    """
    parts = [part.value for part in name.parts]
    if len(parts) > 1:
        return _in_schema(name, catalog)
    on_path = _find_on_path(qualified_name(*parts), catalog)
    if on_path is not None:
        return on_path
    first = next(iter(path(catalog)), schema_name(catalog.setting("database"), SCHEMA))
    return first + qualified_name(*parts)


def locate(name: ast.Name, catalog: logical.CatalogReader) -> str:
    """Return the full name of a new item with that name; raise SQ2018 if the search path has no existing schema."""
    if len(name.parts) > 1:
        return _in_schema(name, catalog)
    schemas = path(catalog)
    if not schemas:
        raise SinkqlError(
            "SQ2018",
            f'no schema is selected to create "{name.text}" in',
            name.span,
            detail=f"database is {catalog.setting('database')}, search_path is {catalog.setting('search_path')}",
            hint="Run SET search_path = public; or SET database = materialize; before it.",
        )
    return schemas[0] + qualified_name(name.parts[0].value)


def named(kind: str, name: ast.Name, catalog: logical.CatalogReader) -> str:
    """Return the full name that a name of this kind refers to, even if no item has it; raise like `resolve`."""
    match kind:
        case "SCHEMA":
            return resolve_schema(name, catalog)
        case "CLUSTER" | "DATABASE":
            if len(name.parts) > 1:
                hint = f"Write only {name.parts[-1].value}."
                raise SinkqlError("SQ2019", f'invalid {kind.lower()} name "{name.text}"', name.span, hint=hint)
            return database_name(name.text) if kind == "DATABASE" else qualified_name(name.parts[0].value)
        case _:
            return catalog.resolve(name)


def _in_schema(name: ast.Name, catalog: logical.CatalogReader) -> str:
    *database, schema, item = [part.value for part in name.parts]
    if database:
        _check_database(name.parts[0], catalog)
    if schema in SYSTEM_SCHEMAS:
        return qualified_name(schema, item)
    full_name = schema_name(database[0] if database else catalog.setting("database"), schema)
    if not catalog.has(full_name):
        raise _missing_error("schema", name.parts[-2], _schemas_of(full_name, catalog))
    return full_name + qualified_name(item)


def _check_database(name: ast.Ident, catalog: logical.CatalogReader) -> None:
    if not catalog.has(database_name(name.value)):
        raise _missing_error("database", name, [split_name(name)[0] for name in catalog.names("DATABASE")])


def _schemas_of(schema: str, catalog: logical.CatalogReader) -> list[str]:
    database = database_name(split_name(schema)[0])
    return [split_name(schema_)[1] for schema_ in inside(database, catalog.names("SCHEMA"))]


def _missing_error(kind: str, ident: ast.Ident, names: list[str]) -> MissingError:
    match = nearest(ident.value, names)
    create = f"Create it with CREATE {kind.upper()}"
    choices = f"{create}, or use {one_of(names)}." if names else f"{create}."
    hint = f'Did you mean "{match}"?' if match else choices
    return MissingError("SQ2004", f'{kind} "{ident.value}" does not exist', ident.span, name=ident.value, hint=hint)


def is_system(full_name: str) -> bool:
    """Return whether a full name is in a system schema."""
    return split_name(full_name)[0] in SYSTEM_SCHEMAS


def find(catalog: logical.CatalogReader, name: ast.Name, *kinds: str) -> logical.Entry:
    """Return the item with that name; raise SQ2001 if it does not exist, SQ2003 if it has another kind."""
    entry = catalog.entry(named(kinds[0], name, catalog))
    if entry is None:
        raise missing(catalog, name, *kinds)
    if entry.kind not in kinds:
        raise SinkqlError(
            "SQ2003",
            f'"{name.text}" is {with_article(entry.kind)}, not {with_article(kinds[0])}',
            name.span,
            hint=_choices(catalog, kinds),
        )
    return entry


def find_shown(catalog: logical.CatalogReader, statement: ast.ShowCreate) -> logical.Entry:
    """Return the item of SHOW CREATE; raise SQ2003 with a hint if the item has another kind."""
    try:
        return find(catalog, statement.name, statement.kind)
    except SinkqlError as error:
        entry = catalog.entry(named(statement.kind, statement.name, catalog))
        if entry is not None:
            error.hint = f"Run SHOW CREATE {entry.kind} {print_name(statement.name)};"
        raise


def missing(catalog: logical.CatalogReader, name: ast.Name, *kinds: str) -> MissingError:
    """Return the error for a name without an item; its hint suggests the nearest name of one of `kinds`."""
    names = [short_name(full, catalog) for kind in kinds for full in catalog.names(kind)]
    match = nearest(short_name(named(kinds[0], name, catalog), catalog), names)
    kind = kinds[0].lower() if len(kinds) == 1 else "relation"
    hint = f"Did you mean {_quote_once(match)}?" if match else _choices(catalog, kinds)
    code = {"SCHEMA": "SQ2004", "DATABASE": "SQ2004", "CLUSTER": "SQ2313"}.get(kinds[0], "SQ2001")
    short = name.parts[-1].value
    return MissingError(code, f'{kind} "{name.text}" does not exist', name.span, name=short, hint=hint)


def _choices(catalog: logical.CatalogReader, kinds: tuple[str, ...]) -> str:
    names = sorted(short_name(full, catalog) for kind in kinds for full in catalog.names(kind))
    words = one_of([f"CREATE {kind}" for kind in kinds])
    if not names:
        return f"Create one with {words}."
    choices = one_of([*map(_quote_once, names[:5]), *(["…"] if len(names) > 5 else [])])
    return f"Use {choices}, or create one with {words}."


def _quote_once(name: str) -> str:
    """Return a name in double quotes, unless it contains quotes already."""
    return name if '"' in name else f'"{name}"'


def with_article(kind: str) -> str:
    """Return a kind of item with its article, for messages: `a materialized view`."""
    word = kind.lower()
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def cluster_name(catalog: logical.CatalogReader, cluster: ast.Ident | None, span: Span) -> str:
    """Return the full name of the cluster, by default that of the setting `cluster`; raise SQ2313 if it is missing."""
    full = qualified_name(cluster.value) if cluster is not None else catalog.setting("cluster")
    entry = catalog.entry(full)
    if entry is not None and entry.kind == "CLUSTER":
        return full
    near = nearest(full, catalog.names("CLUSTER"))
    raise MissingError(
        "SQ2313",
        f'cluster "{full}" does not exist',
        cluster.span if cluster is not None else span,
        name=full,
        hint=f'Did you mean "{near}"?'
        if near
        else f"Run CREATE CLUSTER {sql_name(full)} (SIZE = 'local[2]'); before it.",
    )


def check_columns(columns: tuple[tuple[str, Span], ...]) -> None:
    """Raise SQ2008 for duplicate columns, and SQ2009 for names that begin with `$`, which are reserved."""
    seen = set()
    for name, span in columns:
        if name in seen:
            raise SinkqlError(
                "SQ2008",
                f'column "{name}" is specified more than once',
                span,
                hint="Give each column a different name.",
            )
        if name.startswith("$"):
            raise SinkqlError(
                "SQ2009",
                f'column name "{name}" is reserved',
                span,
                hint='Names that begin with "$" are internal: use another name.',
            )
        seen.add(name)


def in_full(name: ast.Name, source: ast.Name) -> ast.Name:
    """Return the full name of a subsource; missing parts come from the name of its source."""
    return ast.Name((*source.parts[: len(source.parts) - len(name.parts)], *name.parts), name.span)
