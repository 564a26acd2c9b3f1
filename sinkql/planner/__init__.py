"""Statement, facts and catalog → `logical`: what a statement means. No network, no effects.

* `statement`: `plan`: one item's meaning, what it depends on, and what the user should know.
* `name`, `scope`: names → items of the catalog; what one statement depends on, and its notices.
* `secret`, `connection`, `cluster`, `source`, `view`, `sink`: one statement family each.
* `rule`: what must hold of a sink, in the order it is checked.
* `qualify`: the statement with every name written in full, as the catalog stores it.
* `drop`: what DROP takes away, in which order.
* `setting`: settings, their defaults and what values they take.
* `query` and its neighbours: a view's SELECT → `logical.Relation`.
"""

from sinkql.planner.drop import plan_drop
from sinkql.planner.qualify import qualify
from sinkql.planner.scope import Planned
from sinkql.planner.statement import plan

__all__ = ["Planned", "plan", "plan_drop", "qualify"]
