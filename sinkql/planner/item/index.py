"""CREATE INDEX → by which expressions over a materialized view's columns its rows are kept."""

from __future__ import annotations

import re
from itertools import count

from sinkql import ast, logical
from sinkql.connector_api.options import unknown
from sinkql.errors import SinkqlError
from sinkql.logical.expression import without_spans
from sinkql.planner.expression.typed_expression import settled
from sinkql.planner.name import missing, qualified_name, split_name, with_article
from sinkql.planner.scope import Scope
from sinkql.printer.clause import name as print_name

_COLUMN = re.compile(r'[a-z_]\w*|"(?:[^"]|"")*"', re.IGNORECASE)


def plan_index(full_name: str, statement: ast.CreateIndex, scope: Scope) -> logical.Index:
    """Plan the key. Raises SQ2370 where the relation is no materialized view, SQ2371 for another cluster than its."""
    view = _view(statement, scope)
    scope.use(view.name)
    _check_options(statement)
    _check_cluster(statement, view, scope)
    key = _default_key(view) if statement.key is None else tuple(_expression(each, view) for each in statement.key)
    return logical.Index(full_name, view.name, tuple(dict.fromkeys(key)), view.cluster)


def index_name(statement: ast.CreateIndex, catalog: logical.CatalogReader) -> str:
    """Return the full name of an index, which is in the schema of its relation; one of its key where it has none."""
    *around, relation = split_name(catalog.resolve(statement.relation))
    if statement.name is not None:
        return qualified_name(*around, statement.name.value)
    parts = ["primary"] if statement.key is None else [_word(each) for each in statement.key]
    name = "_".join([relation, *parts, "idx"])
    numbered = (qualified_name(*around, f"{name}{number or ''}") for number in count())
    return next(each for each in numbered if not catalog.has(each))


def _word(key: ast.Expression) -> str:
    text = key.text.strip()
    if not _COLUMN.fullmatch(text):
        return "expr"
    return text[1:-1].replace('""', '"') if text.startswith('"') else text.lower()


def _view(statement: ast.CreateIndex, scope: Scope) -> logical.View:
    name = statement.relation
    entry = scope.catalog.entry(scope.catalog.resolve(name))
    if entry is None:
        raise missing(scope.catalog, name, "MATERIALIZED VIEW")
    item = scope.catalog.item(entry.name)
    if isinstance(item, logical.View) and item.materialized:
        return item
    raise SinkqlError(
        "SQ2370",
        f'"{name.text}" is {with_article(entry.kind)}: only a materialized view can have an index',
        name.span,
        hint=f"Create the view again with CREATE MATERIALIZED VIEW {print_name(name)} AS …."
        if entry.kind == "VIEW"
        else f"Create a materialized view of {print_name(name)}, and an index on that.",
    )


def _check_options(statement: ast.CreateIndex) -> None:
    for option in statement.with_options:
        if option.name != "RETAIN HISTORY":
            raise unknown(option, ("RETAIN HISTORY",), owner="indexes")
        hint = "Leave it out: RETAIN HISTORY of the materialized view says for how long its changes are kept."
        raise SinkqlError("SQ2974", "RETAIN HISTORY of an index is not supported", option.span, hint=hint)


def _check_cluster(statement: ast.CreateIndex, view: logical.View, scope: Scope) -> None:
    if statement.cluster is None or qualified_name(statement.cluster.value) == view.cluster:
        return
    raise SinkqlError(
        "SQ2371",
        f'the index must be in cluster "{view.cluster}", where its materialized view is',
        statement.cluster.span,
        hint=f"Leave out IN CLUSTER {print_name(ast.Name((statement.cluster,)))}.",
    )


def _default_key(view: logical.View) -> tuple[logical.Expression, ...]:
    columns = view.shape.columns
    unique = min(view.shape.keys, key=len, default=frozenset())
    key = [column for column in columns if column.name in unique] or columns
    return tuple(logical.Reference(column.name, column.type, column.nullable) for column in key)


def _expression(written: ast.Expression, view: logical.View) -> logical.Expression:
    from sinkql.planner.query.scalar import scalar  # sqlglot loads only where there is an expression
    from sinkql.planner.query.scope import Scope as Columns

    columns = Columns.of(((split_name(view.name)[-1],),), view.shape.columns)
    return without_spans(settled(scalar(written, None, columns)))
