"""Lower a logical sink to a physical job: inline views, choose operators, and fuse steps."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec

from sinkql import codec, logical, physical
from sinkql.lowering.common_subplan import deduplicate, named, share_subplans
from sinkql.lowering.context import Context
from sinkql.lowering.fused_join import fuse_joins
from sinkql.lowering.index import indexes_of, use_indexes
from sinkql.lowering.materialized_view import get_view_id, interval_of, logs_of, timeline_of
from sinkql.lowering.relation import ItemLowering, OneShotLowering, physical_columns

_MOST_ROWS = 5_000_000
_SINKS = uuid.UUID("6b1f0f6e-6b0e-5d3b-9a55-2f6f2d1f5c11")


def lower(name: str, catalog: logical.CatalogReader) -> physical.Job:
    """Return the job of a sink or of a materialized view with a job, by its full name.

    Pure: the same catalog gives the same job.
    """
    item = catalog.item(name)
    if isinstance(item, logical.View):
        return lower_materialized(item, catalog)
    entry, sink = logical.get_entry(catalog, name), logical.get_item(catalog, name, logical.Sink)
    logs = logs_of(name, catalog).read
    job = lower_sink(sink, catalog, sink_id=entry.facts.get("sink_id"), logs=logs)
    return msgspec.structs.replace(job, follows=_earlier(entry.facts), timeline=timeline_of(name, catalog))


def _earlier(facts: logical.Facts) -> tuple[physical.Earlier, ...]:
    return tuple(codec.convert(plan, physical.Earlier) for plan in facts.get("plans", ()))


def lower_sink(
    sink: logical.Sink,
    catalog: logical.CatalogReader,
    *,
    sink_id: str | None = None,
    logs: frozenset[str] = frozenset(),
) -> physical.Job:
    """Return the job of a planned sink, which need not be in the catalog; the default id comes from its name.

    The views `logs` are read from their logs.
    """
    cluster = logical.get_item(catalog, sink.cluster, logical.Cluster)
    # an index contains rows from before the start of a sink without a snapshot
    context = Context(catalog, logs, cluster.name if sink.snapshot else None)
    body = ItemLowering(context).item(sink.relation)
    proven = any(key <= set(sink.key) for key in sink.shape.keys)
    if sink.final or set(sink.key) != set(physical.key_of(body)):  # it must know which rows are overwritten
        body = context.retracting(body)
    if sink.key and not physical.sequenced(body) and physical.change_of(body) == "append":
        body = physical.Union((body,), "retract")  # its rows have no order
    change = physical.change_of(body)
    if sink.key and change == "retract" and not proven:
        # when a row of a key is removed, another row of the key may remain
        body, proven = physical.Pick(body, context.arrangement(), sink.key), True
    columns = physical_columns(sink.shape.columns)
    graph = deduplicate(physical.Graph(body, context.shared), [column.name for column in columns], sink.key)
    write = physical.Write(
        input=graph.root,
        connector=sink.kind,
        connection=context.connection(sink.connection),
        columns=columns,
        mode=sink.mode.value,
        change=change,
        changelog=sink.changelog,
        key=sink.key,
        proven=proven,
        options=dict(sink.options),
        store=context.connection(sink.store) if sink.store else None,
        final=sink.final,
    )
    return physical.Job(
        sink=sink.name,
        sink_id=sink_id or str(uuid.uuid5(_SINKS, sink.name)),
        cluster=cluster.name,
        master=cluster.master,
        conf=dict(cluster.conf),
        execution=cluster.execution,
        spark_idle=cluster.spark_idle,
        commit_interval=sink.commit_interval,
        max_rows_per_commit=sink.max_rows_per_commit,
        write=write,
        texts=context.texts,
        snapshot=sink.snapshot,
        shared=graph.shared,
        state=context.state(cluster),
        buckets=sink.buckets,
    )


def lower_materialized(view: logical.View, catalog: logical.CatalogReader) -> physical.Job:
    """Return the job of a view that keeps a log."""
    id_, cluster = get_view_id(view.name, catalog), logical.get_item(catalog, view.cluster, logical.Cluster)
    context = Context(catalog, logs_of(view.name, catalog).read, cluster.name)
    body = context.retracting(ItemLowering(context).operator(view))
    if physical.change_of(body) == "append":
        body = physical.Union((body,), "retract")
    columns = physical_columns(view.shape.columns)
    names = [column.name for column in columns]
    unique = view.shape.keys[0] if view.shape.keys and view.shape.keys[0] else frozenset(names)
    key = tuple(name for name in names if name in unique)
    graph = deduplicate(physical.Graph(body, context.shared), names, key)
    log = msgspec.structs.replace(ItemLowering(context).log(view), change="retract")
    indexes = tuple(use_indexes(index, log) for index in indexes_of(view.name, catalog))
    retain = 0 if view.retain is None else int(view.retain.total_seconds() * 1000)
    tuning: dict[str, Any] = {"retain_ms": retain}
    if indexes:
        tuning["indexes"] = [index.arrangement for index in indexes]
    write = physical.Write(
        input=graph.root,
        connector=physical.VIEW,
        connection=physical.Connection(view.name, physical.VIEW, {}),
        columns=columns,
        mode="upsert",
        change="retract",
        changelog=False,
        key=key,
        proven=True,
        options={"view_id": id_, "tuning": tuning},
    )
    return physical.Job(
        sink=view.name,
        sink_id=id_,
        cluster=cluster.name,
        master=cluster.master,
        conf=dict(cluster.conf),
        execution=cluster.execution,
        spark_idle=cluster.spark_idle,
        commit_interval=interval_of(view, catalog),
        max_rows_per_commit=_MOST_ROWS,
        write=write,
        texts=context.texts,
        shared=graph.shared,
        state=context.state(cluster),
        timeline=timeline_of(view.name, catalog),
        indexes=indexes,
    )


def lower_relation(source: logical.Source, catalog: logical.CatalogReader) -> physical.Read:
    """Return the read of a source, which need not be in the catalog."""
    return ItemLowering(Context(catalog)).source(source)


def lower_view(view: logical.View, catalog: logical.CatalogReader) -> tuple[physical.Graph, dict[str, str]]:
    """Return the operators that produce the rows of a view, and the statements of their origins."""
    context = Context(catalog)
    graph = share_subplans(physical.Graph(ItemLowering(context).operator(view), context.shared))
    return named(fuse_joins(graph)), context.texts


def lower_one_shot(relation: logical.Relation, catalog: logical.CatalogReader) -> physical.Graph:
    """Return the operators of a query that runs once over the present rows of its inputs."""
    context = Context(catalog, placed=True)
    return named(
        fuse_joins(share_subplans(physical.Graph(OneShotLowering(context).relation(relation), context.shared)))
    )


def lower_connection(name: str, catalog: logical.CatalogReader) -> physical.Connection:
    """Return a connection with the connections that it uses."""
    return Context(catalog).connection(name)
