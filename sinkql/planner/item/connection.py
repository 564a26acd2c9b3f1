"""Plan CREATE CONNECTION: its kind and the connector's options.

Also plans CREATE CLUSTER, a Spark application: its master and configuration, where batches run, and the place of its
sinks' state.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from sinkql import ast, logical
from sinkql.connector_api.options import bind, option_field, option_span
from sinkql.connector_api.planning import OutsideAccess, PlanningContext
from sinkql.connector_api.registry import Registry
from sinkql.connector_api.source_options import REACHED_BY, REACHES
from sinkql.errors import SinkqlError, Span, nearest
from sinkql.keywords import secret_setting
from sinkql.object_store.s3 import SCHEME
from sinkql.planner.name import find
from sinkql.planner.scope import Scope, kinds_hint


def plan_connection(full_name: str, statement: ast.CreateConnection, scope: Scope) -> logical.Connection:
    """Plan a connection with the connector of its kind.

    Raises SQ2502 for an unknown kind, SQ2903 for one that is not supported yet.
    """
    kinds = scope.registry.connections
    kind = kinds.get(statement.kind)
    if kind is not None:
        return logical.Connection(full_name, kind.name, kind.plan(statement, scope))
    if ("CONNECTION", statement.kind) in scope.registry.later:
        raise SinkqlError(
            "SQ2903",
            f"connections to {statement.kind} are not supported yet",
            statement.kind_span,
            hint=f"The kinds are {', '.join(sorted(kinds))}.",
        )
    raise SinkqlError(
        "SQ2502",
        f"no connector connects to {statement.kind}",
        statement.kind_span,
        hint=kinds_hint(statement.kind, kinds, scope.registry.expected("CONNECTION")),
    )


def validation(
    statement: ast.ValidateConnection, catalog: logical.CatalogReader, registry: Registry
) -> tuple[logical.Connection, Callable[[logical.Connection, OutsideAccess], None]]:
    """Return the connection that VALIDATE names, and its check; raise SQ2984 if the kind has no check."""
    connection = logical.get_item(catalog, find(catalog, statement.name, "CONNECTION").name, logical.Connection)
    check = registry.connections[connection.kind].validate
    if check is None:
        raise SinkqlError(
            "SQ2984",
            f"VALIDATE CONNECTION of a connection to {connection.kind} is not supported yet",
            statement.name.span,
            hint="Create a sink or a source that uses it, which tests the connection.",
        )
    return connection, check


_LATER = (
    "AUTO SCALING STRATEGY", "AVAILABILITY ZONES", "DISK", "EXPERIMENTAL ARRANGEMENT COMPRESSION",
    "INTROSPECTION DEBUGGING", "INTROSPECTION INTERVAL", "SCHEDULE", "WORKLOAD CLASS",
)  # fmt: skip
_IDLE, _REMOTE_IDLE, _SHORTEST_IDLE = timedelta(minutes=5), timedelta(minutes=30), timedelta(seconds=1)
_EXAMPLE = "STATE = 's3://bucket/prefix'"
_LOCAL = re.compile(r"local(\[([1-9]\d*|\*)\])?")


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The options of CREATE CLUSTER; `size` is for a local application, `master` for a remote one."""

    size: str | None = option_field("Spark on this machine with this number of cores, as `'local[2]'`", default=None)
    master: str | None = option_field("the address of a Spark master, instead of `SIZE`", default=None)
    executors: int | None = option_field("the number of executors", default=None)
    cores: int | None = option_field("the cores of each executor", default=None)
    memory: str | None = option_field("the memory of each executor, or of a local application, as `'4g'`", default=None)
    conf: dict[str, str] = field(default_factory=dict, metadata={"help": "further settings of Spark"})
    state: str | None = option_field(
        "a bucket (with `AWS CONNECTION`) or shared folder for the state of sinks",
        default=None,
        local_path=True,
    )
    aws_connection: ast.Name | None = option_field("the AWS connection for `STATE`", default=None)
    execution: logical.Execution = option_field(
        "where batches run: `AUTO` for Spark only if they need it, `SPARK` for always", default="AUTO"
    )
    spark_idle: timedelta | None = option_field(
        "with `AUTO`, Spark stops after this time without use; 5 minutes by default, 30 with `MASTER`",
        default=None,
    )
    managed: bool = option_field("only true is allowed", default=True)
    replication_factor: int = option_field("only 1 is allowed", default=1)


