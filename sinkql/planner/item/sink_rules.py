"""A sink and the shape of its relation → nothing, or the first rule that does not hold, as an error."""

from __future__ import annotations

from collections.abc import Callable

from sinkql import ast, logical
from sinkql.connector_api.options import option_span
from sinkql.errors import Notice, SinkqlError, Span, nearest
from sinkql.logical.type import shown_name
from sinkql.planner.name import find, missing, short_name, split_name, system
from sinkql.planner.scope import Scope
from sinkql.planner.subsource import check_readable, stand_in
from sinkql.planner.types import ranged

CHANGELOG = ("_mz_diff", "_mz_timestamp")
"""The columns that an append sink adds: what happened to the row, and when."""

_EXPORTED = ("SOURCE", "TABLE", "MATERIALIZED VIEW")
_KEY_TYPES = {
    "boolean", "smallint", "integer", "bigint", "uint2", "uint4", "uint8", "numeric", "date", "time", "timestamp",
    "timestamptz", "interval", "text", "bytea", "uuid", "jsonb",
}  # fmt: skip


def effective_mode(statement: ast.CreateSink, *, messages: bool = False) -> ast.Mode:
    """Return the sink's mode; SQ2302 if none is written."""
    if statement.mode is not None:
        return statement.mode
    if messages:
        hint = "Write ENVELOPE UPSERT, or ENVELOPE DEBEZIUM."
        raise SinkqlError("SQ2302", "the sink has no envelope", statement.kind_span, hint=hint)
    hint = "Write MODE UPSERT: the rows have a KEY." if statement.key else "Write MODE APPEND, or KEY (…) MODE UPSERT."
    raise SinkqlError("SQ2302", "the sink has no mode", statement.kind_span, hint=hint)


def exported_relation(statement: ast.CreateSink, scope: Scope) -> tuple[str, logical.Shape]:
    """Return the full name and shape of what the sink reads; SQ2303 for what cannot be exported."""
    name = statement.relation
    full_name = scope.catalog.resolve(name)
    entry = scope.catalog.entry(full_name)
    if system(full_name) or (entry is None and split_name(full_name)[-1].startswith(("mz_", "pg_"))):
        raise _not_exported(name, "system item", "A sink can read a source, a table or a materialized view.")
    if entry is None:
        raise missing(scope.catalog, name, *_EXPORTED)
    if entry.kind == "VIEW":
        short = short_name(entry.name, scope.catalog)
        raise _not_exported(
            name, "view", f"Make it a materialized view: DROP VIEW {short}; CREATE MATERIALIZED VIEW {short} AS …;"
        )
    if entry.kind not in _EXPORTED:
        raise _not_exported(name, entry.kind.lower(), "A sink can read a source, a table or a materialized view.")
    item = scope.catalog.item(stand_in(find(scope.catalog, name, *_EXPORTED).name, scope.catalog))
    assert isinstance(item, logical.Source | logical.View)
    check_readable(item, name, scope.catalog)
    scope.use(item.name)
    return item.name, item.shape


def _not_exported(name: ast.Name, kind: str, hint: str) -> SinkqlError:
    return SinkqlError("SQ2303", f'cannot create a sink from {kind} "{name.text}"', name.span, hint=hint)


def check_key(statement: ast.CreateSink, shape: logical.Shape) -> None:
    """Refuse a key column given twice (SQ2304), and one that the relation does not have (SQ2204)."""
    names = [column.name for column in shape.columns]
    seen = set()
    for column in _key(statement):
        if column.value in seen:
            raise SinkqlError(
                "SQ2304",
                f'key column "{column.value}" is specified more than once',
                column.span,
                hint="Keep one of them.",
            )
        seen.add(column.value)
        if column.value not in names:
            near = nearest(column.value, names)
            raise SinkqlError(
                "SQ2204",
                f'column "{column.value}" of relation "{statement.relation.text}" does not exist',
                column.span,
                hint=f'Did you mean "{near}"?' if near else f"The columns are {', '.join(map(shown_name, names))}.",
            )


def check_key_types(statement: ast.CreateSink, shape: logical.Shape) -> None:
    """Refuse key columns whose values are not compared exactly (SQ2305)."""
    types = {column.name: column.type for column in shape.columns}
    for column in _key(statement):
        type_ = types[column.value]
        if type_.name not in _KEY_TYPES:
            floating = type_.name in ("real", "double precision")
            raise SinkqlError(
                "SQ2305",
                f'key column "{column.value}" has type {type_}, which '
                f"{'cannot be in a key' if ranged(type_) else 'cannot be compared exactly'}",
                column.span,
                hint="Keep the values that tell rows apart in columns of their own."
                if type_.nested or ranged(type_)
                else f"Give it an exact type in a view: {column.value}::{'numeric' if floating else 'text'}.",
            )


