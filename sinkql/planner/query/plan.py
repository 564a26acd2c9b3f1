"""Plan a query as relations with columns, keys and change kind; a one-shot query also has an order and a limit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlglot import exp

from sinkql import ast, logical
from sinkql.errors import MissingColumnError, MissingError, Notice, SinkqlError, Span, nearest, too_deep
from sinkql.planner import types
from sinkql.planner.name import RELATION_KINDS, short_name, split_name
from sinkql.planner.query import relation as query_relation
from sinkql.planner.query import set_operation
from sinkql.planner.query.from_clause import From
from sinkql.planner.query.order_by import CLAUSES, Order, Terms, first_rows, has_distinct_on, row_count
from sinkql.planner.query.query_context import OuterQuery, Qualifiers
from sinkql.planner.query.rename import written_name
from sinkql.planner.query.scope import Scope, identifier
from sinkql.planner.query.select import SAME, Hidden, aggregates_in, plan_select
from sinkql.planner.query.set_operation import plan_values
from sinkql.planner.query.subquery.subquery import Subqueries
from sinkql.planner.subsource import check_readable, stand_in
from sinkql.planner.syntax.sqlglot_tree import RANGE, RECURSION, Syntax, parse


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The relation of a query, and the distinct full names of the items it reads, in the order of the text."""

    relation: logical.Relation
    dependencies: tuple[str, ...]
    notices: tuple[Notice, ...] = ()


def plan_query(
    query: ast.Query, catalog: logical.CatalogReader, *, listed: bool = False, scaled: bool = True
) -> QueryPlan:
    """Plan a SELECT.

    Raises SinkqlError: SQ2201 for syntax, SQ22… for meaning, SQ29… if a clause is not supported yet. `listed` says that
    the caller renames all columns, so that the query may have duplicate names. If not `scaled`, a column of computed
    numerics is a plain numeric.
    """
    try:
        planner = Planner(parse(query), catalog, listed=listed, scaled=scaled)
        relation = planner.plan(planner.syntax.tree, OuterQuery())
    except RecursionError:
        raise too_deep(query.span) from None
    return QueryPlan(relation, tuple(planner.dependencies), tuple(planner.notices))