def plan_cluster(full_name: str, statement: ast.CreateCluster, planning: PlanningContext) -> logical.Cluster:
    """Plan a cluster; a local one has SIZE, a remote one MASTER and settings of its executors."""
    _check_supported(statement)
    options = bind(statement.options, ClusterOptions, owner="clusters", span=statement.name.span)
    master = _master(statement, options)
    conf = _conf(statement, options, local=options.master is None)
    state = _state(statement, options, planning)
    return logical.Cluster(full_name, master, conf, state, options.execution, _spark_idle(statement, options))


def _check_supported(statement: ast.CreateCluster) -> None:
    if statement.features:
        raise SinkqlError(
            "SQ2975",
            "cluster features are not supported yet",
            statement.features[0].span,
            hint="Leave FEATURES out.",
        )
    for option in statement.options:
        if option.name == "REPLICAS" or (option.name == "MANAGED" and _is_false(option.value)):
            raise SinkqlError(
                "SQ2908",
                "clusters with REPLICAS are not supported yet",
                option.span,
                hint="Write SIZE = 'local[2]' instead: a managed cluster is one Spark application.",
            )
        if option.name in _LATER:
            raise SinkqlError(
                "SQ2909", f"cluster option {option.name} is not supported yet", option.name_span, hint="Leave it out."
            )
        if option.name == "REPLICATION FACTOR" and not (
            isinstance(option.value, ast.Number) and option.value.text == "1"
        ):
            raise SinkqlError(
                "SQ2910",
                "a REPLICATION FACTOR other than 1 is not supported yet",
                option.span,
                hint="Write REPLICATION FACTOR = 1.",
            )


def _is_false(value: ast.Value | None) -> bool:
    match value:
        case ast.Boolean():
            return not value.value
        case ast.Text():
            return value.value.lower() == "false"
        case _:
            return False


def _master(statement: ast.CreateCluster, options: ClusterOptions) -> str:
    if options.size is not None and options.master is not None:
        raise SinkqlError(
            "SQ2603",
            "a cluster cannot have both SIZE and MASTER",
            option_span(statement.options, "MASTER", statement.name.span),
            hint="Leave out one: SIZE is for Spark in this process, MASTER for a Spark cluster.",
        )
    if options.master is not None:
        _check_master(options.master, option_span(statement.options, "MASTER", statement.name.span))
        return options.master
    if options.size is None:
        raise SinkqlError(
            "SQ2602",
            f'cluster "{statement.name.value}" has no SIZE',
            statement.name.span,
            hint="Write SIZE = 'local[2]', or MASTER = 'spark://…' for a cluster that runs elsewhere.",
        )
    if not _LOCAL.fullmatch(options.size):
        near = nearest(options.size, ("local[*]", "local[2]"))
        raise SinkqlError(
            "SQ2604",
            f'invalid cluster size "{options.size}"',
            option_span(statement.options, "SIZE", statement.name.span),
            hint=f"Did you mean '{near}'?" if near else "Write SIZE = 'local[2]' for two cores, 'local[*]' for all.",
        )
    return options.size


def _spark_idle(statement: ast.CreateCluster, options: ClusterOptions) -> timedelta:
    if options.spark_idle is None:
        return _IDLE if options.master is None else _REMOTE_IDLE
    if options.spark_idle < _SHORTEST_IDLE:
        raise SinkqlError(
            "SQ2309",
            "SPARK IDLE must be at least 1 second",
            option_span(statement.options, "SPARK IDLE", statement.name.span),
            hint="Write SPARK IDLE = '5m', or EXECUTION = SPARK, with which Spark never stops.",
        )
    return options.spark_idle


def _check_master(master: str, span: Span) -> None:
    if not re.fullmatch(r"yarn|(spark|k8s)://\S+", master):
        raise SinkqlError(
            "SQ2605",
            f'"{master}" is not the address of a Spark master',
            span,
            hint="Write MASTER = 'spark://host:7077', 'yarn' or 'k8s://https://host:6443'; SIZE = 'local[2]' is local.",
        )


