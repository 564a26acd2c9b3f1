"""EXPLAIN: a statement's syntax, an item's meaning or a job as an indented tree or a graph.

* `item`: The tree of a statement, a view or a sink: RAW and OPTIMIZED PLAN.
* `job`: The tree of a job, with its state: PHYSICAL PLAN, the default.
* `expression`: Expressions, names and options as SQL.
* `tree`: The tree itself, and its text or graph.

The output depends only on the plan, so it is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence

from sinkql import ast, logical, physical
from sinkql.explain.expression import sql as sql
from sinkql.explain.expression import without_literals as without_literals
from sinkql.explain.item import node_tree, sink_tree, view_tree
from sinkql.explain.job import Held as Held
from sinkql.explain.job import graph_tree, job_tree, operator_tree, with_state
from sinkql.explain.job import title as title
from sinkql.explain.tree import Tree, dot, lines, with_notes

Plan = ast.Statement | logical.Item | physical.Job | physical.Graph | physical.Operator


def to_text(plan: Plan, held: Held | None = None, notes: Sequence[str] = ()) -> str:
    """Return a plan as an indented tree, without a newline at its end.

    `notes` are lines about the whole plan. The operators of a job show the state that they `held`.
    """
    return "\n".join(lines(_with_state(plan, held, notes)))


def to_dot(plan: Plan, held: Held | None = None, notes: Sequence[str] = ()) -> str:
    """Return a plan as a graph in the DOT language, with the same notes and state."""
    return dot(_with_state(plan, held, notes))


def _with_state(plan: Plan, held: Held | None, notes: Sequence[str]) -> Tree:
    plan_tree = with_notes(_tree(plan), notes)
    return plan_tree if held is None or not isinstance(plan, physical.Job) else with_state(plan_tree, plan, held)


def _tree(plan: Plan) -> Tree:
    match plan:
        case physical.Job():
            return job_tree(plan)
        case physical.Graph():
            return graph_tree(plan)
        case (
            physical.Read()
            | physical.Map()
            | physical.Union()
            | physical.Flatten()
            | physical.Repeat()
            | physical.Use()
            | physical.Stateful()
        ):
            return operator_tree(plan)
        case logical.View():
            return view_tree(plan)
        case logical.Sink():
            return sink_tree(plan)
        case _:
            return node_tree(plan)
