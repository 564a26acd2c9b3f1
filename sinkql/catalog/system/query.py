"""A SELECT over system relations, in the user's dialect → its columns and rows, from the catalog file itself."""

from __future__ import annotations

import re
from collections.abc import Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import OptimizeError, ParseError, TokenError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope

from sinkql import ast
from sinkql.catalog.file.database import Database
from sinkql.catalog.system import ON_PATH, RELATIONS
from sinkql.catalog.system.postgres_query import compare_numbers, without_postgres
from sinkql.catalog.system.relation import Relation
from sinkql.catalog.system.view import Table, select_views
from sinkql.errors import SinkqlError, Span, nearest
from sinkql.planner.name import DATABASE, SCHEMA
from sinkql.planner.query.grammar.select import read
from sinkql.planner.query.grammar.word import ForeignError, MistakeError
from sinkql.planner.query.string import plain_strings

MAX_TOKENS = 10_000
"""How many a query may have: what SQLite can take is far less, and sqlglot's time grows with the square."""
_DIALECT = "materialize"
_SYSTEM = ("mz_catalog", "mz_internal", "pg_catalog", "information_schema")
_EXAMPLE = "A query looks like SELECT name FROM mz_sinks WHERE type = 'iceberg'."
_SUPPORTED = "Use plain comparisons, LIKE, ~, CASE, aggregates such as count, and functions such as lower and replace."
_ALL = "SELECT schema_id, name FROM mz_relations lists what there is."
_NOT_THERE: dict[type, str] = {
    exp.Interval: "interval",
    exp.Array: "array",
    exp.ArrayAgg: "array_agg",
    exp.DateTrunc: "date_trunc",
    exp.TimestampTrunc: "date_trunc",
    exp.Extract: "extract",
    exp.TimeToStr: "to_char",
    exp.StrToTime: "to_timestamp",
    exp.Any: "any|some",
    exp.All: "all",
    exp.TableSample: "tablesample",
    exp.Lock: "for",
}
_VIEWS = {each.view: each for each in RELATIONS.values()}
_NAMED = (exp.Table, exp.Subquery, exp.CTE)


def select(
    query: ast.Query,
    database: Database,
    *,
    current: tuple[str, tuple[str, ...]] = (DATABASE, (SCHEMA,)),
    within: Span | None = None,
) -> Table:
    """Run a query over system relations; `current` are the session's database and the schemas on its path.

    `within` is what the user wrote of it, all of it if left out. Raises SQ2980 (another relation), SQ2202 to SQ2205,
    SQ2211, SQ2282 and SQ2284 (mistakes in the query).
    """
    text = _Text(query, within or query.span)
    tree = text.parse()
    _name_outputs(tree)
    tree = without_postgres(tree)
    text.check_forms(tree)
    _to_views(tree, text)
    qualified = text.qualified(tree)
    named = qualified.find_all(exp.Table)
    relations = {table.alias_or_name: _VIEWS[table.name] for table in named if table.name in _VIEWS}
    compare_numbers(qualified, relations)
    booleans = _booleans(qualified, relations)
    sql = qualified.sql("sqlite", identify=True)
    return select_views(sql, database, booleans=booleans, current=current, refused=text.refused)