@dataclass
class Planner:
    """The planning of one query text: the syntax tree, the catalog, and the dependencies and notices."""

    syntax: Syntax
    catalog: logical.CatalogReader
    once: datetime | None = None
    """The time of a one-shot query; None in a view. A one-shot query may also order and limit its result."""
    hidden: Hidden | None = None
    """The hidden columns that a one-shot query computes behind its select list."""
    listed: bool = False
    """Whether a list of names outside the query names all its columns."""
    scaled: bool = True
    """Whether numeric columns have the scale that Postgres shows, if it is known."""
    dependencies: dict[str, None] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    named: int = 0

    def plan(self, node: Any, around: OuterQuery) -> logical.Relation:
        """Plan a query or subquery, with its ORDER BY, LIMIT and OFFSET."""
        around = self._with(node, around)
        self.refuse_clauses(node)
        if self.once is not None and node is self.syntax.tree:
            return self._body(node, around, self.hidden)
        limit, offset = (row_count(self.syntax, node.args.get(word), word.upper()) for word in ("limit", "offset"))
        if not any(node.args.get(clause) for clause in CLAUSES):
            return self._body(node, around)
        terms = Terms(self.syntax, node)
        relation = self._body(node, around, terms.hidden)
        order = terms.sorts(relation)
        if limit is None and not offset:  # the order is valid, but a relation's rows have no order
            self._note_order(node)
            return self._body(node, around)
        return first_rows(relation, order, limit, offset or 0, terms.width(relation))

    def _note_order(self, node: Any) -> None:
        if node is self.syntax.tree and not has_distinct_on(node):
            span = self.syntax.span(node.args["order"])
            hint = "Add LIMIT for the first rows of an order, or order the query that reads the view."
            message = "ORDER BY without LIMIT does nothing in a view: its rows have no order"
            self.notices.append(Notice("SQ2241", message, span, hint=hint))

    def _body(self, node: Any, around: OuterQuery, hidden: Hidden | None = None) -> logical.Relation:
        match node:
            case exp.Select():
                return self._select(node, around, hidden)
            case exp.Union():
                return self._union(node, around)
            case exp.Subquery():
                return self.plan(node.this, around)
            case exp.Values():
                return plan_values(self, around, node)
            case exp.Except() | exp.Intersect():
                return self._set_operation(node, around)
            case _:
                raise AssertionError(type(node))

    def _with(self, node: Any, around: OuterQuery) -> OuterQuery:
        with_ = node.args.get("with_")
        if with_ is None:
            return around
        if with_.args.get("recursive"):
            raise self._not_yet("SQ2924", "recursive queries are not supported yet", with_)
        for expression in with_.expressions:
            name = identifier(expression.args["alias"].this)
            relation = self.aliased(self.plan(expression.this, around), expression.args["alias"])
            around = replace(around, named={**around.named, name: relation})
        return around

    def refuse_clauses(self, node: Any) -> None:
        """Raise an error if a node has a clause that is not planned."""
        for name, part in node.args.items():
            if not part or name in _PLANNED.get(type(node), ()):
                continue
            first = part[0] if isinstance(part, list) else part
            place = first if isinstance(first, exp.Expr) else node
            clause = _WORDS.get(name) or name.rstrip("_").upper().replace("_", " ")
            span = self.syntax.from_word(place, clause.split()[0])
            if name in _CLAUSES:
                code, message = _CLAUSES[name]
                raise SinkqlError(code, message, span, hint=_HINTS.get(code))
            message = f"the clause {clause} is not supported yet"
            written = self.syntax.text[span.start - self.syntax.offset : span.end - self.syntax.offset]
            shown = written if len(written) <= _SHORT and "\n" not in written else clause
            raise SinkqlError("SQ2933", message, span, hint=f"Leave out {shown}.")

    def _not_yet(self, code: str, message: str, node: Any) -> SinkqlError:
        return SinkqlError(code, message, self.syntax.span(node), hint=_HINTS.get(code))

    def _select(self, node: Any, around: OuterQuery, hidden: Hidden | None) -> logical.Relation:
        from_ = node.args.get("from_")
        if from_ is None:
            if (
                self.once is None
                and around.outer is None
                and any(expression.find(exp.Column) for expression in node.expressions)
            ):
                self._check_without_from(node)
            scope = Scope(now=self.once, outer=around.outer)
            return self._selected(Subqueries(self, around, scope), node, logical.ONE, hidden)
        from_plan = From(self, around).plan(node)
        return self._selected(Subqueries(self, around, from_plan.scope), node, from_plan.relation, hidden)

    def _selected(
        self, subqueries: Subqueries, node: Any, relation: logical.Relation, hidden: Hidden | None
    ) -> logical.Relation:
        try:
            return plan_select(subqueries, node, relation, hidden)
        except MissingColumnError as error:
            error.hint = self._not_its_alias(node, error) or error.hint
            raise

    def _not_its_alias(self, node: Any, error: SinkqlError) -> str | None:
        """Return the hint for a name of the select list that is used where only columns are visible."""
        if error.span is None:
            return None
        start, end = (place - self.syntax.offset for place in (error.span.start, error.span.end))
        missing = self.syntax.text[start:end]
        aliases = [expression for expression in node.expressions if isinstance(expression, exp.Alias)]
        match = next((alias for alias in aliases if alias.alias.lower() == missing.lower()), None)
        if match is None or (match.meta.get(RANGE) or (0, 0))[0] <= start < (match.meta.get(RANGE) or (0, 0))[1]:
            return None
        value, where = match.this, node.args.get("where")
        where_range = (where.meta.get(RANGE) or (0, 0)) if where is not None else (0, 0)
        of_rows = where_range[0] <= start < where_range[1] and aggregates_in(value)
        if of_rows or value.find(exp.Window) is not None:
            return f"{missing} is a name of the select list: compute it in a subquery in FROM."
        return f"{missing} is a name of the select list: write {self.syntax.written(value)}."

    def fresh(self) -> str:
        """Return a column name that no column has."""
        self.named += 1
        return f"$q{self.named}"

    def _check_without_from(self, node: Any) -> None:
        """Raise SQ2224 for a SELECT without FROM whose last name without AS may be the relation to read."""
        last = node.expressions[-1] if node.expressions else node
        alias = last.args.get("alias") if isinstance(last, exp.Alias) else None
        relations = {split_name(full)[-1] for kind in RELATION_KINDS for full in self.catalog.names(kind)}
        if alias is not None and identifier(alias) in relations:
            span = Span(alias.meta["start"], alias.meta["end"] + 1).shifted(self.syntax.offset)
            hint = f"Write FROM before {self.syntax.text[alias.meta['start'] : alias.meta['end'] + 1]}."
            raise SinkqlError("SQ2224", f'expected FROM, found "{identifier(alias)}"', span, hint=hint)
        clause = next((node.args[word] for word in ("where", "group", "having") if node.args.get(word)), None)
        if clause is not None:
            start = self.syntax.from_word(clause, clause.key.upper()).start
            span = Span(start, start + len(clause.key))
            hint = f"Write FROM and a relation before {clause.key.upper()}."
            raise SinkqlError("SQ2224", f"expected FROM, found {clause.key.upper()}", span, hint=hint)

    def _union(self, node: Any, around: OuterQuery) -> logical.Relation:
        left, right = self.plan(node.this, around), self.plan(node.expression, around)
        union = query_relation.union(left, right, self.syntax.span(node.expression), scaled=self.scaled)
        return query_relation.distinct(union, self.syntax.span(node)) if node.args.get("distinct") else union

    def _set_operation(self, node: Any, around: OuterQuery) -> logical.Relation:
        left, right = self.plan(node.this, around), self.plan(node.expression, around)
        word: set_operation.Word = "INTERSECT" if isinstance(node, exp.Intersect) else "EXCEPT"
        span, all_ = self.syntax.span(node.expression), not node.args.get("distinct")
        return set_operation.combined(word, left, right, span, all_=all_, scaled=self.scaled)

    def table(self, node: Any, around: OuterQuery) -> tuple[logical.Relation, Qualifiers]:
        """Return the relation that a name refers to, and the qualifiers of its columns."""
        name = written_name(self.syntax, node)
        if len(name.parts) == 1 and name.parts[0].value in around.named:
            return around.named[name.parts[0].value], ((name.parts[0].value,),)
        written_full = self.catalog.resolve(name)
        full = stand_in(written_full, self.catalog)
        item = self.catalog.item(full)
        if item is None:
            raise self._unknown(name)
        if isinstance(item, logical.Sink) and self.once is not None:
            item = replace(item, shape=sink_shape(item))
        elif not isinstance(item, logical.Source | logical.View):
            kind = type(item).__name__.lower()
            raise SinkqlError(
                "SQ2203",
                f'cannot select from {kind} "{name.text}"',
                name.span,
                hint="Select from a source or view.",
            )
        check_readable(item, name, self.catalog, once=self.once is not None)
        self.dependencies.setdefault(written_full)
        self.dependencies.setdefault(full)
        return logical.Get(full, item.shape), (split_name(written_full),)

    def _unknown(self, name: ast.Name) -> MissingError:
        full_names = {split_name(full)[-1]: full for kind in RELATION_KINDS for full in self.catalog.names(kind)}
        close = nearest(name.parts[-1].value, list(full_names))
        short = short_name(full_names[close], self.catalog) if close else None
        hint = f"Did you mean {short}?" if short else "Create the source or view first."
        message, wanted = f'relation "{name.text}" does not exist', name.parts[-1].value
        return MissingError("SQ2202", message, name.span, name=wanted, hint=hint)

    def aliased(self, relation: logical.Relation, alias: Any) -> logical.Relation:
        """Return a relation with the column names of its alias."""
        names = [identifier(column) for column in alias.args.get("columns") or ()] if alias is not None else []
        if not names:
            return relation
        renamed = query_relation.renamed(relation, names, self.syntax.span(alias))
        listed = [column.name for column in renamed.shape.columns]
        # a column that the list does not name keeps its name if the name is unique
        plain_names = [name.partition(SAME)[0] for name in listed]
        if plain_names != listed and len(set(plain_names)) == len(plain_names):
            return query_relation.renamed(renamed, plain_names, self.syntax.span(alias))
        for name, written in zip(listed, plain_names, strict=True):
            if SAME in name and self.once is None:
                message = f'column "{written}" is specified more than once'
                hint = "Give all columns names in the list."
                raise SinkqlError("SQ2008", message, self.syntax.span(alias), hint=hint)
        return renamed


