"""Convert a query over the views of the catalog file to SQLite's SQL, clause by clause, with the functions that it
calls.

SQLite joins, groups and orders. Expressions are planned as in any other query. SinkQL's evaluator computes them in
functions that SQLite calls. So their results are Postgres's, or an error with its position. SQLite itself only computes
references, logic, and comparisons that it does as Postgres does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlglot import exp
from sqlglot.optimizer.scope import Scope as Part
from sqlglot.optimizer.scope import traverse_scope

from sinkql import logical
from sinkql.catalog.system.expression import ORDERED, SUPPORTED, SqliteExpressions
from sinkql.catalog.system.function import CLIENT, SUMS, Functions, is_known_type, stored_type
from sinkql.catalog.system.relation import Relation
from sinkql.errors import NoFormError, SinkqlError, Span, one_of
from sinkql.logical import Type
from sinkql.planner import types
from sinkql.planner.expression import operator as operators
from sinkql.planner.expression.literal import coerced
from sinkql.planner.expression.typed_expression import Typed, column, settled
from sinkql.planner.function.call import AGGREGATES
from sinkql.planner.query.aggregate import aggregate
from sinkql.planner.query.aggregate.aggregate import Calls, GroupContext
from sinkql.planner.query.aggregate.grouping_sets import Groupings
from sinkql.planner.query.aggregate.ordered_aggregate import NAMES
from sinkql.planner.query.order_by import row_count
from sinkql.planner.query.scope import Groups, RowContext, Scope
from sinkql.planner.query.translate import Translator
from sinkql.planner.syntax.sqlglot_tree import RECURSION, Syntax

_CLAUSES = ("with_", "kind", "expressions", "distinct", "from_", "joins", "where", "group", "having", "order", "limit",
            "offset")  # fmt: skip
_OF_SETS = ("with_", "this", "expression", "distinct", "order", "limit", "offset")
_RANKS = ("row_number", "rank", "dense_rank")
_CONSTANTS = (exp.Literal, exp.Null, exp.Boolean)
_NAMES = ("name", "cstring")
_ONE_ROW = ("count", "min", "max", "sum", *(name for name, _ in SUMS.values()))
_Output = tuple[str, Type]


def lower(
    tree: exp.Query, syntax: Syntax, views: Mapping[str, Relation], now: datetime
) -> tuple[Functions, list[Type]]:
    """Convert a tree with qualified columns to SQLite's SQL in place.

    Returns the functions that it calls, and the types of its columns. Raises SinkqlError as planning a query does, and
    SQ2284 for unsupported syntax.
    """
    lowering = _Lowering(syntax, views, now)
    for part in traverse_scope(tree):
        lowering.part(part)
    outputs = lowering.outputs.get(id(tree))
    if outputs is None:
        raise lowering.refused("this query", tree)
    return lowering.functions, [type_ for _, type_ in outputs]


class _Lowering:
    """The conversion of one query, with the outputs of its subqueries."""

    def __init__(self, syntax: Syntax, views: Mapping[str, Relation], now: datetime) -> None:
        self.syntax = syntax
        self.views = views
        self.now = now
        self.functions = Functions()
        self.outputs: dict[int, list[_Output]] = {}
        """The columns of each subquery, by its node."""

    def refused(self, what: str, node: Any, hint: str = SUPPORTED) -> SinkqlError:
        message = f"{what} is not supported over system relations"
        return NoFormError("SQ2284", message, self.syntax.span(node), hint=hint)

    def part(self, part: Part) -> None:
        """Convert one SELECT, or a UNION of converted queries."""
        node = part.expression
        match node:
            case exp.Select():
                self.outputs[id(node)] = _Select(self, part).lower()
            case exp.SetOperation():
                self.outputs[id(node)] = self._combine(node)
            case _:
                raise self.refused(node.key.upper(), node)
        for clause in ("limit", "offset"):
            if node.args.get(clause) is not None:
                self._limit(node, clause)

    def _limit(self, node: Any, clause: str) -> None:
        count = row_count(self.syntax, node.args[clause], clause.upper())
        class_ = exp.Limit if clause == "limit" else exp.Offset
        node.set(clause, None if count is None else class_(expression=exp.Literal.number(count)))
        if clause == "offset" and count is not None and node.args.get("limit") is None:
            node.set("limit", exp.Limit(expression=exp.Literal.number(-1)))  # SQLite requires a LIMIT

    def _combine(self, node: Any) -> list[_Output]:
        word = node.key.upper()
        self.check_clauses(node, _OF_SETS)
        left, right = (self.outputs.get(id(operand)) for operand in (node.this, node.expression))
        if left is None or right is None:
            raise self.refused(f"{word} of queries in parentheses", node)
        mixed = any(
            isinstance(operand, exp.SetOperation) and type(operand) is not type(node)
            for operand in (node.this, node.expression)
        )
        if mixed and node.find(exp.Intersect) is not None:
            raise self.refused("INTERSECT beside UNION or EXCEPT", node, "Write each as a subquery in FROM.")
        if not isinstance(node, exp.Union) and node.args.get("distinct") is False:
            raise self.refused(f"{word} ALL", node)
        if len(left) != len(right):
            message = f"each part of {word} must have the same number of columns, found {len(left)} and {len(right)}"
            hint = "Select the same number of columns in each part."
            raise SinkqlError("SQ2221", message, self.syntax.span(node), hint=hint)
        alone = isinstance(node, exp.Union) and node.args.get("distinct") is False
        outputs = [(name, self._matched(node, a, b, name)) for (name, a), (_, b) in zip(left, right, strict=True)]
        for _, type_ in outputs:
            if not alone:
                self.check_ordered(type_, node, word)
        for term in node.args["order"].expressions if node.args.get("order") else ():
            names = [name for name, _ in outputs]
            if not isinstance(term.this, exp.Column) or term.this.name not in names:
                hint = f"The columns are {', '.join(names)}."
                message = f"ORDER BY after {word} can only name columns of the result"
                raise SinkqlError("SQ2226", message, self.syntax.span(term), hint=hint)
            self.check_ordered(outputs[names.index(term.this.name)][1], term, "ORDER BY")
            _set_null_order(term)
        return outputs

    def _matched(self, node: Any, left: Type, right: Type, name: str) -> Type:
        if left == right or right == types.UNKNOWN:
            return left
        if left == types.UNKNOWN:
            return right
        if types.is_signed_integer(left) and types.is_signed_integer(right):
            return max(left, right, key=lambda type_: types.INTEGER_DIGITS[type_.name])
        if types.common((left, right)) is not None:
            raise self.refused(f"{node.key.upper()} of {left.name} and {right.name}", node, "Cast one of them.")
        message = f'types {left.name} and {right.name} of column "{name}" of {node.key.upper()} cannot be matched'
        raise SinkqlError("SQ2213", message, self.syntax.span(node), hint="Cast one of them.")

    def check_clauses(self, node: Any, clauses: Sequence[str]) -> None:
        for name, part in node.args.items():
            if part and name not in clauses:
                raise self.refused(name.rstrip("_").upper(), part[0] if isinstance(part, list) else part)
        with_ = node.args.get("with_")
        if with_ is not None and with_.args.get("recursive"):
            raise SinkqlError(
                "SQ2924", "recursive queries are not supported yet", self.syntax.span(with_), hint=RECURSION
            )

    def check_ordered(self, type_: Type, node: Any, what: str) -> None:
        if type_.name not in (*ORDERED, "unknown"):
            raise self.refused(f"{what} of values of type {type_.name}", node)


class _Select:
    """The conversion of one SELECT, clause by clause in the order of evaluation."""

    def __init__(self, lowering: _Lowering, part: Part) -> None:
        self.all = lowering
        self.part = part
        self.node = part.expression
        self.calls = Calls(set(), retracts=False, grouped=False, scaled=False)
        self.sqlite = SqliteExpressions(self.calls, lowering.functions)
        self.rows = Translator(lowering.syntax, _Rows(self, "this place"))
        self.above = self.rows
        """Translates expressions above GROUP BY; the same as `rows` without GROUP BY."""

    def lower(self) -> list[_Output]:
        self.all.check_clauses(self.node, _CLAUSES)
        for join in self.node.args.get("joins") or ():
            if join.args.get("on") is not None:
                join.set("on", self._condition(join.args["on"], self._translator("ON"), "ON"))
        where = self.node.args.get("where")
        if where is not None:
            where.set("this", self._condition(where.this, self._translator("WHERE"), "WHERE"))
        keys = self._group()
        having = self.node.args.get("having")
        condition = None if having is None else self._condition(having.this, self.above, "HAVING")
        terms = self._terms()
        outputs = [self._output(output) for output in self.node.expressions]
        if condition is not None:
            having.set("this", condition)
        for term, key in terms:
            term.set("this", key)
        if keys:
            self.node.set("group", exp.Group(expressions=keys))
        self._distinct(outputs)
        return [(name, type_) for name, type_, _ in outputs]

    def _translator(self, where: str) -> Translator:
        return Translator(self.all.syntax, _Rows(self, where))

    def _condition(self, node: Any, translator: Translator, where: str) -> exp.Expr:
        return self.sqlite.sql(settled(translator.boolean(node, where)))

    # --- GROUP BY ------------------------------------------------------------------------------------------------

    def _group(self) -> list[exp.Expr]:
        """Return the keys; later clauses are translated over these keys and over aggregates."""
        group = self.node.args.get("group")
        for name, part in group.args.items() if group is not None else ():
            if part and name != "expressions":
                raise self.all.refused(f"GROUP BY {name.rstrip('_').upper().replace('_', ' ')}", group)
        nodes = group.expressions if group is not None else []
        grouped = group is not None or self.node.args.get("having") is not None
        if not grouped and not any(_has_aggregates(node, self.part) for node in self._ordered_and_selected()):
            return []
        group_values: dict[logical.Expression, Typed] = {}
        keys = []
        for node in nodes:
            if isinstance(node, _CONSTANTS):
                raise SinkqlError("SQ2222", "constants are not allowed in GROUP BY", self.all.syntax.span(node))
            value = self._with_known_type(self.rows.translate(node))
            self.all.check_ordered(value.type, node, "GROUP BY")
            keys.append(_as_key(self.sqlite.sql(settled(value))))
            group_values[settled(value)] = group_values[value.tree] = self.sqlite.atom(keys[-1], value.type, value.span)
        self.calls.grouped = bool(keys)
        self.above = Translator(self.all.syntax, _Grouped(self, Groups(group_values)))
        return keys

    def _ordered_and_selected(self) -> list[Any]:
        order = self.node.args.get("order")
        return [*self.node.expressions, *(order.expressions if order is not None else ())]

    # --- select list and ORDER BY ------------------------------------------------------------------------------------

    def _output(self, node: Any) -> tuple[str, Type, exp.Expr]:
        inner = node.this if isinstance(node, exp.Alias) else node
        name = node.alias_or_name
        if isinstance(inner, exp.Column) and self.above is self.rows:
            type_ = self.type_of(inner)
            return name, type_, inner
        if isinstance(inner, exp.Null):
            return name, types.UNKNOWN, inner
        value = self._with_known_type(self.above.translate(inner))
        if value.type == types.INTERVAL:
            raise self.all.refused("a column of type interval", inner)
        sql = self.sqlite.sql(settled(value))
        if isinstance(node, exp.Alias):
            node.set("this", sql)
        else:
            node.replace(exp.alias_(sql, name, quoted=True))
        return name, settled(value).type, sql

    def _terms(self) -> list[tuple[Any, exp.Expr]]:
        """Return the terms of ORDER BY with their expressions or columns of the result."""
        order = self.node.args.get("order")
        terms = []
        for term in order.expressions if order is not None else ():
            _set_null_order(term)
            node = term.this
            if isinstance(node, _CONSTANTS):
                node = self._position(node)
                self._check_term(self.node.expressions[int(node.name) - 1].unalias(), term)
                terms.append((term, node))
                continue
            if isinstance(node, exp.Column) and not node.table:
                output = next(
                    (output_node for output_node in self.node.expressions if output_node.alias_or_name == node.name),
                    None,
                )
                inner = output.this if isinstance(output, exp.Alias) else output
                if inner is None:
                    raise self.all.refused("this ORDER BY", term)
                self._check_term(inner, term)
                terms.append((term, node))
                continue
            if self.node.args.get("distinct") is not None and node not in [
                output_node.unalias() for output_node in self.node.expressions
            ]:
                message = "ORDER BY after DISTINCT can only name columns of the result"
                raise SinkqlError("SQ2226", message, self.all.syntax.span(node))
            for output_node in node.find_all(exp.Column):
                self._qualify(output_node)
            value = self._with_known_type(self.above.translate(node))
            self.all.check_ordered(value.type, term, "ORDER BY")
            terms.append((term, _as_key(self.sqlite.sql(settled(value)))))
        return terms

    def _position(self, node: Any) -> Any:
        if not isinstance(node, exp.Literal) or node.is_string or not node.name.isdigit():
            message = "ORDER BY takes a column or a position in the list"
            raise SinkqlError("SQ2222", message, self.all.syntax.span(node))
        if not 1 <= int(node.name) <= len(self.node.expressions):
            message = f"ORDER BY position {node.name} is not in the select list"
            raise SinkqlError("SQ2222", message, self.all.syntax.span(node))
        return node

    def _qualify(self, node: Any) -> None:
        """Qualify a column in an ORDER BY expression, whose names refer to FROM."""
        if node.table:
            return
        holders = [name for name, source in self.part.selected_sources.items() if node.name in self._names(source[1])]
        if not holders:
            raise SinkqlError("SQ2204", f'column "{node.name}" does not exist', self.all.syntax.span(node))
        if len(holders) > 1:
            raise SinkqlError("SQ2205", f'column "{node.name}" is ambiguous', self.all.syntax.span(node))
        node.set("table", exp.to_identifier(holders[0], quoted=True))

    def _names(self, source: Any) -> tuple[str, ...]:
        if isinstance(source, exp.Table):
            return self.all.views[source.name].names
        return tuple(name for name, _ in self.all.outputs.get(id(source.expression), ()))

    def _check_term(self, inner: Any, term: Any) -> None:
        if isinstance(inner, exp.Column):
            type_ = self.type_of(inner)
        else:
            type_ = (
                types.UNKNOWN
                if isinstance(inner, exp.Null)
                else self._with_known_type(self.above.translate(inner)).type
            )
        self.all.check_ordered(type_, term, "ORDER BY")

    def _distinct(self, outputs: Sequence[tuple[str, Type, exp.Expr]]) -> None:
        distinct = self.node.args.get("distinct")
        if distinct is None:
            return
        if distinct.args.get("on") is not None:
            raise self.all.refused("DISTINCT ON", distinct)
        for _, type_, _ in outputs:
            self.all.check_ordered(type_, self.node, "DISTINCT")

    def _with_known_type(self, value: Typed) -> Typed:
        return coerced(value, types.TEXT) if value.type == types.UNKNOWN else value

    # --- names -----------------------------------------------------------------------------------------------------

    def type_of(self, node: Any) -> Type:
        """Return the type of a column of this SELECT or an enclosing one, including types that only Postgres has."""
        part: Part | None = self.part
        while part is not None:
            source = part.sources.get(node.table)
            if isinstance(source, exp.Table):
                return stored_type(self.all.views[source.name].type_of(node.name) or "text")
            if isinstance(source, Part):
                outputs = dict(self.all.outputs.get(id(source.expression), ()))
                type_ = outputs.get(node.name, types.TEXT)
                return types.TEXT if type_ == types.UNKNOWN else type_
            part = part.parent
        raise self.all.refused(f'column "{node.name}" here', node)

    def is_local(self, node: Any) -> bool:
        """Return whether a column belongs to this SELECT's FROM."""
        return node.table in self.part.selected_sources

    def column(self, node: Any, span: Span) -> Typed:
        type_ = self.type_of(node)
        if not is_known_type(type_):
            raise self.all.refused(
                f"type {type_.name} in expressions", node, "Select the column without an expression."
            )
        return self.sqlite.atom(node.copy(), type_, span)

    def inner(self, node: Any, translate: Callable[[Any], Typed]) -> Typed | None:
        """Return a subquery or a client function, which are no expressions of SinkQL; None for other nodes."""
        span = self.all.syntax.span(node)
        match node:
            case exp.Subquery():
                return self._scalar(node, span)
            case exp.Exists():
                return self.sqlite.atom(node.copy(), types.BOOLEAN, span)
            case exp.In() if node.args.get("query") is not None:
                return self._member(node, node.args["query"], translate, span)
            case exp.EQ(expression=exp.Any(this=exp.Subquery() as query)):
                return self._member(node, query, translate, span)
            case exp.Is(this=exp.Column() as named, expression=exp.Null()) if not is_known_type(self.type_of(named)):
                return self.sqlite.atom(node.copy(), types.BOOLEAN, span)
            case exp.Coalesce(this=exp.Column() as first):
                return self.sqlite.atom(node.copy(), self.type_of(first), span)  # a column named in USING
            case exp.Anonymous() if str(node.this).lower() in CLIENT:
                return self._client(node, translate, span)
            case exp.Cast():
                return self._cast(node, translate, span)
        return None

    def _scalar(self, node: Any, span: Span) -> Typed:
        query = node.this
        outputs = self.all.outputs.get(id(query))
        if outputs is None:
            raise self.all.refused("this subquery", node)
        if len(outputs) != 1:
            raise SinkqlError("SQ2221", "a subquery in an expression must have one column", span)
        (_, type_), copied = outputs[0], node.copy()
        self._check_outer(node)
        if not is_known_type(type_):
            raise self.all.refused(f"a subquery of type {type_.name}", node)
        if not _has_one_row_at_most(query):
            name = self.all.functions.only_one(span)
            inside = exp.select(exp.func(name, exp.column(outputs[0][0], quoted=True))).from_(
                copied.this.subquery("only")
            )
            copied = inside.subquery()
        return self.sqlite.atom(copied, types.TEXT if type_ == types.UNKNOWN else type_, span)

    def _check_outer(self, query: Any) -> None:
        """Refuse a subquery above GROUP BY that reads an ungrouped column of this SELECT."""
        if isinstance(self.above.context, _Grouped):
            for column in query.find_all(exp.Column):
                if self.is_local(column) and not _is_of_inner_query(column, query, self.part):
                    self.above.context.column(column, self.all.syntax.span(column))

    def _member(self, node: Any, query: Any, translate: Callable[[Any], Typed], span: Span) -> Typed:
        inside = query.this if isinstance(query, exp.Subquery) else query
        outputs = self.all.outputs.get(id(inside))
        if outputs is None or isinstance(node.this, exp.Tuple):
            raise self.all.refused("this IN", node)
        if len(outputs) != 1:
            raise SinkqlError("SQ2221", "a subquery after IN must have one column", span)
        self._check_outer(query)
        type_ = outputs[0][1]
        subject = translate(node.this)
        if subject.type == types.UNKNOWN:
            subject = coerced(subject, types.TEXT if type_ == types.UNKNOWN else type_)
        other = column("other", type_, nullable=True, span=span)
        same = type_ == types.UNKNOWN or operators.alike((subject, other), span, "=")[0].type == subject.type
        whole = types.is_signed_integer(subject.type) and types.is_signed_integer(type_)
        if not whole and (not same or subject.type.name not in ORDERED):
            raise self.all.refused(f"IN of {subject.type.name} and {type_.name}", node, "Cast one of them.")
        copied = query.copy() if isinstance(query, exp.Subquery) else query.copy().subquery()
        return self.sqlite.atom(exp.In(this=self.sqlite.sql(settled(subject)), query=copied), types.BOOLEAN, span)

    def _client(self, node: Any, translate: Callable[[Any], Typed], span: Span) -> Typed:
        name = str(node.this).lower()
        counts, result = CLIENT[name]
        if len(node.expressions) not in counts:
            shown = one_of([*map(str, counts)])
            message = f"{name}() takes {shown} argument{'' if shown == '1' else 's'}, found {len(node.expressions)}"
            raise SinkqlError("SQ2211", message, span)
        values = [self.sqlite.sql(settled(self._with_known_type(translate(argument)))) for argument in node.expressions]
        return self.sqlite.atom(exp.Anonymous(this=name, expressions=values), result, span)

    def _cast(self, node: Any, translate: Callable[[Any], Typed], span: Span) -> Typed | None:
        """Cast to types that only Postgres has: names are texts, and oids are numbers."""
        target = " ".join(self.all.syntax.words(node.args["to"]).lower().split()).removeprefix("pg_catalog.").strip()
        if target in _NAMES:
            value = self._with_known_type(translate(node.this))
            return value if value.type == types.TEXT else None
        if target == "oid":
            value = translate(node.this)
            if value.type == types.UNKNOWN or types.is_signed_integer(value.type):
                return coerced(value, types.BIGINT)
            raise SinkqlError("SQ2218", f"cannot cast type {value.type.name} to oid", span)
        if target == "regclass" and isinstance(node.this, exp.Literal) and node.this.is_string:
            oid_query = exp.select("oid").from_("pg_class").where(exp.column("relname").eq(node.this.copy())).limit(1)
            return self.sqlite.atom(oid_query.subquery(), types.BIGINT, span)
        if target.startswith("reg"):
            raise self.all.refused(f"a cast to {target}", node, "Join the relation with the name.")
        return None


