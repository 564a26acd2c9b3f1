"""Check a sink against the shape of its relation, and raise the error of the first violated rule."""

from __future__ import annotations

from collections.abc import Callable

from sinkql import ast, logical
from sinkql.connector_api.options import option_span
from sinkql.errors import Notice, SinkqlError, Span, nearest
from sinkql.logical.type import shown_name
from sinkql.planner.name import find, is_system, missing, short_name, split_name
from sinkql.planner.scope import Scope
from sinkql.planner.subsource import check_readable, stand_in
from sinkql.planner.types import is_range

CHANGELOG = ("_mz_diff", "_mz_timestamp")
"""The columns that an append sink adds: the kind of a change, and its time."""

_EXPORTED = ("SOURCE", "TABLE", "MATERIALIZED VIEW")
_KEY_TYPES = {
    "boolean", "smallint", "integer", "bigint", "uint2", "uint4", "uint8", "numeric", "date", "time", "timestamp",
    "timestamptz", "interval", "text", "bytea", "uuid", "jsonb",
}  # fmt: skip


def effective_mode(statement: ast.CreateSink, *, messages: bool = False) -> ast.Mode:
    """Return the sink's mode; raise SQ2302 if the statement has none."""
    if statement.mode is not None:
        return statement.mode
    if messages:
        hint = "Write ENVELOPE UPSERT, or ENVELOPE DEBEZIUM."
        raise SinkqlError("SQ2302", "the sink has no envelope", statement.kind_span, hint=hint)
    hint = "Write MODE UPSERT: the rows have a KEY." if statement.key else "Write MODE APPEND, or KEY (…) MODE UPSERT."
    raise SinkqlError("SQ2302", "the sink has no mode", statement.kind_span, hint=hint)


def exported_relation(statement: ast.CreateSink, scope: Scope) -> tuple[str, logical.Shape]:
    """Return the full name and shape of the sink's relation; raise SQ2303 if a sink cannot read it."""
    name = statement.relation
    full_name = scope.catalog.resolve(name)
    entry = scope.catalog.entry(full_name)
    if is_system(full_name) or (entry is None and split_name(full_name)[-1].startswith(("mz_", "pg_"))):
        raise _not_exported(name, "system item", "A sink can read a source, a table or a materialized view.")
    if entry is None:
        raise missing(scope.catalog, name, *_EXPORTED)
    if entry.kind == "VIEW":
        short = short_name(entry.name, scope.catalog)
        raise _not_exported(
            name,
            "view",
            f"Replace it with a materialized view: DROP VIEW {short}; CREATE MATERIALIZED VIEW {short} AS …;",
        )
    if entry.kind not in _EXPORTED:
        raise _not_exported(name, entry.kind.lower(), "A sink can read a source, a table or a materialized view.")
    item = logical.get_relation(scope.catalog, stand_in(find(scope.catalog, name, *_EXPORTED).name, scope.catalog))
    check_readable(item, name, scope.catalog)
    scope.use(item.name)
    return item.name, item.shape


def _not_exported(name: ast.Name, kind: str, hint: str) -> SinkqlError:
    return SinkqlError("SQ2303", f'cannot create a sink from {kind} "{name.text}"', name.span, hint=hint)


def check_key(statement: ast.CreateSink, shape: logical.Shape) -> None:
    """Raise SQ2304 for a duplicate key column, SQ2204 for one that the relation does not have."""
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
    """Raise SQ2305 for key columns whose values cannot be compared exactly."""
    types = {column.name: column.type for column in shape.columns}
    for column in _key(statement):
        type_ = types[column.value]
        if type_.name not in _KEY_TYPES:
            floating = type_.name in ("real", "double precision")
            raise SinkqlError(
                "SQ2305",
                f'key column "{column.value}" has type {type_}, which '
                f"{'cannot be in a key' if is_range(type_) else 'cannot be compared exactly'}",
                column.span,
                hint="Add columns with the values that identify a row, and use them as the key."
                if type_.nested or is_range(type_)
                else f"Cast it to an exact type in a view: {column.value}::{'numeric' if floating else 'text'}.",
            )


