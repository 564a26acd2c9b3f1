"""Define a job as data: one sink's work, and its JSON."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from sinkql import codec
from sinkql.logical import Execution, expression
from sinkql.logical.expression import allow_deep_trees
from sinkql.logical.function import AGGREGATES, CASTS, FUNCTIONS
from sinkql.logical.type import decoded, encoded
from sinkql.physical.graph import Copartitioned, Graph, copartitioned
from sinkql.physical.identity import plan_of
from sinkql.physical.operator import (
    VIEW,
    Aggregate,
    Arrange,
    Bound,
    Connection,
    Map,
    Operator,
    Read,
    Stateful,
    Write,
    arrangements_of,
)


class Earlier(msgspec.Struct, frozen=True, omit_defaults=True):
    """An earlier plan of a sink, in whose table the sink continues.

    `renamed` maps earlier column names to present ones, None for a removed column. `unread` are columns of sources (by
    the names in offsets) that may have been only NULL under that plan; its rows have NULL there. If `again`, the
    earlier rows are no longer valid, and a full refresh computes them from the start of the sources.
    """

    plan: str
    renamed: dict[str, str | None] = {}
    unread: tuple[tuple[str, str], ...] = ()
    again: bool = False


class StatePath(msgspec.Struct, frozen=True):
    """The place of the state of a cluster's sinks: a folder, or an object store with its connection."""

    path: str
    connection: Connection | None = None


class Job(msgspec.Struct, frozen=True):
    """One sink's work.

    `texts` are the CREATE statements that origins point into, by item. `follows` are the earlier plans of the sink.
    `shared` are operators that are used several times, each after its inputs. `state` is the place of the
    sink's state, None for the catalog's folder. `buckets` is the number of hash buckets, None for the number of the
    cluster. `timeline` has the inputs that are read at ticks, by the names in offsets, and the sources below each.
    `indexes` are the arrangements that a view's job keeps of the changes in its log. `execution` and `spark_idle` are
    the options of the cluster: where batches run, and after which time without use Spark stops.

    A reader's options under the name `tuning` do not affect rows. Large: it is one JSON document.
    """

    sink: str
    sink_id: str
    cluster: str
    master: str
    conf: dict[str, str]
    commit_interval: timedelta
    max_rows_per_commit: int
    write: Write
    texts: dict[str, str]
    snapshot: bool = True
    follows: tuple[Earlier, ...] = ()
    shared: dict[str, Operator] = {}
    state: StatePath | None = None
    buckets: int | None = None
    timeline: dict[str, tuple[str, ...]] = {}
    indexes: tuple[Arrange, ...] = ()
    execution: Execution = "AUTO"
    spark_idle: timedelta = timedelta(minutes=5)

    @property
    def plan(self) -> str:
        """Return the plan hash: the hash of everything that decides the rows it writes."""
        return plan_of(self.write, self.shared)

    @property
    def renewable(self) -> bool:
        """Return whether a full refresh may recompute all rows and replace the present ones."""
        write = self.write
        foreign = write.options.get("existing_rows") == "keep"
        return write.mode == "upsert" and not write.final and self.snapshot and not foreign

    @property
    def view(self) -> bool:
        """Return whether this is the job of a materialized view, whose table is a log."""
        return self.write.connector == VIEW

    @property
    def graph(self) -> Graph:
        """Return the operators that produce the rows it writes."""
        return Graph(self.write.input, self.shared)

    @property
    def copartitioned(self) -> Copartitioned | None:
        """Return the operator whose tasks write their own output, None if there is no such operator."""
        return copartitioned(self.write.input, [column.name for column in self.write.columns], self.write.key)

    def operators(self) -> list[Operator]:
        """Return all operators, inputs first."""
        return self.graph.operators()

    def reads(self) -> tuple[Read, ...]:
        """Return the job's distinct sources, in the order of the tree."""
        reads: dict[str, Read] = {}
        for operator in self.operators():
            if isinstance(operator, Read):
                reads.setdefault(operator.source, operator)
        return tuple(reads.values())

    def secrets(self) -> frozenset[str]:
        """Return the full names of the secrets in its connections, sources and formats."""
        write, reads = self.write, list(self.reads())
        state_connection = self.state.connection if self.state is not None else None
        possible = (
            write.connection,
            write.store,
            state_connection,
            *(connection for read in reads for connection in (read.connection, read.log)),
        )
        connections = [connection for connection in possible if connection is not None]
        for connection in connections:  # the list grows by connections that these use
            connections += connection.through.values()
        options = (
            [connection.options for connection in connections] + [read.options for read in reads] + [write.options]
        )
        return frozenset(name for option in options for name in secrets_in(option))

    @property
    def timed(self) -> bool:
        """Return whether its rows depend on the time of a commit."""
        return any(isinstance(operator, Bound) for operator in self.operators())

    def arrangements(self) -> frozenset[str]:
        """Return the names of its operators' arrangements."""
        return frozenset(name for operator in self.operators() for name in arrangements_of(operator))

    @property
    def remote(self) -> bool:
        """Return whether its tasks run on other machines than the process that runs the job."""
        return not self.master.startswith("local")

    def stateful(self) -> bool:
        """Return whether an operator or an index of the job keeps state."""
        return bool(self.indexes) or any(isinstance(operator, Stateful) for operator in self.operators())


_DECODER = codec.decoder(Job, decoded)
"""Created at import: msgspec 0.22 crashes the process if several threads first decode a type at the same time."""


def encode(job: Job) -> bytes:
    """Return the job as indented JSON, which `decode` reads back as an equal job."""
    allow_deep_trees()
    return msgspec.json.format(msgspec.json.encode(job, enc_hook=encoded), indent=2)


def to_data(plan: Job | Graph | Operator) -> Any:
    """Return a job or operators as data for JSON."""
    allow_deep_trees()
    return msgspec.to_builtins(plan, enc_hook=encoded)


def decode(data: bytes) -> Job:
    """Read a job from JSON; raise `msgspec.ValidationError` if it is invalid."""
    allow_deep_trees()
    return _DECODER.decode(data)


def meant_otherwise(job: Job) -> str | None:
    """Return a function, cast or aggregate of a job whose meaning version differs here, None if all are equal."""
    for operator in job.operators():
        if isinstance(operator, Aggregate):
            for call in operator.calls:
                if AGGREGATES.get(call.function) != call.version:
                    return call.function
        if isinstance(operator, Map):
            outputs = operator.outputs if operator.where is None else (*operator.outputs, operator.where)
            for output in outputs:
                for node in expression.walk(output.expression):
                    versions = _versions_of(node)
                    if versions is not None and versions[1] != versions[2]:
                        return versions[0]
    return None


def _versions_of(node: expression.Expression) -> tuple[str, int, int | None] | None:
    """Return a node's function, the meaning version of its plan, and the present meaning version."""
    match node:
        case expression.Call():
            listed = FUNCTIONS.get(node.function)
            return node.function, node.version, None if listed is None else listed.version
        case expression.Cast():
            names = (node.operand.type.name, node.type.name)
            return "{} → {}".format(*names), node.version, CASTS.get(names)
        case expression.Reference() | expression.Literal() | expression.Case():
            return None


def secrets_in(data: Any) -> set[str]:
    """Return the full names of the secrets in options, from each `{"secret": name}`."""
    match data:
        case {"secret": str(name)}:
            return {name}
        case dict():
            return {name for value in data.values() for name in secrets_in(value)}
        case list() | tuple():
            return {name for value in data for name in secrets_in(value)}
        case _:
            return set()