class _Rows(RowContext):
    """Names of ungrouped rows."""

    def __init__(self, select: _Select, where: str) -> None:
        super().__init__(Scope(now=select.all.now), where)
        self._select = select
        self._translator = Translator(select.all.syntax, self)

    def column(self, node: Any, span: Span) -> Typed:
        return self._select.column(node, span)

    def computed(self, node: Any) -> Typed | None:
        if isinstance(node, exp.Window):
            return _rank_call(self._select, node, self._translator)
        return super().computed(node) or self._select.inner(node, self._translator.translate)


class _Grouped(GroupContext):
    """Names above a GROUP BY."""

    def __init__(self, select: _Select, groups: Groups) -> None:
        by_all = Groupings((tuple(range(len(groups.by_tree))),))
        rows = Translator(select.all.syntax, _Rows(select, "an aggregate"))
        super().__init__(rows, Scope(now=select.all.now), groups, select.calls, by_all)
        self._select = select
        self._translator = Translator(select.all.syntax, self)

    def aggregate(self, node: Any, span: Span, filter_: Any | None) -> Typed:
        name = str(node.this).lower()
        if name in (*NAMES, *aggregate.NAMES):
            raise NoFormError("SQ2932", f"{name}() of system relations is not supported yet", span)
        return super().aggregate(node, span, filter_)

    def column(self, node: Any, span: Span) -> Typed:
        value = self._select.column(node, span)
        group = self.groups.find(value, span)
        if group is None and self._select.is_local(node):
            message = f'column "{node.name}" must appear in GROUP BY or be used in an aggregate function'
            raise SinkqlError("SQ2206", message, span, hint="Add it to GROUP BY, or use it in an aggregate.")
        return group or value

    def computed(self, node: Any) -> Typed | None:
        if isinstance(node, exp.Window):
            raise self._select.all.refused("a window function above GROUP BY", node)
        if isinstance(node, exp.Subquery | exp.Exists):
            return self._select.inner(node, self._translator.translate)
        return super().computed(node) or self._select.inner(node, self._translator.translate)