class _Text:
    """Tie a parsed query to its place in the user's script."""

    def __init__(self, query: ast.Query, within: Span) -> None:
        self.query = query
        self.within = within

    def placed(self, start: int, end: int) -> Span:
        """Return a span of the query's text in the user's script, within what the user wrote."""
        span = Span(start, end).shifted(self.query.span.start)
        first = min(max(span.start, self.within.start), self.within.end)
        return Span(first, max(first, min(span.end, self.within.end)))

    def refused(self, reason: str) -> SinkqlError:
        """Return the error for what SQLite does not run, at the function or the word that it names."""
        function = re.fullmatch(r"no such function: (\w+)|wrong number of arguments to function (\w+)\(\)", reason)
        name = (function[1] or function[2]).lower() if function else None
        found = re.search(rf"\b{re.escape(name)}\s*\(", self._written(), re.IGNORECASE) if name else None
        if name is None or found is None:
            return SinkqlError("SQ2284", "the system catalog cannot run this query", self.within, hint=_SUPPORTED)
        message = f"function {name}() is not supported over system relations"
        if function is not None and function[2]:
            message = f"function {name}() does not take these arguments"
        return SinkqlError("SQ2284", message, self.placed(found.start(), found.start() + len(name)), hint=_SUPPORTED)

    def check_forms(self, tree: exp.Query) -> None:
        """Refuse forms that SQLite does not have, at their word; raises SQ2284."""
        for node in tree.walk():
            words = next((words for class_, words in _NOT_THERE.items() if isinstance(node, class_)), None)
            found = re.search(rf"\b({words})\b", self._written(), re.IGNORECASE) if words is not None else None
            if found is not None:
                message = f"{found[1].lower()} is not supported over system relations"
                raise SinkqlError("SQ2284", message, self.placed(*found.span()), hint=_SUPPORTED)

    def _written(self) -> str:
        """Return the text with blanks in the place of what the user did not write."""
        start, end = (place - self.query.span.start for place in (self.within.start, self.within.end))
        return " " * start + self.query.text[start:end] if start > 0 else self.query.text[:end]

    def span(self, node: exp.Expression | None) -> Span:
        """Return where a node with an identifier stands; all of the query for one without."""
        identifier = node.find(exp.Identifier) if node is not None else None
        meta: Mapping[str, int] = identifier.meta if identifier is not None else {}
        if "start" not in meta:
            return self.within
        return self.placed(meta["start"], meta["end"] + 1)

    def parse(self) -> exp.Query:
        """Return the query's tree; raises SQ2282."""
        try:
            tokens = plain_strings(sqlglot.tokenize(self.query.text, read=_DIALECT), self.query.text)
            if len(tokens) > MAX_TOKENS:
                raise SinkqlError(
                    "SQ1029",
                    f"the query has more than {MAX_TOKENS:,} words and signs",
                    self.query.span,
                    hint="Split it into several queries.",
                )
            trees = sqlglot.Dialect.get_or_raise(_DIALECT).parser().parse(tokens, self.query.text)
            tree = trees[0] if len(trees) == 1 else None
        except (ParseError, TokenError) as error:
            raise self._syntax(error) from error
        except (RecursionError, SinkqlError):
            raise
        except Exception as error:  # sqlglot stumbles over many a text that is no query: the grammar says where
            self._check()
            raise self.refused("") from error
        self._check()
        if not isinstance(tree, exp.Query):
            raise SinkqlError("SQ2282", "expected a query", self.query.span, hint=_EXAMPLE)
        return tree

    def _check(self) -> None:
        """Refuse what is no query, of which sqlglot takes much; raises SQ2282, and SQ2211 for an operator."""
        try:
            read(self.query.text)
        except ForeignError as mistake:
            error = mistake.error
            span = error.span or Span(0, 0)
            raise SinkqlError(error.code, error.message, self.placed(span.start, span.end), hint=error.hint) from None
        except MistakeError as mistake:
            expected = f"expected {mistake.expected}" if mistake.expected else "unexpected word or sign"
            message = f"syntax error in the query: {expected}"
            raise SinkqlError("SQ2282", message, self.placed(mistake.start, mistake.start + 1), hint=_EXAMPLE) from None

    def _syntax(self, error: ParseError | TokenError) -> SinkqlError:
        found = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
        reason = str(found.get("description") or "unterminated string or quoted name").partition(" but got")[0]
        if "Required keyword" in reason:
            reason = "something is missing here"
        reason = reason[:1].lower() + reason[1:].rstrip(".")
        span = self.within
        lines = self.query.text.splitlines(keepends=True)
        if 0 < found.get("line", 0) <= len(lines):
            end = sum(map(len, lines[: found["line"] - 1])) + found["col"]
            start = max(0, end - len(found.get("highlight") or " "))
            span = self.placed(start, max(end, start + 1))
        return SinkqlError("SQ2282", f"syntax error in the query: {reason}", span, hint=_EXAMPLE)

    def qualified(self, tree: exp.Query) -> exp.Query:
        """Return the tree with every column tied to its relation; raises SQ2204 for one that does not exist."""
        columns = {each.view: {column.name: "text" for column in each.columns} for each in RELATIONS.values()}
        try:
            done = qualify(tree.copy(), dialect=_DIALECT, schema=columns, validate_qualify_columns=False)
        except OptimizeError as error:
            named = re.search(r"[Cc]olumn:? ['\"]*([^'\"\s]+)", str(error))
            name = named[1] if named else str(error)
            column = next((each for each in tree.find_all(exp.Column) if each.name == name), None)
            raise self._unknown_column(tree, column, name) from error
        for scope in traverse_scope(done):
            for column in scope.unqualified_columns:
                raise self._unknown_column(tree, column, column.name)
            if scope.external_columns and not scope.is_correlated_subquery:
                raise self._unknown_column(tree, scope.external_columns[0], scope.external_columns[0].name)
        assert isinstance(done, exp.Query)
        return done

    def _unknown_column(self, tree: exp.Query, column: exp.Column | None, name: str) -> SinkqlError:
        if (
            column is not None
            and column.table
            and not any(t.alias_or_name == column.table for t in tree.find_all(*_NAMED))
        ):
            message = f'relation "{column.table}" is not in FROM'
            raise SinkqlError("SQ2202", message, self.span(column.args["table"]), hint="Use a name that FROM gives.")
        used = [_VIEWS[table.name] for table in tree.find_all(exp.Table) if table.name in _VIEWS]
        holders = sum(name in relation.names for relation in used)
        span = self.span(column.this if column is not None else None)
        if holders > 1 and column is not None and not column.table:
            hint = f"Name the relation: {used[0].name}.{name}."
            return SinkqlError("SQ2205", f'column "{name}" is ambiguous', span, hint=hint)
        choices = sorted({each for relation in used for each in relation.names})
        near = nearest(name, choices)
        hint = f'Did you mean "{near}"?' if near else f"The columns are {', '.join(choices)}."
        return SinkqlError("SQ2204", f'column "{name}" does not exist', span, hint=hint)