def check_unique(statement: ast.CreateSink, shape: logical.Shape) -> bool:
    """Return whether the key is proven to be unique; raise SQ2306 if it is neither proven nor NOT ENFORCED."""
    key = statement.key
    if key is None:
        return False
    names = {column.value for column in key.columns}
    if any(key_names <= names for key_names in shape.keys):
        return True
    if not key.enforced:
        return False
    listed = " or ".join("(" + ", ".join(_in_order(key_names, shape)) + ")" for key_names in shape.keys)
    raise SinkqlError(
        "SQ2306",
        f'cannot prove that the key is unique in "{statement.relation.text}"',
        _columns_span(key),
        detail=f"known keys: {listed}" if listed else "no key is known",
        hint=_key_hint(key, [_in_order(key_names, shape) for key_names in shape.keys]),
    )


def _key_hint(key: ast.Key, proven: list[list[str]]) -> str:
    """Return a hint that names a proven key first, since a promised key may overwrite rows if it is not unique."""
    promised = f"KEY ({', '.join(column.value for column in key.columns)}) NOT ENFORCED"
    if not proven:
        return f"If you know that it is unique, write {promised}."
    return f"Write KEY ({', '.join(proven[0])}), or {promised} if you know that it is unique."


def _missing_key_hint(proven: list[list[str]], word: str) -> str:
    if proven:
        return f"Write KEY ({', '.join(proven[0])}) before {word} UPSERT."
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
    """Raise SQ2307 for KEY with APPEND, SQ2323 for UPSERT without KEY; add a notice for an unproven key."""
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
            hint=_missing_key_hint(
                [_in_order(key_names, shape) for key_names in shape.keys], "ENVELOPE" if messages else "MODE"
            ),
        )
    if key is not None and not proven:
        # with append-only rows, a second row of a key cannot be told from a new version of the row
        counted = shape.change is not logical.Change.APPEND
        which_row = "one" if counted else "the last"
        notice(
            Notice(
                "SQ2325",
                f"the key is not proven to be unique: of rows with the same key, the sink keeps {which_row}",
                _columns_span(key),
                hint="SELECT details FROM mz_internal.mz_sink_statuses shows how many keys conflict."
                if counted
                else None,
            )
        )


def check_changes(statement: ast.CreateSink, mode: ast.Mode, shape: logical.Shape) -> None:
    """Raise SQ2308 for a column with a changelog name, SQ2324 for ENVELOPE NONE with rows that can be removed."""
    if mode.mode in ("upsert", "debezium"):
        return
    if not mode.changelog:
        if shape.change is not logical.Change.APPEND:
            raise SinkqlError(
                "SQ2324",
                f'ENVELOPE NONE requires append-only rows, but rows of "{statement.relation.text}" can change',
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
                hint="Rename it in a materialized view, or write ENVELOPE NONE if rows are append-only.",
            )


def check_start(
    statement: ast.CreateSink, mode: ast.Mode, relation: str, scope: Scope, *, snapshot: bool, proven: bool, final: bool
) -> None:
    """Raise SQ2335 for SNAPSHOT = false if the sink needs the rows from before its start."""
    missed = None if snapshot else _missing_rows(mode, relation, scope.catalog, proven=proven, final=final)
    if missed is not None:
        why, other_way = missed
        raise SinkqlError(
            "SQ2335",
            f"SNAPSHOT = false cannot be used here: {why}",
            option_span(statement.with_options, "SNAPSHOT", statement.kind_span),
            hint=f"Leave out SNAPSHOT = false; the sink then starts with the existing rows.{other_way}",
        )


_WHOLE_ROWS = (
    " Or run ALTER TABLE … REPLICA IDENTITY FULL; on the server and ALTER SOURCE … REFRESH REFERENCES; here, so that "
    "the server sends complete rows. Or exclude the columns with long values with EXCLUDE COLUMNS."
)


