"""A job → the sides of joins that keep rows of a view which has indexes, and why: what EXPLAIN says of them."""

from __future__ import annotations

from collections.abc import Iterator

from sinkql import logical, physical
from sinkql.lowering.index import indexes_of, log_of
from sinkql.planner.name import short_name


def unused_indexes(job: physical.Job, catalog: logical.CatalogReader) -> list[str]:
    """Return lines that say in which indexes of views a job does not look up, though it joins the views, and why."""
    joins = (each for each in job.graph.running() if isinstance(each, physical.Join))
    return list(dict.fromkeys(line for join in joins for side in join.leaves for line in _lines(side, job, catalog)))


def _lines(side: physical.Side, job: physical.Job, catalog: logical.CatalogReader) -> Iterator[str]:
    view = _joined(side.input)
    if view is None or side.index is not None or not indexes_of(view, catalog):
        return
    yield f"keeps rows of materialized view {short_name(view)}, which has an index: {_why(side, view, job, catalog)}"


def _why(side: physical.Side, view: str, job: physical.Job, catalog: logical.CatalogReader) -> str:
    item = catalog.item(view)
    assert isinstance(item, logical.View)
    if item.cluster != job.cluster:
        return f"that is in cluster {short_name(item.cluster)}"
    if log_of(side.input) is None:
        return "they are filtered before the join"
    return "it is by other expressions than they are joined on, or in another order"


def _joined(operator: physical.Operator) -> str | None:
    """Return the view whose log an operator projects or filters."""
    while isinstance(operator, physical.Map):
        operator = operator.input
    return operator.name if isinstance(operator, physical.Read) and operator.connector == physical.VIEW else None