def _conf(statement: ast.CreateCluster, options: ClusterOptions, *, local: bool) -> dict[str, str]:
    conf: dict[str, str] = {}
    for name, value, key in (
        ("EXECUTORS", options.executors, "spark.executor.instances"),
        ("CORES", options.cores, "spark.executor.cores"),
    ):
        if value is None:
            continue
        span = option_span(statement.options, name, statement.name.span)
        if local:
            raise SinkqlError(
                "SQ2606",
                f"a local cluster cannot have {name}",
                span,
                hint="Leave it out; SIZE = 'local[4]' uses four cores of this host.",
            )
        if value == 0:
            raise SinkqlError("SQ2326", f"{name} must be at least 1", span, hint=f"Write {name} = 1 or more.")
        conf[key] = str(value)
    if options.memory is not None:
        if not re.fullmatch(r"[1-9]\d*[kmgt]", options.memory.lower()):
            raise SinkqlError(
                "SQ2608",
                f'invalid amount of memory "{options.memory}"',
                option_span(statement.options, "MEMORY", statement.name.span),
                hint="Write MEMORY = '4g'.",
            )
        conf["spark.driver.memory" if local else "spark.executor.memory"] = options.memory.lower()
    for key in options.conf:
        if not key.startswith("spark."):
            raise SinkqlError(
                "SQ2609",
                f'"{key}" is not a Spark setting',
                option_span(statement.options, "CONF", statement.name.span),
                hint="Names of Spark settings begin with spark., as in MAP['spark.ui.enabled' => 'true'].",
            )
        if secret_setting(key):
            raise _clear_secret_error(key, option_span(statement.options, "CONF", statement.name.span))
    return conf | options.conf


def _state(
    statement: ast.CreateCluster, options: ClusterOptions, planning: PlanningContext
) -> logical.StatePath | None:
    state, connection = options.state, options.aws_connection
    where = option_span(statement.options, "STATE", statement.name.span)
    if state is None:
        if connection is None:
            if options.master is not None:
                raise SinkqlError(
                    "SQ2618",
                    "a cluster with MASTER requires STATE",
                    option_span(statement.options, "MASTER", statement.name.span),
                    hint=f"Add {_EXAMPLE}, AWS CONNECTION = name, or a folder that all machines of the cluster share.",
                )
            return None
        raise SinkqlError(
            "SQ2615",
            "AWS CONNECTION requires STATE",
            option_span(statement.options, REACHED_BY, statement.name.span),
            hint=f"Add {_EXAMPLE}.",
        )
    if not state.startswith((SCHEME, "/")) or re.fullmatch(rf"{SCHEME}(/.*)?", state) is not None:
        raise SinkqlError(
            "SQ2615",
            f'STATE "{state}" names neither a bucket nor a folder',
            where,
            hint=f"Write {_EXAMPLE}, or the absolute path of a folder, as '/mnt/state'. Without STATE, the state is in "
            "the catalog's folder.",
        )
    if not state.startswith(SCHEME):
        if connection is None:
            return logical.StatePath(state)
        raise SinkqlError(
            "SQ2615",
            "AWS CONNECTION is for STATE in a bucket",
            option_span(statement.options, REACHED_BY, statement.name.span),
            hint=f"Leave it out, or write {_EXAMPLE}.",
        )
    if connection is None:
        raise SinkqlError(
            "SQ2615",
            "STATE in a bucket requires AWS CONNECTION",
            where,
            hint="Add AWS CONNECTION = name; CREATE CONNECTION name TO AWS (…) creates the connection.",
        )
    return logical.StatePath(state, planning.connection(connection, REACHES).name)


def _clear_secret_error(key: str, span: Span) -> SinkqlError:
    hint = (
        "Use 'spark.authenticate.secret.file'."
        if key.lower() == "spark.authenticate.secret"
        else "Store it in a Hadoop credential store: 'spark.hadoop.hadoop.security.credential.provider.path' => 'jceks://…'."
    )
    return SinkqlError(
        "SQ2107", f'Spark setting "{key}" is a secret, which CONF would store in clear text', span, hint=hint
    )