def _missing_rows(
    mode: ast.Mode, relation: str, catalog: logical.CatalogReader, *, proven: bool, final: bool
) -> tuple[str, str] | None:
    """Return which rows from before the start the sink would need, and another way out; None if it needs none."""
    item = logical.get_relation(catalog, relation)
    incomplete = _source_below(item, catalog, lambda source: bool(source.options.get("holes")))
    if incomplete is not None:
        why = (
            f'the server of "{short_name(incomplete, catalog)}" does not send unchanged long values again, '
            "so that rows from before the start would be unknown"
        )
        return why, _WHOLE_ROWS
    overwritten = _source_below(item, catalog, lambda source: source.shape.change is logical.Change.UPSERT)
    if final and overwritten is not None:
        name = short_name(overwritten, catalog)
        return f'"{name}" overwrites rows from before the start, which would be unknown to the sink', ""
    changing = _counted_source(item, catalog)
    if changing is None and mode.mode == "upsert" and not proven:
        changing = _retracting_source(item, catalog)  # the sink counts the rows of each key
    if changing is None:
        return None
    name = short_name(changing, catalog)
    return f'"{name}" can delete or change rows from before the start, which would not be in the counts', ""


def _source_below(
    item: logical.Source | logical.View, catalog: logical.CatalogReader, matches: Callable[[logical.Source], bool]
) -> str | None:
    """Return a source of a relation that satisfies `wanted`, None if all do not."""
    if isinstance(item, logical.Source):
        return item.name if matches(item) else None
    relations: list[logical.Relation] = [item.relation]
    while relations:
        match relation := relations.pop():
            case logical.Get():
                below = _item_read(relation, catalog)
                if below is not None and (name := _source_below(below, catalog, matches)) is not None:
                    return name
            case _:
                relations.extend(logical.inputs_of(relation))
    return None


def _counted_source(item: logical.Source | logical.View, catalog: logical.CatalogReader) -> str | None:
    """Return a source that an aggregate reads although it may retract rows, None if there is no such source."""
    if isinstance(item, logical.Source):
        return None
    relations: list[logical.Relation] = [item.relation]
    while relations:
        relation = relations.pop()
        source: str | None = None
        if isinstance(relation, logical.Get):
            below = _item_read(relation, catalog)
            source = _counted_source(below, catalog) if below is not None else None
        elif not logical.row_by_row(relation):
            source = _origin_below(relation, catalog)
        relations.extend(logical.inputs_of(relation))
        if source is not None:
            return source
    return None


def _retracted_origin(relation: logical.Relation, catalog: logical.CatalogReader) -> str | None:
    """Return the source whose retractions a relation passes on; aggregates produce their own."""
    if isinstance(relation, logical.Get):
        below = _item_read(relation, catalog)
        return _retracting_source(below, catalog) if below is not None else None
    return _origin_below(relation, catalog) if logical.row_by_row(relation) else None


def _origin_below(relation: logical.Relation, catalog: logical.CatalogReader) -> str | None:
    """Return the first such source among the inputs of a relation."""
    origins = (_retracted_origin(input_, catalog) for input_ in logical.inputs_of(relation))
    return next((origin for origin in origins if origin is not None), None)


def _retracting_source(item: logical.Source | logical.View, catalog: logical.CatalogReader) -> str | None:
    if isinstance(item, logical.View):
        return _retracted_origin(item.relation, catalog)
    return item.name if item.shape.change is logical.Change.RETRACT else None


def _item_read(relation: logical.Get, catalog: logical.CatalogReader) -> logical.Source | logical.View | None:
    """Return the item that a relation reads, None for the single row of a SELECT without FROM."""
    if relation == logical.ONE:
        return None
    return logical.get_relation(catalog, relation.item)


def _key(statement: ast.CreateSink) -> tuple[ast.Ident, ...]:
    return statement.key.columns if statement.key is not None else ()


def _columns_span(key: ast.Key) -> Span:
    return Span(key.columns[0].span.start, key.columns[-1].span.end)
