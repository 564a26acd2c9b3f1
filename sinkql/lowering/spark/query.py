"""Write a relation as one query over named inputs, for a single run, and a job's operators as text for EXPLAIN."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sinkql import logical, physical
from sinkql.explain import title
from sinkql.lowering.spark.expression import order_sql, spark_sql
from sinkql.lowering.spark.sql import quoted, spark_type
from sinkql.lowering.spark.task_input import map_steps
from sinkql.lowering.spark.window import collect_sql, rank_sql, window_sql
from sinkql.machine import clock
from sinkql.planner.query.plan import OneShotQuery


@dataclass(slots=True)
class QuerySql:
    """Writes a query; `inputs` are the relations that it reads, by the names of their tables in the text.

    Rows with limited visibility are those visible at `now_ms`, in milliseconds since 1970.
    """

    catalog: logical.CatalogReader
    inputs: dict[str, str] = field(default_factory=dict)
    now_ms: int = field(default_factory=clock.time_ms)

    def once(self, query: OneShotQuery) -> str:
        """Return the text of a query with its order and limit."""
        columns = query.relation.shape.columns
        sql = f"SELECT {_list(columns)} FROM ({self.relation(query.relation)})"
        if query.order:
            terms = [
                f"{order_sql(_column(columns[term.place]))} {'DESC' if term.descending else 'ASC'}"
                f" NULLS {'FIRST' if term.nulls_first else 'LAST'}"
                for term in query.order
            ]
            sql += f" ORDER BY {', '.join(terms)}"
        if query.limit is not None:
            sql += f" LIMIT {query.limit}"
        return sql + (f" OFFSET {query.offset}" if query.offset else "")

    def relation(self, relation: logical.Relation) -> str:
        """Return a relation's rows as a SELECT."""
        match relation:
            case logical.Get():
                return self._get(relation)
            case logical.Project():
                outputs = ", ".join(
                    f"{spark_sql(output.expression)} AS {quoted(output.name)}" for output in relation.outputs
                )
                return f"SELECT {outputs} FROM ({self.relation(relation.input)})"
            case logical.Filter():
                return f"SELECT * FROM ({self.relation(relation.input)}) WHERE {spark_sql(relation.predicate)}"
            case logical.Aggregate():
                return self._aggregate(relation)
            case logical.Union():
                names = [column.name for column in relation.shape.columns]
                return " UNION ALL ".join(self._renamed(input_, names) for input_ in relation.inputs)
            case logical.Join():
                return self._join(relation)
            case logical.Flatten():
                return self._flatten(relation)
            case logical.Repeat():
                copies = f"SELECT *, explode(array_repeat(1, CAST({spark_sql(relation.times)} AS INT)))"
                return f"SELECT {_list(relation.shape.columns)} FROM ({copies} FROM ({self.relation(relation.input)}))"
            case logical.Bound():
                tests = [f"{spark_sql(relation.begin)} <= {self.now_ms}L"] if relation.begin is not None else []
                tests += [f"{self.now_ms}L < {spark_sql(relation.end)}"] if relation.end is not None else []
                return f"SELECT * FROM ({self.relation(relation.input)}) WHERE {' AND '.join(tests)}"
            case logical.Rank():
                return rank_sql(relation, self.relation(relation.input))
            case logical.Window():
                return window_sql(relation, self.relation(relation.input))
            case logical.Collect():
                return collect_sql(relation, self.relation(relation.input))

    def _flatten(self, flatten: logical.Flatten) -> str:
        columns = flatten.input.shape.columns
        element, *number = (quoted(column.name) for column in flatten.shape.columns[len(columns) :])
        explode = "posexplode_outer" if flatten.outer else "posexplode"
        flat = f"{explode}({spark_sql(flatten.array)}) AS (`$place`, {element})"
        shown = [
            *([_list(columns)] if columns else []),
            element,
            *(f"CAST(`$place` + 1 AS BIGINT) AS {column}" for column in number),
        ]
        return f"SELECT {', '.join(shown)} FROM (SELECT *, {flat} FROM ({self.relation(flatten.input)}))"

    def _renamed(self, relation: logical.Relation, names: list[str]) -> str:
        columns = zip(relation.shape.columns, names, strict=True)
        chosen = ", ".join(f"{quoted(column.name)} AS {quoted(name)}" for column, name in columns)
        return f"SELECT {chosen} FROM ({self.relation(relation)})"

    def _join(self, join: logical.Join) -> str:
        conditions = [f"{spark_sql(key.left)} {'<=>' if key.safe else '='} {spark_sql(key.right)}" for key in join.keys]
        if join.residual is not None:
            conditions.append(f"({spark_sql(join.residual)})")
        on = " AND ".join(conditions) or "TRUE"
        sides = f"({self.relation(join.left)}) {_JOINS[join.kind]} JOIN ({self.relation(join.right)})"
        return f"SELECT {_list(join.shape.columns)} FROM {sides} ON {on}"

    def _get(self, get: logical.Get) -> str:
        if get.item == logical.ONE.item:
            return "SELECT 1 AS `$one`"
        item = self.catalog.item(get.item)
        if isinstance(item, logical.View):
            return self._renamed(item.relation, [column.name for column in item.shape.columns])
        name = self.inputs.setdefault(get.item, f"input{len(self.inputs)}")
        return f"SELECT {_list(get.shape.columns)} FROM {name}"

    def _aggregate(self, aggregate: logical.Aggregate) -> str:
        groups = [f"{spark_sql(output.expression)} AS {quoted(output.name)}" for output in aggregate.group]
        calls = [f"{_call(call)} AS {quoted(call.name)}" for call in aggregate.calls]
        sql = f"SELECT {', '.join([*groups, *calls])} FROM ({self.relation(aggregate.input)})"
        if groups:
            sql += f" GROUP BY {', '.join(spark_sql(output.expression) for output in aggregate.group)}"
        return sql