def sink_shape(sink: logical.Sink) -> logical.Shape:
    """Return the columns of the table that a sink writes."""
    log = (logical.Column("_mz_diff", types.INTEGER, False), logical.Column("_mz_timestamp", types.BIGINT, False))
    return logical.Shape((*sink.shape.columns, *(log if sink.changelog else ())))


_PLANNED: dict[type, tuple[str, ...]] = {
    exp.Select: (
        "with_",
        "kind",
        "expressions",
        "distinct",
        "from_",
        "joins",
        "where",
        "group",
        "having",
        "qualify",
        "windows",
        *CLAUSES,
    ),
    exp.Union: ("with_", "this", "expression", "distinct", *CLAUSES),
    exp.Subquery: ("with_", "this", "alias", "joins", *CLAUSES),
    exp.Table: ("this", "db", "catalog", "alias", "joins"),
    exp.Except: ("with_", "this", "expression", "distinct", *CLAUSES),
    exp.Intersect: ("with_", "this", "expression", "distinct", *CLAUSES),
    exp.Values: ("with_", "expressions", "alias", *CLAUSES),
}
_SHORT = 40
_CLAUSES = {"laterals": ("SQ2928", "LATERAL VIEW is not supported")}
_WORDS = {"windows": "WINDOW", "locks": "FOR UPDATE", "sample": "TABLESAMPLE"}
_HINTS = {
    "SQ2928": "Select from a source or view.",
    "SQ2924": RECURSION,
}