def _name_outputs(tree: exp.Query) -> None:
    """Name unnamed outputs as the user's dialect does: a function's by the function."""
    for output in list(tree.selects):
        if not isinstance(output, exp.Column | exp.Star | exp.Alias):
            name = output.sql_name().lower() if isinstance(output, exp.Func) else "?column?"
            output.replace(exp.alias_(output.copy(), name, quoted=True))


def _to_views(tree: exp.Query, text: _Text) -> None:
    """Turn the names of system relations into those of the views in the file, and refuse all others."""
    views = {id(table) for table in tree.find_all(exp.Table) if not _of_query(table)}
    for table in [each for each in tree.find_all(exp.Table) if id(each) in views]:
        relation = _relation(table)
        if relation is None:
            raise _unknown_relation(table, text)
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(relation.name)))
        table.set("this", exp.to_identifier(relation.view))
        table.set("db", None)
        table.set("catalog", None)
    for column in tree.find_all(exp.Column):
        column.set("db", None)
        column.set("catalog", None)


def _relation(table: exp.Table) -> Relation | None:
    """Return the system relation that a name stands for, if it does."""
    name = (
        table.name if isinstance(table.this, exp.Identifier) and table.this.args.get("quoted") else table.name.lower()
    )
    schemas = (table.db.lower(),) if table.db else ON_PATH
    return next((RELATIONS[schema, name] for schema in schemas if (schema, name) in RELATIONS), None)


def _booleans(tree: exp.Query, relations: Mapping[str, Relation]) -> frozenset[int]:
    """Return the places of outputs that are boolean: SQLite gives numbers for them."""
    return frozenset(place for place, output in enumerate(tree.selects) if _boolean(output.unalias(), tree, relations))


def _boolean(value: exp.Expression, tree: exp.Query, relations: Mapping[str, Relation]) -> bool:
    if not isinstance(value, exp.Column):
        return isinstance(value, exp.Predicate | exp.Boolean | exp.Not | exp.And | exp.Or)
    relation = relations.get(value.table)
    if relation is not None:
        return relation.type_of(value.name) == "boolean"
    queries = (each.this for each in tree.find_all(exp.Subquery, exp.CTE) if each.alias == value.table)
    query = next((each for each in queries if isinstance(each, exp.Query)), None)
    outputs = query.selects if query is not None else []
    inner = next((each.unalias() for each in outputs if each.alias_or_name == value.name), None)
    return query is not None and inner is not None and _boolean(inner, query, relations)


def _of_query(table: exp.Table) -> bool:
    """Tell whether a name stands for a WITH query of a SELECT around it."""
    if table.db or not isinstance(table.this, exp.Identifier):
        return False
    node: exp.Expression | None = table
    while node is not None:
        with_ = node.args.get("with_") or node.args.get("with")
        if isinstance(with_, exp.With) and any(each.alias == table.name for each in with_.expressions):
            return True
        node = node.parent
    return False


def _unknown_relation(table: exp.Table, text: _Text) -> SinkqlError:
    name, span = table.name, text.span(table.this)
    relation = next((each for each in RELATIONS.values() if each.name == name.lower()), None)
    if relation is not None and not table.db:
        hint = f"Write {relation.schema}.{relation.name}."
        return SinkqlError("SQ2202", f'system relation "{name}" is not in search_path', span, hint=hint)
    if name.lower().startswith(("mz_", "pg_")) or table.db.lower() in _SYSTEM:
        near = nearest(name, tuple(each.name for each in RELATIONS.values()))
        found = next((each for each in RELATIONS.values() if each.name == near), None)
        hint = f"Did you mean {found.schema}.{found.name}?" if found else _ALL
        return SinkqlError(
            "SQ2202", f'system relation "{table.db + "." if table.db else ""}{name}" does not exist', span, hint=hint
        )
    shown = name or table.sql(_DIALECT)
    return SinkqlError(
        "SQ2980",
        f'SELECT over "{shown}" is not supported yet',
        span,
        hint="Select from system relations such as mz_sinks; read a sink's table with DuckDB, Spark or PyIceberg.",
    )
