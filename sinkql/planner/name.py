"""Names as written → full names → entries of the catalog, with an error that helps where there is none."""

from __future__ import annotations

import re

from sinkql import ast, logical
from sinkql.errors import SinkqlError, Span, nearest

DATABASE = "materialize"
SCHEMA = "public"
BUILT_IN_CLUSTER = "quickstart"
SYSTEM_SCHEMAS = ("mz_catalog", "mz_internal", "pg_catalog", "information_schema")
_PART = re.compile(r'"(?:[^"]|"")*"|[^.]+')


def join_name(*parts: str) -> str:
    """Return the full name of these parts; one with a dot or a quote in it stands in quotes."""
    return ".".join(part if re.fullmatch(r'[^".]+', part) else '"' + part.replace('"', '""') + '"' for part in parts)


def split_name(full_name: str) -> tuple[str, ...]:
    """Return the parts that `join_name` put together."""
    found = _PART.findall(full_name)
    return tuple(part[1:-1].replace('""', '"') if part.startswith('"') else part for part in found)


def short_name(full_name: str) -> str:
    """Return the name as a user would write it: without the database and schema that go without saying."""
    return full_name.removeprefix(f"{DATABASE}.{SCHEMA}.")


def resolve(name: ast.Name) -> str:
    """Return the full name; system items have just their schema before it. Raises SQ2004 for an unknown schema."""
    parts = [part.value for part in name.parts]
    if len(parts) == 1:
        return join_name(DATABASE, SCHEMA, *parts)
    *database, schema, item = parts
    if database and database[0] != DATABASE:
        raise _no_schema("database", name.parts[0], DATABASE)
    if schema in SYSTEM_SCHEMAS:
        return join_name(schema, item)
    if schema != SCHEMA:
        raise _no_schema("schema", name.parts[-2], SCHEMA)
    return join_name(DATABASE, schema, item)


def _no_schema(kind: str, ident: ast.Ident, only: str) -> SinkqlError:
    return SinkqlError(
        "SQ2004",
        f'{kind} "{ident.value}" does not exist',
        ident.span,
        hint=f'All items are in {kind} "{only}": leave out "{ident.value}".',
    )


def system(full_name: str) -> bool:
    """Tell whether a full name lies in one of the system's schemas."""
    return split_name(full_name)[0] in SYSTEM_SCHEMAS


def find(catalog: logical.CatalogReader, name: ast.Name, *kinds: str) -> logical.Entry:
    """Return the item of that name; raises SQ2001 if there is none and SQ2003 if it is of none of `kinds`."""
    entry = catalog.entry(catalog.resolve(name))
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


def missing(catalog: logical.CatalogReader, name: ast.Name, *kinds: str) -> SinkqlError:
    """Return the error for a name that no item has; the hint is the nearest name of one of `kinds`."""
    known = [short_name(full) for kind in kinds for full in catalog.names(kind)]
    near = nearest(short_name(catalog.resolve(name)), known)
    kind = kinds[0].lower() if len(kinds) == 1 else "relation"
    hint = f'Did you mean "{near}"?' if near else _choices(catalog, kinds)
    return SinkqlError("SQ2001", f'{kind} "{name.text}" does not exist', name.span, hint=hint)


def _choices(catalog: logical.CatalogReader, kinds: tuple[str, ...]) -> str:
    known = sorted(short_name(full) for kind in kinds for full in catalog.names(kind))
    words = " or ".join(f"CREATE {kind}" for kind in kinds)
    if not known:
        return f"Make one with {words}."
    listed = ", ".join(f'"{each}"' for each in known[:5]) + (", …" if len(known) > 5 else "")
    return f"There {'is' if len(known) == 1 else 'are'} {listed}; make another with {words}."


def with_article(kind: str) -> str:
    """Return a kind of items as messages name one of them: `a materialized view`."""
    word = kind.lower()
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def cluster_name(catalog: logical.CatalogReader, cluster: ast.Ident | None, span: Span) -> str:
    """Return the full name of the cluster, that of the setting `cluster` if none is written; SQ2313 if it is not."""
    full = join_name(cluster.value) if cluster is not None else catalog.setting("cluster")
    entry = catalog.entry(full)
    if entry is not None and entry.kind == "CLUSTER":
        return full
    near = nearest(full, catalog.names("CLUSTER"))
    raise SinkqlError(
        "SQ2313",
        f'cluster "{full}" does not exist',
        cluster.span if cluster is not None else span,
        hint=f'Did you mean "{near}"?' if near else f"Run CREATE CLUSTER {full} (SIZE = 'local[2]'); before it.",
    )


def check_columns(columns: tuple[tuple[str, Span], ...]) -> None:
    """Refuse columns given twice (SQ2008) and names that begin with `$` (SQ2009), which are SinkQL's own."""
    seen = set()
    for name, span in columns:
        if name in seen:
            raise SinkqlError(
                "SQ2008", f'column "{name}" is there twice', span, hint="Give each column its own name with AS."
            )
        if name.startswith("$"):
            raise SinkqlError(
                "SQ2009",
                f'column name "{name}" is reserved',
                span,
                hint='Names that begin with "$" are internal: use another name.',
            )
        seen.add(name)