def _rank_call(select: _Select, node: Any, translator: Translator) -> Typed:
    """Return row_number(), rank() or dense_rank() over a window."""
    call, span = node.this, select.all.syntax.span(node)
    name = str(call.this).lower() if isinstance(call, exp.Anonymous) else ""
    if (
        name not in _RANKS
        or call.expressions
        or node.args.get("spec") is not None
        or node.args.get("alias") is not None
    ):
        raise select.all.refused("this window function", node, f"Use {one_of(_RANKS)}.")
    copied = exp.Window(this=exp.Anonymous(this=name))
    partition = []
    for node_ in node.args.get("partition_by") or ():
        value = translator.translate(node_)
        select.all.check_ordered(value.type, node_, "PARTITION BY")
        partition.append(select.sqlite.sql(settled(value)))
    terms = []
    for node_ in node.args["order"].expressions if node.args.get("order") is not None else ():
        value = translator.translate(node_.this)
        select.all.check_ordered(value.type, node_, "ORDER BY")
        term = exp.Ordered(this=select.sqlite.sql(settled(value)), desc=node_.args.get("desc"))
        term.set("nulls_first", node_.args.get("nulls_first"))
        _set_null_order(term)
        terms.append(term)
    copied.set("partition_by", partition)
    if terms:
        copied.set("order", exp.Order(expressions=terms))
    return select.sqlite.atom(copied, types.BIGINT, span)