@dataclass(frozen=True, slots=True)
class OneShotQuery:
    """The plan of a one-shot query: the first `width` columns are shown; the rest only serve the order."""

    relation: logical.Relation
    dependencies: tuple[str, ...]
    width: int
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns that are shown; names may repeat."""
        return tuple(column.name.partition(SAME)[0] for column in self.relation.shape.columns[: self.width])

    @property
    def types(self) -> tuple[logical.Type, ...]:
        """Return the types of the columns that are shown."""
        return tuple(column.type for column in self.relation.shape.columns[: self.width])


def plan_one_shot(query: ast.Query, catalog: logical.CatalogReader, now: datetime) -> OneShotQuery:
    """Plan a query that runs once; unlike a view, it may order, limit, and read sinks and the clock."""
    syntax = parse(query)
    tree = syntax.tree
    limit, offset = (row_count(syntax, tree.args.get(word), word.upper()) for word in ("limit", "offset"))
    order = Terms(syntax, tree)
    try:
        planner = Planner(syntax, catalog, now, order.hidden)
        relation = planner.plan(tree, OuterQuery())
        places = order.places(relation)
    except RecursionError:
        raise too_deep(query.span) from None
    return OneShotQuery(relation, tuple(planner.dependencies), order.width(relation), places, limit, offset or 0)