_JOINS = {
    logical.JoinKind.INNER: "INNER",
    logical.JoinKind.LEFT: "LEFT OUTER",
    logical.JoinKind.RIGHT: "RIGHT OUTER",
    logical.JoinKind.FULL: "FULL OUTER",
    logical.JoinKind.SEMI: "LEFT SEMI",
    logical.JoinKind.ANTI: "LEFT ANTI",
}


def _column(column: logical.Column) -> logical.Expression:
    return logical.Reference(column.name, column.type, nullable=column.nullable)


def _list(columns: tuple[logical.Column, ...]) -> str:
    return ", ".join(quoted(column.name) for column in columns)


def _call(call: logical.AggregateCall) -> str:
    type_ = spark_type(call.type)
    argument = "*" if call.argument is None else spark_sql(call.argument)
    if call.function == "sum":
        argument = f"CAST({argument} AS {type_})"  # the result's type, before the sum
    return f"CAST({call.function}({'DISTINCT ' if call.distinct else ''}{argument}) AS {type_})"


def job_sql(plan: physical.Job | physical.Graph | physical.Operator) -> str:
    """Return the Spark SQL texts of a plan's operators, inputs first."""
    match plan:
        case physical.Job():
            graph = plan.graph
        case physical.Graph():
            graph = plan
        case _:
            graph = physical.Graph(plan)
    return "\n".join(_graph_lines(graph))


def _graph_lines(graph: physical.Graph) -> Iterator[str]:
    for name, operator in graph.shared.items():
        yield from _lines(physical.Graph(operator))
        yield f"-- {name}"
    yield from _lines(physical.Graph(graph.root))


def _lines(graph: physical.Graph) -> Iterator[str]:
    for operator in graph.running():
        match operator:
            case physical.Map():
                steps = map_steps(operator)
                if steps.diff is not None:
                    yield f"SELECT\n  *,\n  {steps.diff} AS `$diff`"
                if steps.outputs or steps.diff is None:
                    selected = [f"{text} AS {quoted(name)}" for name, text in steps.outputs]
                    yield "SELECT"
                    yield ",\n".join(f"  {column}" for column in selected or ["*"])
                if steps.where is not None:
                    yield f"WHERE {steps.where}"
            case (
                physical.Read()
                | physical.Union()
                | physical.Flatten()
                | physical.Repeat()
                | physical.Use()
                | physical.Stateful()
            ):
                yield f"-- {title(operator)}"
