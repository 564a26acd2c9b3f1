"""A job's operators → the Spark SQL that they run, to be read: EXPLAIN's last stage."""

from __future__ import annotations

from collections.abc import Iterator

from sinkql import physical
from sinkql.explain import title
from sinkql.lowering.spark.map import map_steps
from sinkql.lowering.spark.sql import quoted


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
                    yield ",\n".join(f"  {each}" for each in selected or ["*"])
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