def check_unique(statement: ast.CreateSink, shape: logical.Shape) -> bool:
    """Tell whether the key is proven to be unique; SQ2306 if not, and not promised with NOT ENFORCED."""
    key = statement.key
    if key is None:
        return False
    names = {column.value for column in key.columns}
    if any(known <= names for known in shape.keys):
        return True
    if not key.enforced:
        return False
    listed = " or ".join("(" + ", ".join(_in_order(known, shape)) + ")" for known in shape.keys)
    raise SinkqlError(
        "SQ2306",
        f'cannot prove that the key is unique in "{statement.relation.text}"',
        _columns_span(key),
        detail=f"known keys: {listed}" if listed else "it has no known key",
        hint=_key_hint(key, [_in_order(known, shape) for known in shape.keys]),
    )


def _key_hint(key: ast.Key, known: list[list[str]]) -> str:
    """Name a proven key first: with a promised key that is not unique, rows overwrite each other."""
    promised = f"KEY ({', '.join(column.value for column in key.columns)}) NOT ENFORCED"
    if not known:
        return f"If you know that it is unique, write {promised}."
    return f"Write KEY ({', '.join(known[0])}), or {promised} if you know that it is unique."


def _missing_key(known: list[list[str]], word: str) -> str:
    if known:
        return f"Write KEY ({', '.join(known[0])}) before {word} UPSERT."
    return f"Write KEY (…) before {word} UPSERT, with the columns that identify a row."


def _in_order(key: frozenset[str], shape: logical.Shape) -> list[str]:
    return [column.name for column in shape.columns if column.name in key]


def check_mode_and_key(
    statement: ast.CreateSink,
    mode: ast.Mode,
    shape: logical.Shape,
    *,
    proven: bool,
    notice: Callable[[Notice], None],
    messages: bool = False,
) -> None:
    """Refuse KEY with APPEND (SQ2307) and UPSERT without (SQ2323); tell that a promised key is not checked."""
    key = statement.key
    if mode.mode == "append" and key is not None:
        raise SinkqlError(
            "SQ2307", "an append sink cannot have a KEY", key.span, hint="Write MODE UPSERT, or leave out KEY."
        )
    if mode.mode == "upsert" and key is None:
        raise SinkqlError(
            "SQ2323",
            "an upsert sink needs a KEY",
            mode.span,
            hint=_missing_key([_in_order(known, shape) for known in shape.keys], "ENVELOPE" if messages else "MODE"),
        )
    if key is not None and not proven:
        # where rows only come, nobody can tell a second row of a key from a new version of it
        counted = shape.change is not logical.Change.APPEND
        kept = "one" if counted else "the last"
        notice(
            Notice(
                "SQ2325",
                f"the key is not proven to be unique: of rows with the same key, {kept} is kept",
                _columns_span(key),
                hint="SELECT details FROM mz_internal.mz_sink_statuses shows how many keys conflict."
                if counted
                else None,
            )
        )


def check_changes(statement: ast.CreateSink, mode: ast.Mode, shape: logical.Shape) -> None:
    """Refuse a column with a changelog's name (SQ2308), and ENVELOPE NONE where rows can go again (SQ2324)."""
    if mode.mode in ("upsert", "debezium"):
        return
    if not mode.changelog:
        if shape.change is not logical.Change.APPEND:
            raise SinkqlError(
                "SQ2324",
                f'ENVELOPE NONE requires rows that are only added, and rows of "{statement.relation.text}" can change',
                mode.span,
                hint="Write KEY (…) MODE UPSERT to keep the current rows, or MODE APPEND to keep every change.",
            )
        return
    for column in shape.columns:
        if column.name in CHANGELOG:
            raise SinkqlError(
                "SQ2308",
                f'column "{column.name}" conflicts with a column that MODE APPEND adds',
                statement.relation.span,
                hint="Rename it in a materialized view, or write ENVELOPE NONE if rows are only added.",
            )


def check_start(
    statement: ast.CreateSink, mode: ast.Mode, relation: str, scope: Scope, *, snapshot: bool, proven: bool, final: bool
) -> None:
    """Refuse to begin at the end of a source where rows from before are counted, completed, or told to go (SQ2335)."""
    missed = None if snapshot else _missed(mode, relation, scope.catalog, proven=proven, final=final)
    if missed is not None:
        why, other_way = missed
        raise SinkqlError(
            "SQ2335",
            f"SNAPSHOT = false cannot be used here: {why}",
            option_span(statement.with_options, "SNAPSHOT", statement.kind_span),
            hint=f"Leave out SNAPSHOT = false; the sink then begins with the rows that are there.{other_way}",
        )


