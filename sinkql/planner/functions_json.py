"""Functions and operators of jsonb → Spark SQL."""

from __future__ import annotations

from sinkql.planner.functions_overload import Handler, Overload

OVERLOADS: dict[str, tuple[Overload, ...]] = {}
HANDLERS: dict[str, Handler] = {}