def _as_key(sql: exp.Expr) -> exp.Expr:
    """Return the expression to group or order by; SQLite would read a plain number as a position."""
    return exp.select(sql).subquery() if isinstance(sql.unnest(), exp.Literal | exp.Neg) else sql


def _set_null_order(term: Any) -> None:
    """Set the order of NULLs: last in ASC and first in DESC, unless the user sets it."""
    if term.args.get("nulls_first") is None:
        term.set("nulls_first", bool(term.args.get("desc")))


def _has_aggregates(node: Any, part: Part) -> bool:
    """Return whether an expression contains an aggregate outside its subqueries."""
    return any(
        isinstance(inner, exp.Anonymous)
        and str(inner.this).lower() in AGGREGATES
        and not isinstance(inner.parent, exp.Window)
        for inner in node.walk(prune=lambda child: isinstance(child, exp.Query))
    )


def _is_of_inner_query(node: Any, query: Any, part: Part) -> bool:
    """Return whether a column belongs to an inner query that has a relation of the same name."""
    select = node.find_ancestor(exp.Select)
    while select is not None and select is not part.expression:
        if any(source.alias_or_name == node.table for source in select.find_all(exp.Table, exp.Subquery)):
            return True
        select = select.find_ancestor(exp.Select)
    return False


def _has_one_row_at_most(query: Any) -> bool:
    """Return whether a query has at most one row: an aggregate of all rows, or LIMIT 1."""
    limit = query.args.get("limit")
    if limit is not None and limit.expression.sql() in ("0", "1"):
        return True
    if not isinstance(query, exp.Select) or query.args.get("group") is not None:
        return False
    alone = query.args.get("from_") is None
    return alone or any(
        isinstance(inner, exp.Anonymous) and str(inner.this).lower() in _ONE_ROW
        for output in query.expressions
        for inner in output.walk(prune=lambda child: isinstance(child, exp.Query | exp.Window))
    )