_WHOLE_ROWS = (
    " Or have the server send whole rows with ALTER TABLE … REPLICA IDENTITY FULL; and run ALTER SOURCE … REFRESH "
    "REFERENCES; or leave the columns with such values out of the source with EXCLUDE COLUMNS."
)


def _missed(
    mode: ast.Mode, relation: str, catalog: logical.CatalogReader, *, proven: bool, final: bool
) -> tuple[str, str] | None:
    """Return what a sink would not know that begins at the end, and another way out; None for nothing."""
    item = catalog.item(relation)
    assert isinstance(item, logical.Source | logical.View)
    lacking = _source_below(item, catalog, lambda source: bool(source.options.get("holes")))
    if lacking is not None:
        why = (
            f'the server of "{short_name(lacking, catalog)}" does not send long values again that a change leaves as '
            "they are, and rows from before the start would be unknown"
        )
        return why, _WHOLE_ROWS
    overwritten = _source_below(item, catalog, lambda source: source.shape.change is logical.Change.UPSERT)
    if final and overwritten is not None:
        name = short_name(overwritten, catalog)
        return f'"{name}" overwrites rows from before the start, which the sink would not know', ""
    counted = _counted(item, catalog)
    if counted is None and mode.mode == "upsert" and not proven:
        counted = _taken_back(item, catalog)  # the sink counts the rows of each key
    if counted is None:
        return None
    name = short_name(counted, catalog)
    return f'"{name}" can delete or change rows from before the start, which would not be in the counts', ""


def _source_below(
    item: logical.Source | logical.View, catalog: logical.CatalogReader, wanted: Callable[[logical.Source], bool]
) -> str | None:
    """Return a source of a relation that is as `wanted`; None for none."""
    if isinstance(item, logical.Source):
        return item.name if wanted(item) else None
    relations: list[logical.Relation] = [item.relation]
    while relations:
        match relation := relations.pop():
            case logical.Get():
                below = _below(relation, catalog)
                if below is not None and (found := _source_below(below, catalog, wanted)) is not None:
                    return found
            case _:
                relations.extend(logical.inputs_of(relation))
    return None


def _counted(item: logical.Source | logical.View, catalog: logical.CatalogReader) -> str | None:
    """Return the source of which an aggregate of a relation takes rows that can be taken back; None for none."""
    if isinstance(item, logical.Source):
        return None
    relations: list[logical.Relation] = [item.relation]
    while relations:
        relation = relations.pop()
        found: str | None = None
        if isinstance(relation, logical.Get):
            below = _below(relation, catalog)
            found = _counted(below, catalog) if below is not None else None
        elif not logical.row_by_row(relation):
            found = _origin_below(relation, catalog)
        relations.extend(logical.inputs_of(relation))
        if found is not None:
            return found
    return None


def _origin(relation: logical.Relation, catalog: logical.CatalogReader) -> str | None:
    """Return the source whose rows a relation takes back as the source does; what an aggregate gives is its own."""
    if isinstance(relation, logical.Get):
        below = _below(relation, catalog)
        return _taken_back(below, catalog) if below is not None else None
    return _origin_below(relation, catalog) if logical.row_by_row(relation) else None


def _origin_below(relation: logical.Relation, catalog: logical.CatalogReader) -> str | None:
    """Return the first such source of the relations just below one."""
    origins = (_origin(each, catalog) for each in logical.inputs_of(relation))
    return next((found for found in origins if found is not None), None)


def _taken_back(item: logical.Source | logical.View, catalog: logical.CatalogReader) -> str | None:
    if isinstance(item, logical.View):
        return _origin(item.relation, catalog)
    return item.name if item.shape.change is logical.Change.RETRACT else None


def _below(relation: logical.Get, catalog: logical.CatalogReader) -> logical.Source | logical.View | None:
    """Return what is read; None for the one row of a SELECT without FROM."""
    if relation == logical.ONE:
        return None
    item = catalog.item(relation.item)
    assert isinstance(item, logical.Source | logical.View)
    return item


def _key(statement: ast.CreateSink) -> tuple[ast.Ident, ...]:
    return statement.key.columns if statement.key is not None else ()


def _columns_span(key: ast.Key) -> Span:
    return Span(key.columns[0].span.start, key.columns[-1].span.end)
